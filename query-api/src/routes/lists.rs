//! The reads that return lists.

use crate::State;
use crate::access::visibility::{OwnReports, Visibility};
use crate::event_data::{self, Audience, StoredEvent};
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::{EventFilter, ReportedBy};
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::parameters::{ReadParameters, invalid};
use crate::read_limiter::{AdmittedReader, ReadPermit};
use crate::reads::{CorroborationBy, CorroborationRow, EventRow, FunnelBy, FunnelRow, ListPage as _, PagesBy, SortOrder, UrlRow};
use crate::respond::accept_header::Format;
use crate::respond::named_rows::NamedRows;
use crate::respond::page::{self, ResponseOptions};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use chrono::DateTime;
use schemas::event::SourceRole;
use schemas::paged_responses::{
    AgentEventItem, Corroboration, CorroborationItem, EVENTS_PAGE, EventItem, FunnelItem, Page, URLS_PAGE, UrlMetric,
};
use schemas::summary_responses::TypeCount;
use service_kit::auth::Tenant;
use service_kit::http::{ApiError, Parameters};
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

type Shared = axum::extract::State<Arc<State>>;

/// A content owner's list, and the requested page.
pub(crate) struct ListRequest {
    pub(crate) visibility: Visibility,
    pub(crate) period: Period,
    pub(crate) paging: Paging,
    pub(crate) filter: EventFilter,
    pub(crate) permit: ReadPermit,
}

impl ListRequest {
    pub(crate) fn tenant(&self) -> Tenant {
        self.permit.tenant()
    }

    /// Parses the common parameters of owners' lists.
    pub(crate) async fn parse(
        state: &State,
        reading: AdmittedReader,
        asked: &ReadParameters,
        page: u64,
    ) -> Result<Self, ApiError> {
        let filter = EventFilter::parse(asked)?;
        let paging = Paging::parse(asked.get("limit"), asked.get("offset"), page)?;
        let period = asked.period()?;
        let visibility = Visibility::for_read(&state.directory, &reading.reader, asked).await?;
        Ok(Self { visibility, period, paging, filter, permit: reading.permit })
    }

    pub(crate) fn response_options(self, headers: &HeaderMap, columns: &'static [&'static str]) -> ResponseOptions {
        ResponseOptions::new(headers, columns, self.permit)
    }
}

/// Parses the cursor, which can't be combined with an offset.
fn parse_cursor(asked: &ReadParameters) -> Result<Cursor, ApiError> {
    if asked.get("after").is_some() && asked.get("offset").is_some_and(|offset| offset != "0") {
        return Err(invalid("Use offset or after, not both."));
    }
    Cursor::parse(asked.get("after"))
}

static EVENT_COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let names = ["event_id", "event_type", "outcome", "content_url", "event_timestamp", "agent_id", "bot", "platform_name"];
    [&names[..], &["platform_id", "session_id"], &event_data::columns()].concat()
});
static AGENT_EVENT_COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let names = ["event_id", "event_type", "content_url", "event_timestamp", "agent_id", "platform_id", "session_id"];
    [&names[..], &["source_role", "content_telemetry_id", "reported_by"], &event_data::columns()].concat()
});
/// Names of a URL by agent, followed by its figures.
const URL_COLUMNS: &[&str] = &[
    "content_url",
    "agent_id",
    "bot",
    "platform_name",
    "platform_id",
    "total_events",
    "fetched",
    "failed",
    "revalidated",
    "grounded",
    "cited",
    "presented",
    "engagements",
    "visits",
    "unique_sessions",
    "last_seen",
];
static PAGE_COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| [&URL_COLUMNS[..1], &URL_COLUMNS[5..]].concat());
/// Names of a funnel's row by agent, then its figures.
const FUNNEL_COLUMNS: &[&str] = &[
    "agent_id",
    "bot",
    "platform_name",
    "platform_id",
    "retrieved",
    "fetched",
    "failed",
    "revalidated",
    "grounded",
    "cited",
    "presented",
    "engaged",
    "engagements",
    "visits",
];
static FUNNEL_URL_COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| [&["content_url"], &FUNNEL_COLUMNS[4..]].concat());
static FUNNEL_DAY_COLUMNS: LazyLock<Vec<&str>> = LazyLock::new(|| [&["day"], &FUNNEL_COLUMNS[4..]].concat());
const BY_DAY_COLUMNS: &[&str] =
    &["day", "retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only", "seen_by_neither"];
const BY_AGENT_COLUMNS: &[&str] = &[
    "day",
    "agent_id",
    "platform_name",
    "platform_id",
    "retrievals",
    "seen_by_both",
    "claimed_by_agent_only",
    "seen_by_server_only",
    "seen_by_neither",
];

