//! A page of an owner's events for its export: each visible report with its content (docs/api/reads.md#get-content-ownersdocuments).
//!
//! Events are ordered as in their list. A page starts with the first report of each event, followed by the second reports, and so on.
//! Reporting them in this order therefore accepts each event's reports in their original order.

use super::Reads;
use super::event_page::on_page;
use super::report_content::{Place, ReportContent, Reports, missing};
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::VecDeque;

/// Length of the first period that is searched. Each further one is [`WIDER`] times as long.
const FIRST_SEARCH_MS: i64 = 3_600_000;
const WIDER: i64 = 8;
/// Reports per query, because the list of places is a parameter.
const REPORTS_PER_QUERY: usize = 1_000;

/// A report as its owner may see it.
pub(crate) struct ExportedReport {
    pub(crate) listed: ListedReport,
    pub(crate) content: ReportContent,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedReport {
    /// Position among the visible reports of its event, from 0.
    pub(crate) nth: usize,
    pub(crate) organization: String,
    /// Empty if the owner may not see it.
    pub(crate) agent: String,
    /// Digest of the session; 0 without one.
    pub(crate) session: u64,
    /// Position of its event in the page.
    event: usize,
    pub(crate) event_key: u128,
    /// Whether other reports with its correlation ID belong to its event.
    pub(crate) is_joined: bool,
    pub(crate) shows_agent: bool,
    at_ms: i64,
    identity: u128,
}

/// Organization, time, identity, agent and session.
type VisibleReport = (String, i64, u128, String, u64);

#[derive(clickhouse::Row, Deserialize)]
struct ListedEvent {
    key: u128,
    at_ms: i64,
    shows_agent: u8,
    is_joined: u8,
    /// In order of acceptance.
    visible_reports: Vec<VisibleReport>,
}

/// A page whose reports are still arriving.
pub(crate) struct ReportPage {
    reads: Reads,
    /// The next page's cursor, if this page is full.
    pub(crate) next: Option<String>,
    listed: VecDeque<ListedReport>,
    /// The reports of the current query, and how many of them have not arrived.
    current: Option<(Reports, usize)>,
}

impl ReportPage {
    pub(crate) async fn next_report(&mut self) -> Result<Option<ExportedReport>, ApiError> {
        let Some(listed) = self.listed.pop_front() else { return Ok(None) };
        let (mut reports, rest) = match self.current.take() {
            Some(current) => current,
            None => {
                let listed = std::iter::once(&listed).chain(&self.listed).take(REPORTS_PER_QUERY);
                let places: Vec<Place> = listed.map(ListedReport::place).collect();
                (self.reads.exported_reports_at(&places).await?, places.len())
            }
        };
        let content = reports.next().await?.ok_or_else(missing)?;
        self.current = (rest > 1).then_some((reports, rest - 1));
        Ok(Some(ExportedReport { listed, content }))
    }
}

impl ListedReport {
    fn place(&self) -> Place {
        Place { organization: self.organization.clone(), at_ms: self.at_ms, identity: self.identity }
    }
}

impl ListedEvent {
    fn into_reports(self, event: usize) -> impl Iterator<Item = ListedReport> {
        let (event_key, is_joined, shows_agent) = (self.key, self.is_joined == 1, self.shows_agent == 1);
        self.visible_reports.into_iter().enumerate().map(move |(nth, (organization, at_ms, identity, agent, session))| {
            let agent = if shows_agent { agent } else { String::new() };
            ListedReport { nth, organization, agent, session, event, event_key, is_joined, shows_agent, at_ms, identity }
        })
    }
}

impl Reads {
    /// Returns up to `limit` events with their reports. Searches backwards in growing parts of the period, so a page of a long period is
    /// as cheap as one of a short period.
    pub(crate) async fn document_page(
        self,
        (seen, period, filter): (&Visibility, &Period, &EventFilter),
        (limit, after): (u64, &Cursor),
        now: DateTime<Utc>,
    ) -> Result<ReportPage, ApiError> {
        let (first_ms, last_ms) = Scope::new(seen, period).window();
        let until_ms = after.after.as_ref().map_or(last_ms, |after| after.at_ms.saturating_add(1).clamp(first_ms, last_ms));
        let mut searched_ms = FIRST_SEARCH_MS;
        let events = loop {
            let since_ms = until_ms.min(now.timestamp_millis()).saturating_sub(searched_ms).max(first_ms);
            let part = Period { from_ms: Some(since_ms), before_ms: Some(until_ms), ..Period::default() };
            let statement =
                Scope::new(seen, &part).filtered(filter).bind(Statement::new(include_str!("../../sql/documents_page.sql")));
            let events: Vec<ListedEvent> = self.all(on_page(statement, Paging { limit, offset: 0 }, after)).await?;
            if events.len() as u64 == limit || since_ms == first_ms {
                break events;
            }
            searched_ms = searched_ms.saturating_mul(WIDER);
        };
        let last = events.last().filter(|_| events.len() as u64 == limit);
        let next = last.map(|event| Position { at_ms: event.at_ms, key: event.key }.encode());
        let mut listed: Vec<_> = events.into_iter().enumerate().flat_map(|(nth, event)| event.into_reports(nth)).collect();
        listed.sort_unstable();
        Ok(ReportPage { reads: self, next, listed: listed.into(), current: None })
    }
}
