//! A page of an owner's events, in two statements. The first returns the total and the positions of the events on the page; the second
//! returns the reports that represent them, with all members.
//!
//! Pages are ordered by time, newest first, then by key. Later reports change neither, so the next page continues after the last event. If
//! the second statement doesn't find a report, the response is 503 instead of a shorter page.

use super::Reads;
use super::report_content::{Place, ReportContent, Reports, missing};
use super::rows::{ListPage, Rows};
use super::scope::{FIRST_MS, LAST_MS, Scope};
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::cmp::Reverse;
use std::vec;
use uuid::Uuid;

/// An event or report as its reader may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) id: String,
    pub(crate) r#type: String,
    /// Nil if there is no session or the reader may not see it.
    pub(crate) session: Uuid,
    /// The session's organization, otherwise the report's. Nil if the reader may not see it.
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) url: String,
    pub(crate) telemetry_id: String,
    pub(crate) role: u8,
    /// 1 if another organization reported it with the reader's click token.
    pub(crate) by_other: u8,
    pub(crate) at_ms: i64,
    pub(crate) reported: String,
    /// Unknown members as JSON.
    pub(crate) unknown: String,
    pub(crate) roles: Vec<u8>,
    /// Outcome and bot of an event; `None` for a report.
    pub(crate) fetch: Option<(String, String)>,
    pub(crate) signature: ReportSignature,
}

/// The result for the signature of a report or fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportSignature {
    /// Code of a [`SignatureResult`](schemas::signature::SignatureResult).
    pub(crate) result: u8,
    pub(crate) reason: String,
    pub(crate) signed_by: String,
    /// A [`SignatureProof`](schemas::signature::SignatureProof) as JSON; empty without one.
    pub(crate) proof: String,
}

/// A page whose items are still arriving.
pub(crate) struct EventPage {
    total: u64,
    next: Option<String>,
    items: vec::IntoIter<Item>,
    /// `None` if the page is empty.
    reports: Option<Reports>,
}

/// An item of a page without its report's content.
pub(super) enum Item {
    /// An event, as owners see it.
    Event { key: u128, at_ms: i64, roles: u8, shows_agent: bool, fetch: (String, String) },
    /// A report, as seen by its reporter or by its click token's issuer.
    Report,
}

impl Item {
    fn into_row(self, report: ReportContent) -> EventRow {
        match self {
            Self::Event { key, at_ms, roles, shows_agent, fetch } => {
                EventRow { at_ms, roles: roles_of(roles), fetch: Some(fetch), ..report.for_owner(key, shows_agent) }
            }
            Self::Report => report.for_reporter_or_issuer(),
        }
    }
}

impl Rows for EventPage {
    type Row = EventRow;

    async fn next(&mut self) -> Result<Option<EventRow>, ApiError> {
        let (Some(item), Some(reports)) = (self.items.next(), &mut self.reports) else { return Ok(None) };
        // All reports existed when the statement started.
        Ok(Some(item.into_row(reports.next().await?.ok_or_else(missing)?)))
    }
}

impl ListPage for EventPage {
    fn total(&self) -> u64 {
        self.total
    }

    fn next_page(&self) -> Option<&str> {
        self.next.as_deref()
    }
}

pub(super) fn roles_of(bits: u8) -> Vec<u8> {
    (0..8).filter(|role| bits >> role & 1 == 1).collect()
}

pub(super) fn id_of(key: u128) -> String {
    Uuid::from_u128(key).to_string()
}

impl ReportContent {
    /// Returns the report as an owner sees it. The event's key replaces a missing id. If the owner may not see a click's session, the
    /// reporter becomes its platform.
    pub(super) fn for_owner(self, key: u128, shows_agent: bool) -> EventRow {
        let (session, platform, agent) =
            if shows_agent { (self.session, self.platform, self.agent) } else { (Uuid::nil(), self.organization, String::new()) };
        EventRow {
            id: if self.event_id.is_empty() { id_of(key) } else { self.event_id },
            r#type: self.r#type,
            session,
            platform,
            agent,
            url: self.url,
            telemetry_id: String::new(),
            role: self.role,
            by_other: 0,
            at_ms: self.at_ms,
            reported: self.data,
            unknown: self.extra,
            roles: vec![self.role],
            fetch: None,
            signature: ReportSignature {
                result: self.signature_result.unsigned_abs(),
                reason: self.signature_reason,
                signed_by: self.signed_by,
                proof: self.signature_proof,
            },
        }
    }