/// `GET /content-owners/events`: one item per event, however many observers reported it.
pub(crate) async fn read_events(
    axum::extract::State(state): Shared,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset", "after"])?;
    let walk = parse_cursor(&asked)?;
    let asked = ListRequest::parse(&state, reading, &asked, EVENTS_PAGE).await?;
    let found =
        state.reads(&asked.permit).owners_events(&asked.visibility, &asked.period, &asked.filter, (asked.paging, &walk)).await?;
    let at = asked.paging;
    let found = NamedRows { rows: found, names: state.names.clone(), platform: |row| row.platform };
    let item = |(row, name)| EventItem { platform_name: Some(name), ..event(row, Audience::Owner) };
    page::respond(asked.response_options(&headers, &EVENT_COLUMNS), at, found, item).await
}

/// `GET /content-owners/urls`, by default by URL.
pub(crate) async fn read_urls(
    axum::extract::State(state): Shared,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset", "by", "sort"])?;
    let (by, columns) = match asked.get("by") {
        None | Some("url") => (PagesBy::Url, PAGE_COLUMNS.as_slice()),
        Some("section") => (PagesBy::Section, PAGE_COLUMNS.as_slice()),
        Some("page,agent") => (PagesBy::UrlAndAgent, URL_COLUMNS),
        Some(_) => return Err(invalid("by must be one of: url, section, or page,agent.")),
    };
    let order = SortOrder::parse(asked.get("sort"), by.sortable())?;
    let asked = ListRequest::parse(&state, reading, &asked, URLS_PAGE).await?;
    let found =
        state.reads(&asked.permit).urls(&asked.visibility, &asked.period, (by, order, &asked.filter), asked.paging).await?;
    let at = asked.paging;
    let found = NamedRows { rows: found, names: state.names.clone(), platform: |row| row.platform };
    page::respond(asked.response_options(&headers, columns), at, found, move |row| url_metric(row, by)).await
}

/// `GET /agent/events`: an organization's own reports, and others' reports with its click tokens.
pub(crate) async fn read_own_events(
    axum::extract::State(state): Shared,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_of_organization(&["limit", "offset", "after", "reported_by"])?;
    let reported_by = ReportedBy::parse(asked.get("reported_by"))?;
    let paging = Paging::parse(asked.get("limit"), asked.get("offset"), EVENTS_PAGE)?;
    let walk = parse_cursor(&asked)?;
    let own = OwnReports::for_reader(&reading.reader)?;
    let period = asked.period()?;
    let found = state.reads(&reading.permit).own_events(&own, &period, reported_by, (paging, &walk)).await?;
    page::respond(ResponseOptions::new(&headers, &AGENT_EVENT_COLUMNS, reading.permit), paging, found, agent_event).await
}

/// Contains the note in formats without an envelope.
const NOTE_HEADER: HeaderName = HeaderName::from_static("x-corroboration-note");
const NOTE: &str = "Each fetch of a day is in exactly one of the four counts. A claim that a server of another \
    organization also reported is likely, but not certain; a server of the organization that made the claim doesn't confirm it. \
    A claim without a matching server report can mean that no CDN or web server of yours reports here, that the response \
    came from a cache, that the two reports had different correlation IDs, or that the fetch didn't happen. \
    A fetch that only servers reported means that the agent doesn't report, or hasn't reported yet, so the agent is unknown. \
    Late reports can move a fetch from one count to another.";

/// `GET /content-owners/corroboration`, by default by agent.
pub(crate) async fn read_corroboration(
    axum::extract::State(state): Shared,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset", "by", "sort"])?;
    let (by, columns) = match asked.get("by") {
        None | Some("agent") => (CorroborationBy::Agent, BY_AGENT_COLUMNS),
        Some("day") => (CorroborationBy::Day, BY_DAY_COLUMNS),
        Some(_) => return Err(invalid("by must be one of: agent, day.")),
    };
    let order = SortOrder::parse(asked.get("sort"), by.sortable())?;
    let asked = ListRequest::parse(&state, reading, &asked, EVENTS_PAGE).await?;
    let found = state
        .reads(&asked.permit)
        .corroboration(&asked.visibility, &asked.period, (by, order, &asked.filter), asked.paging)
        .await?;
    let envelope = Corroboration {
        organization_id: asked.visibility.organization_id(),
        domains: asked.visibility.domains().to_vec(),
        note: NOTE.to_owned(),
        page: Page { items: Vec::new(), total: found.total(), limit: asked.paging.limit, offset: asked.paging.offset },
    };
    let found = NamedRows { rows: found, names: state.names.clone(), platform: |row| row.platform };
    let answering = asked.response_options(&headers, columns);
    let is_list = answering.format != Format::Json;
    let mut response = page::respond_in_envelope(answering, &envelope, found, move |row| corroboration(row, by)).await?;
    if is_list {
        // Clients would read a note in the body as an item.
        response.headers_mut().insert(NOTE_HEADER, HeaderValue::from_static(NOTE));
    }
    Ok(response)
}

