//! An owner's event with all its reports, in three statements: the reports with the id, the events they belong to, and the content of the
//! newest event's reports.
//!
//! Names only agents, and the organization whose report represents the event (docs/api/reads.md).

use super::Reads;
use super::event_page::{EventRow, ReportSignature, roles_of};
use super::report_content::{Place, ReportContent};
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use schemas::event::SourceRole;
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::HashSet;
use uuid::Uuid;

const MAX_OF_ID: u64 = 1_000;

/// An event and its reports, as an owner may see them.
pub(crate) struct FoundEvent {
    /// Number of events in the period that have a report with this id, including this one.
    pub(crate) of_this_id: u64,
    /// The event as in the list.
    pub(crate) event: EventRow,
    /// For a fetch: whether an agent claims it, and whether another organization's server reports it.
    pub(crate) claimed_and_seen: Option<(bool, bool)>,
    /// One report per observer, sorted by role (agent, edge, origin, index, no role), then by acceptance.
    pub(crate) reports: Vec<EventRow>,
}

#[derive(clickhouse::Row, Deserialize)]
struct Candidate {
    identity: u128,
    /// 0 if the report doesn't share a key.
    group_key: u128,
}

/// A report's organization, time and identity.
type VisibleReport = (String, i64, u128);

#[derive(clickhouse::Row, Deserialize)]
struct KeyedEvent {
    key: u128,
    at_ms: i64,
    roles: u8,
    outcome: String,
    bot: String,
    is_claimed: u8,
    is_seen: u8,
    shows_agent: u8,
    /// Reports in order of acceptance.
    visible_reports: Vec<VisibleReport>,
}

impl KeyedEvent {
    fn places(&self) -> Vec<Place> {
        let reports = self.visible_reports.iter().cloned();
        reports.map(|(organization, at_ms, identity)| Place { organization, at_ms, identity }).collect()
    }

    fn has_any(&self, identities: &HashSet<u128>) -> bool {
        self.visible_reports.iter().any(|(_, _, identity)| identities.contains(identity))
    }
}

impl Reads {
    /// Returns the newest event in the period that has a report with this id. The event's key is the id of reports without one. Returns
    /// `None` if the owner may not see such an event.
    pub(crate) async fn owners_event(
        &self,
        seen: &Visibility,
        period: &Period,
        event_id: &str,
    ) -> Result<Option<FoundEvent>, ApiError> {
        let scope = Scope::new(seen, period);
        let candidates = self.reports_with_id(&scope, event_id).await?;
        let key = key_of(event_id);
        let keys = candidates.iter().flat_map(|report| [report.identity, report.group_key]).chain(key);
        let keys: Vec<String> = keys.filter(|key| *key != 0).map(|key| key.to_string()).collect();
        if keys.is_empty() {
            return Ok(None);
        }
        let statement = scope.bind(Statement::new(include_str!("../../sql/one_event.sql")));
        let events: Vec<KeyedEvent> = self.all(statement.with("keys", keys)).await?;
        let identities = candidates.iter().map(|report| report.identity).collect();
        let mut named = Vec::new();
        for event in events {
            if event.has_any(&identities) || (Some(event.key) == key && self.has_report_without_id(&event).await?) {
                named.push(event);
            }
        }
        let of_this_id = named.len() as u64;
        let Some(newest) = named.into_iter().next() else { return Ok(None) };
        let reports = self.reports_of(&newest).await?;
        Ok(Some(found(of_this_id, &newest, reports)))
    }

    async fn reports_with_id(&self, scope: &Scope, event_id: &str) -> Result<Vec<Candidate>, ApiError> {
        let statement = Statement::new(include_str!("../../sql/one_event_candidates.sql"));
        let statement = scope.bind(statement).with("event_id", event_id).with("limit", MAX_OF_ID + 1);
        let found: Vec<Candidate> = self.all(statement).await?;
        if found.len() as u64 > MAX_OF_ID {
            let detail =
                format!("More than {MAX_OF_ID} reports have this ID. Page through them with GET /content-owners/events.");
            return Err(ApiError::new(Code::TooLarge, detail));
        }
        Ok(found)
    }

    async fn has_report_without_id(&self, event: &KeyedEvent) -> Result<bool, ApiError> {
        Ok(self.reports_of(event).await?.iter().any(|report| report.event_id.is_empty()))
    }

    /// Returns an event's visible reports; the first one represents it. An observer has at most one, so there are few.
    async fn reports_of(&self, event: &KeyedEvent) -> Result<Vec<ReportContent>, ApiError> {
        let mut arriving = self.reports_at(&event.places(), true).await?;
        let mut reports = Vec::new();
        while let Some(report) = arriving.next().await? {
            reports.push(report);
        }
        let rank = |role: u8| if SourceRole::from_code(role).is_none() { u8::MAX } else { role };
        reports.sort_by_key(|report| (rank(report.source_role), report.received, report.identity));
        Ok(reports)
    }
}

/// Returns the key if the id has the format of keys in responses.
fn key_of(event_id: &str) -> Option<u128> {
    Uuid::try_parse(event_id).ok().filter(|id| id.to_string() == event_id).map(|id| id.as_u128())
}

impl EventRow {
    /// Removes what would identify the reporter. A report's key depends on its organization, and a fetch's key on the agent.
    fn unnamed(mut self) -> Self {
        if self.signature.signed_by.is_empty() {
            self.signature.proof = String::new();
        }
        Self { platform: Uuid::nil(), agent: String::new(), ..self }
    }
}

fn found(of_this_id: u64, event: &KeyedEvent, reports: Vec<ReportContent>) -> FoundEvent {
    let show = |(nth, report): (usize, ReportContent)| {
        let represents = nth == 0;
        // A click has one report, so the event determines whether its agent may be shown.
        let shows_agent = report.link_site.is_empty() || (represents && event.shows_agent == 1);
        let shown = report.for_owner(event.key, shows_agent);
        let is_named = represents || shown.role == SourceRole::code(Some(SourceRole::Agent)) || !shown.session.is_nil();
        if is_named { shown } else { shown.unnamed() }
    };
    let reports: Vec<EventRow> = reports.into_iter().enumerate().map(show).collect();
    let representing = reports.first().cloned().unwrap_or_default();
    FoundEvent {
        of_this_id,
        event: EventRow {
            at_ms: event.at_ms,
            roles: roles_of(event.roles),
            fetch: Some((event.outcome.clone(), event.bot.clone())),
            signature: ReportSignature::default(),
            ..representing
        },
        claimed_and_seen: (event.outcome == Outcome::Fetch.as_str()).then_some((event.is_claimed == 1, event.is_seen == 1)),
        reports,
    }
}