    /// Returns the report as seen by its reporter or by its click token's issuer. Only the issuer sees which session a token belongs to,
    /// and the issuer doesn't see the reporter's ids (docs/api/click-tokens.md#what-a-token-shows).
    fn for_reporter_or_issuer(self) -> EventRow {
        let (is_issuers, is_bound) = (self.is_issuers == 1, self.platform != self.organization);
        let is_url_hidden = is_bound && self.link_is_taken == 1;
        let has_own_id = !is_issuers && !self.event_id.is_empty();
        EventRow {
            id: if has_own_id { self.event_id } else { id_of(self.identity) },
            r#type: self.r#type,
            session: if is_bound { Uuid::nil() } else { self.session },
            platform: if is_bound { Uuid::nil() } else { self.platform },
            agent: if is_bound { String::new() } else { self.agent },
            url: if is_url_hidden { String::new() } else { self.url },
            telemetry_id: if is_issuers { String::new() } else { self.content_telemetry_id },
            role: self.role,
            by_other: self.is_issuers,
            at_ms: self.at_ms,
            reported: self.data,
            unknown: self.extra,
            roles: vec![self.role],
            fetch: None,
            signature: ReportSignature::default(),
        }
    }
}

/// Key, time and roles of an event, and whether the owner may see its agent. Then organization, time and identity of the report that
/// represents the event, the outcome, and the bot.
type ListedEvent = (u128, i64, u8, u8, String, i64, u128, String, String);

#[derive(clickhouse::Row, Deserialize)]
struct ListedEvents {
    total: u64,
    events: Vec<ListedEvent>,
}

impl Reads {
    pub(crate) async fn owners_events(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
        (at, walk): (Paging, &Cursor),
    ) -> Result<EventPage, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let statement = scope.bind(Statement::new(include_str!("../../sql/events_page.sql")));
        let found: Vec<ListedEvents> = self.all(on_page(statement, at, walk)).await?;
        let total = found.first().map_or(0, |found| found.total);
        let item = |(key, at_ms, roles, shows_agent, organization, reported_ms, identity, outcome, bot): ListedEvent| {
            let place = Place { organization, at_ms: reported_ms, identity };
            (at_ms, key, place, Item::Event { key, at_ms, roles, shows_agent: shows_agent == 1, fetch: (outcome, bot) })
        };
        let items = found.into_iter().flat_map(|found| found.events).map(item).collect();
        self.page_of((total, at), items).await
    }

    /// Reads a page's reports. Each item has its time, key and position.
    pub(super) async fn page_of(
        &self,
        (total, at): (u64, Paging),
        mut items: Vec<(i64, u128, Place, Item)>,
    ) -> Result<EventPage, ApiError> {
        items.sort_by_key(|(at_ms, key, ..)| (Reverse(*at_ms), *key));
        let last = items.last().filter(|_| items.len() as u64 == at.limit);
        let next = last.map(|(at_ms, key, ..)| Position { at_ms: *at_ms, key: *key }.encode());
        let (places, items): (Vec<Place>, Vec<Item>) = items.into_iter().map(|(_, _, place, item)| (place, item)).unzip();
        let reports = if places.is_empty() { None } else { Some(self.reports_at(&places, false).await?) };
        Ok(EventPage { total, next, items: items.into_iter(), reports })
    }
}

/// Binds a page's limits. On the first page, the cursor is later than all events.
pub(super) fn on_page(statement: Statement, at: Paging, walk: &Cursor) -> Statement {
    let (after_ms, after_key) = walk.after.as_ref().map_or((LAST_MS, 0), |last| (last.at_ms.clamp(FIRST_MS, LAST_MS), last.key));
    statement
        .with("limit", at.limit)
        .with("offset", at.offset)
        .with("through", at.limit.saturating_add(at.offset))
        .with("is_next", walk.after.is_some())
        .with("after_ms", after_ms)
        .with("after_key", after_key.to_string())
}