/// `GET /content-owners/funnel`, by default by agent.
pub(crate) async fn read_funnel(
    axum::extract::State(state): Shared,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset", "by", "sort"])?;
    let (by, columns): (_, &[&str]) = match asked.get("by") {
        None | Some("agent") => (FunnelBy::Agent, FUNNEL_COLUMNS),
        Some("url") => (FunnelBy::Url, &FUNNEL_URL_COLUMNS),
        Some("day") => (FunnelBy::Day, &FUNNEL_DAY_COLUMNS),
        Some(_) => return Err(invalid("by must be one of: agent, url, day.")),
    };
    let order = SortOrder::parse(asked.get("sort"), by.sortable())?;
    let asked = ListRequest::parse(&state, reading, &asked, EVENTS_PAGE).await?;
    let found =
        state.reads(&asked.permit).funnel(&asked.visibility, &asked.period, (by, order, &asked.filter), asked.paging).await?;
    let at = asked.paging;
    let found = NamedRows { rows: found, names: state.names.clone(), platform: |row| row.platform };
    page::respond(asked.response_options(&headers, columns), at, found, move |row| funnel(row, by)).await
}

pub(super) fn instant(ms: i64) -> String {
    schemas::instant::text(DateTime::from_timestamp_millis(ms).unwrap_or_default())
}

/// Returns the id as text; empty if it is nil.
pub(super) fn id(id: Uuid) -> String {
    if id.is_nil() { String::new() } else { id.to_string() }
}

pub(super) fn event(row: EventRow, audience: Audience) -> EventItem {
    let told = StoredEvent { event_type: &row.r#type, data: &row.reported, extra: &row.unknown };
    let event_data = event_data::compose(told, &row.roles, audience);
    let (outcome, bot) = row.fetch.unzip();
    EventItem {
        event_id: row.id,
        session_id: id(row.session),
        event_type: row.r#type,
        content_url: row.url,
        event_timestamp: instant(row.at_ms),
        event_data,
        platform_id: id(row.platform),
        agent_id: row.agent,
        outcome,
        bot,
        platform_name: None,
    }
}

fn agent_event(mut row: EventRow) -> AgentEventItem {
    let source_role = SourceRole::from_code(row.role).map_or_else(String::new, |role| role.as_str().to_owned());
    let content_telemetry_id = std::mem::take(&mut row.telemetry_id);
    let is_others = row.by_other == 1;
    let (reported_by, audience) =
        if is_others { (ReportedBy::Other, Audience::Issuer) } else { (ReportedBy::Own, Audience::Reporter) };
    let event = event(row, audience);
    AgentEventItem { source_role, content_telemetry_id, reported_by: reported_by.as_str().to_owned(), event }
}

fn url_metric((row, name): (UrlRow, String), by: PagesBy) -> UrlMetric {
    let is_by_agent = by == PagesBy::UrlAndAgent;
    let counts = row.types.into_iter().zip(row.per_type);
    let mut event_types: Vec<_> = counts.map(|(event_type, count)| TypeCount { event_type, count, other: false }).collect();
    event_types.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.event_type.cmp(&b.event_type)));
    event_types.extend(TypeCount::sum_of_others(row.other_types));
    UrlMetric {
        content_url: row.url,
        platform_id: is_by_agent.then(|| id(row.platform)),
        platform_name: Some(name).filter(|_| is_by_agent),
        agent_id: Some(row.agent).filter(|_| is_by_agent),
        bot: Some(row.bot).filter(|_| is_by_agent),
        total_events: row.events,
        unique_sessions: row.unique_sessions,
        event_types,
        fetched: row.fetched,
        failed: row.failed,
        revalidated: row.revalidated,
        grounded: row.grounded,
        cited: row.cited,
        presented: row.presented,
        engagements: row.engagements,
        visits: row.visits,
        last_seen: instant(row.last_ms),
    }
}

fn corroboration((row, name): (CorroborationRow, String), by: CorroborationBy) -> CorroborationItem {
    let is_by_agent = by == CorroborationBy::Agent;
    CorroborationItem {
        day: row.day,
        platform_id: is_by_agent.then(|| id(row.platform)),
        platform_name: Some(name).filter(|_| is_by_agent),
        agent_id: Some(row.agent).filter(|_| is_by_agent),
        retrievals: row.retrievals,
        seen_by_both: row.both,
        claimed_by_agent_only: row.claimed_only,
        seen_by_server_only: row.seen_only,
        seen_by_neither: row.neither,
    }
}

fn funnel((row, platform): (FunnelRow, String), by: FunnelBy) -> FunnelItem {
    let name = Some(row.name);
    FunnelItem {
        day: name.clone().filter(|_| by == FunnelBy::Day),
        platform_id: (by == FunnelBy::Agent).then(|| id(row.platform)),
        platform_name: Some(platform).filter(|_| by == FunnelBy::Agent),
        agent_id: name.clone().filter(|_| by == FunnelBy::Agent),
        bot: Some(row.bot).filter(|_| by == FunnelBy::Agent),
        content_url: name.filter(|_| by == FunnelBy::Url),
        retrieved: row.retrieved,
        fetched: row.fetched,
        failed: row.failed,
        revalidated: row.revalidated,
        grounded: row.grounded,
        cited: row.cited,
        presented: row.presented,
        engaged: row.engaged,
        engagements: row.engagements,
        visits: row.visits,
    }
}
