//! A page of an organization's own list: its reports, and others' reports with its click tokens.
//!
//! Each report is an item with its own time, so periods are ranges of the primary key and their figures add up. An organization that
//! reports a fetch in two roles has two items. Reports with the same correlation id are not merged: only each observer's first accepted
//! report joins an event, and a report doesn't show which one that was.

use super::Reads;
use super::event_page::{EventPage, Item, on_page};
use super::report_content::Place;
use super::scope::bounds;
use super::statement::Statement;
use crate::access::visibility::OwnReports;
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::ReportedBy;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;

/// Time and identity of the reports on the page, and the list's length.
#[derive(clickhouse::Row, Deserialize)]
struct ListedReports {
    total: u64,
    places: Vec<(i64, u128)>,
}

impl Reads {
    pub(crate) async fn own_events(
        &self,
        own: &OwnReports,
        period: &Period,
        reported_by: Option<ReportedBy>,
        (at, walk): (Paging, &Cursor),
    ) -> Result<EventPage, ApiError> {
        let statement = own_reports(include_str!("../../sql/agent_events.sql"), own, period)
            .with("reported_by", reported_by.map_or("", ReportedBy::as_str));
        let found: Vec<ListedReports> = self.all(on_page(statement, at, walk)).await?;
        let total = found.first().map_or(0, |found| found.total);
        let organization = own.organization_id().to_string();
        let item = |(at_ms, identity)| {
            let place = Place { organization: organization.clone(), at_ms, identity };
            (at_ms, identity, place, Item::Report)
        };
        self.page_of((total, at), found.iter().flat_map(|found| found.places.iter().copied()).map(item).collect()).await
    }
}

/// Binds an organization's id and a period to a statement.
pub(super) fn own_reports(sql: &'static str, own: &OwnReports, period: &Period) -> Statement {
    let (since, until) = bounds(period);
    Statement::new(sql).with("organization", own.organization_id().to_string()).with("since_ms", since).with("until_ms", until)
}
