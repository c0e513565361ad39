//! A page of an organization's own list: what it reported, and what others did with its click tokens.
//!
//! Each report is an item, at its own time, so windows are ranges of the primary key and add up. An organization that reports one
//! fetch in two roles has two items. Reports with a common correlation id can't be one item: of each observer only the first
//! accepted joins an event, the others are events of their own, and a report doesn't say which it is.

use super::Reads;
use super::event_page::{EventPage, Item, on_page};
use super::report_content::Place;
use super::scope::{FIRST_MS, LAST_MS};
use super::statement::Statement;
use crate::access::visibility::OwnReports;
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::ReportedBy;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;

/// Time and identity of the reports on the page, and how many the list has.
#[derive(clickhouse::Row, Deserialize)]
struct ListedReports {
    total: u64,
    places: Vec<(i64, u128)>,
}

impl Reads {
    /// Returns a page of the reports that an organization made, or that others made with its click tokens.
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

/// A statement over an organization's own reports of a period.
pub(super) fn own_reports(sql: &'static str, own: &OwnReports, period: &Period) -> Statement {
    let end = |ms: Option<i64>, otherwise: i64| ms.unwrap_or(otherwise).clamp(FIRST_MS, LAST_MS);
    Statement::new(sql)
        .with("organization", own.organization_id().to_string())
        .with("since_ms", end(period.from_ms, FIRST_MS))
        .with("until_ms", end(period.before_ms, LAST_MS))
}
