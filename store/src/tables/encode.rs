//! Rows of `events` and `reports` as they are inserted.

use crate::facts::{CONTENT_RETRIEVED, Facts, Fetch, ReportFacts, role};
use crate::report::Acceptance;
use crate::row::{Entry, EventPlace, EventRow, EventWrite, ReportPlace};
use crate::row_binary::Encoder;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;
use uuid::Uuid;

/// Appends a row of `events`, in the order of [`EVENT_COLUMNS`](super::EVENT_COLUMNS).
pub fn encode_event(write: &EventWrite<Facts>, version: u64, body: &mut Encoder) {
    match write {
        EventWrite::Row(row) => live_event(row, body),
        EventWrite::Tombstone(place) => deleted_event(place, body),
    }
    body.u64(version);
    body.u8(u8::from(matches!(write, EventWrite::Tombstone(_))));
}

fn place(place: &EventPlace, body: &mut Encoder) {
    body.text(place.site.as_ref().map_or("", Site::as_str));
    body.i64(place.at_ms);
    body.u128(place.key.0);
    body.u32(place.home.0);
}

fn deleted_event(at: &EventPlace, body: &mut Encoder) {
    place(at, body);
    body.text("");
    body.text("");
    [0; 4].into_iter().for_each(|zero| body.u8(zero));
    [Uuid::nil(); 2].into_iter().for_each(|nil| body.uuid(nil));
    body.text("");
    body.u64(0);
    body.text("");
    [0; 2].into_iter().for_each(|zero| body.u8(zero));
    fetch(&Fetch::default(), body);
    // The columns of `other_agents` and `reports`.
    [0; 15].into_iter().for_each(|none| body.length(none));
}

fn live_event(row: &EventRow<Facts>, body: &mut Encoder) {
    place(&row.place(), body);
    let shown = representative(row);
    let Entry { observer, facts, .. } = &row.reports[shown];
    body.text(&facts.event_type);
    body.text(&facts.url);
    body.u8(row.reports.iter().fold(0, |roles, entry| roles | 1 << entry.facts.role));
    body.u8(facts.role);
    body.u8(u8::from(facts.is_claim()));
    body.u8(u8::try_from(shown + 1).unwrap_or(u8::MAX));
    body.uuid(observer.org.0);
    body.uuid(facts.platform.0);
    body.text(&facts.agent);
    body.u64(facts.session);
    body.text(&facts.link_site);
    let (is_claimed, is_seen) = corroboration(row);
    body.u8(u8::from(is_claimed));
    body.u8(u8::from(is_seen));
    fetch(&fetch_of(row), body);
    other_agents(row, shown, body);
    reports(row, body);
}

/// Position of the report that represents the event.
fn representative(row: &EventRow<Facts>) -> usize {
    let order = |n: &usize| (row.reports[*n].observer.precedence(), row.reports[*n].accepted);
    (0..row.reports.len()).min_by_key(order).unwrap_or(0)
}

/// Whether an agent claims the fetch, and whether a server of an organization that claims nothing reports it
/// (docs/api/event-keys.md#figures).
fn corroboration(row: &EventRow<Facts>) -> (bool, bool) {
    let is_retrieval = row.reports.iter().any(|entry| entry.facts.event_type == CONTENT_RETRIEVED);
    let claims = || row.reports.iter().filter(|entry| entry.facts.is_claim());
    let is_others = |entry: &&Entry<Facts>| claims().all(|claim| claim.observer.org != entry.observer.org);
    let mut seen = row.reports.iter().filter(|entry| entry.facts.is_seen_by_server());
    (is_retrieval && claims().next().is_some(), is_retrieval && seen.any(|entry| is_others(&entry)))
}

/// The fetch as the first report by precedence that names a bot describes it, else the first that has a status, else the first that
/// describes it at all (docs/api/counting.md#5-one-report-represents-the-event).
fn fetch_of(row: &EventRow<Facts>) -> Fetch {
    let described = row.reports.iter().filter_map(|entry| Some((entry, entry.facts.fetch.as_ref()?)));
    let rank = |fetch: &Fetch| (fetch.bot.is_empty(), fetch.bot.is_empty() && fetch.status == 0);
    let first = described.min_by_key(|(entry, fetch)| (rank(fetch), entry.observer.precedence(), entry.accepted));
    first.map(|(_, fetch)| fetch.clone()).unwrap_or_default()
}

fn fetch(fetch: &Fetch, body: &mut Encoder) {
    let Fetch { bot, operator, purpose, verified, status, bytes } = fetch;
    [bot, operator, purpose].into_iter().for_each(|text| body.text(text));
    body.u8(*verified);
    body.u16(*status);
    body.u64(*bytes);
}

/// The reports with an agent behind them, except the one at position `shown`.
fn other_agents(row: &EventRow<Facts>, shown: usize, body: &mut Encoder) {
    let has_agent = |facts: &ReportFacts| facts.role == role::AGENT || facts.session != 0;
    let others = row.reports.iter().enumerate().filter(|(n, entry)| *n != shown && has_agent(&entry.facts));
    let others: Vec<&ReportFacts> = others.map(|(_, entry)| &*entry.facts).collect();
    body.array(others.iter(), |body, facts| body.u8(facts.role));
    body.array(others.iter(), |body, facts| body.uuid(facts.platform.0));
    body.array(others.iter(), |body, facts| body.text(&facts.agent));
    body.array(others.iter(), |body, facts| body.u64(facts.session));
}

fn reports(row: &EventRow<Facts>, body: &mut Encoder) {
    let entries = || row.reports.iter();
    let identity = |entry: &Entry<Facts>| if entry.accepted.identity == row.key { 0 } else { entry.accepted.identity.0 };
    let home = |entry: &Entry<Facts>| if entry.home == row.home { 0 } else { entry.home.0 };
    body.array(entries(), |body, entry| body.uuid(entry.observer.org.0));
    body.array(entries(), |body, entry| body.uuid(entry.facts.platform.0));
    body.array(entries(), |body, entry| body.u8(entry.facts.role));
    body.array(entries(), |body, entry| body.uuid(entry.observer.drain.map(|drain| drain.0).unwrap_or_default()));
    body.array(entries(), |body, entry| body.text(&entry.facts.agent));
    body.array(entries(), |body, entry| body.u64(entry.facts.session));
    body.array(entries(), |body, entry| body.i64(entry.at_ms));
    body.array(entries(), |body, entry| body.u64(entry.accepted.stored()));
    body.array(entries(), |body, entry| body.u128(identity(entry)));
    body.array(entries(), |body, entry| body.u32(home(entry)));
    let is_only = row.reports.len() == 1;
    let shown = &row.reports[representative(row)].facts.url;
    body.array(entries(), |body, entry| body.bytes(&if is_only { Vec::new() } else { details(&entry.facts, shown) }));
}

/// What the columns of an event with several reports don't have of each: see
/// [`decode_events`](super::decode_events). A URL has up to 8 KB, so it is left out where it is the event's.
fn details(facts: &Facts, url_of_event: &str) -> Vec<u8> {
    let mut details = Encoder::default();
    let has_own_url = facts.url != url_of_event;
    details.u8(u8::from(has_own_url));
    if has_own_url {
        details.text(&facts.url);
    }
    details.text(&facts.link_site);
    if let Some(of) = &facts.fetch {
        fetch(of, &mut details);
    }
    details.0
}

/// What a row of `reports` contains besides its place.
#[derive(Clone, Copy, Debug)]
pub struct ReportContent<'a> {
    pub accepted: Acceptance,
    /// The key that it shares with other observers.
    pub group_key: Option<EventKey>,
    pub source_role: u8,
    /// Drain of a log line with a correlation id.
    pub drain: Uuid,
    /// What `events` has too.
    pub facts: &'a Facts,
    /// Canonical host, reversed; empty if it can't be owned.
    pub site: &'a str,
    /// All zero if there is none.
    pub session: Uuid,
    /// Code of the click token's link.
    pub link: u8,
    /// Host of the click token's link, reversed.
    pub link_site: &'a str,
    /// As reported.
    pub content_id: &'a str,
    pub content_telemetry_id: &'a str,
    pub event_id: &'a str,
    pub turn_id: &'a str,
    pub output_id: &'a str,
    /// JSON.
    pub data: &'a str,
    /// JSON.
    pub extra: &'a str,
    /// As the reporter names it.
    pub cache_status: &'a str,
    /// Autonomous system of the request.
    pub asn: u32,
    pub country: &'a str,
    /// Media type of the response.
    pub media_type: &'a str,
    /// Edition of the table of bots.
    pub bots_version: &'a str,
    /// Partition and offset of the record in the log.
    pub origin: (i32, i64),
}

/// Appends a row of `reports`, in the order of [`REPORT_COLUMNS`](super::REPORT_COLUMNS): a live one, or without content
/// one that deletes. In the row of an issuer, `issuer` takes the place of the reporting organization.
pub fn encode_report(
    place: &ReportPlace,
    issuer: Option<OrgId>,
    content: Option<&ReportContent<'_>>,
    version: u64,
    body: &mut Encoder,
) {
    body.uuid(issuer.unwrap_or(place.org).0);
    body.i64(place.at_ms);
    body.u128(place.identity.0);
    body.u32(place.home.0);
    body.u8(u8::from(issuer.is_some()));
    match content {
        Some(content) => live_report(content, body),
        None => deleted_report(body),
    }
    body.u64(version);
    body.u8(u8::from(content.is_none()));
}

fn live_report(content: &ReportContent<'_>, body: &mut Encoder) {
    let ReportContent { facts, .. } = content;
    body.u128(content.group_key.map_or(0, |key| key.0));
    body.u64(content.accepted.stored());
    body.text(content.site);
    body.text(&facts.event_type);
    body.u8(content.source_role);
    body.u8(facts.role);
    body.uuid(content.drain);
    body.uuid(facts.platform.0);
    body.uuid(content.session);
    body.u8(content.link);
    body.text(content.link_site);
    body.text(&facts.agent);
    body.text(&facts.url);
    let texts = [content.content_id, content.content_telemetry_id, content.event_id, content.turn_id, content.output_id];
    texts.into_iter().chain([content.data, content.extra]).for_each(|text| body.text(text));
    fetch(&facts.fetch.clone().unwrap_or_default(), body);
    body.text(content.cache_status);
    body.u32(content.asn);
    [content.country, content.media_type, content.bots_version].into_iter().for_each(|text| body.text(text));
    body.i32(content.origin.0);
    body.i64(content.origin.1);
}

fn deleted_report(body: &mut Encoder) {
    body.u128(0);
    body.u64(0);
    [""; 2].into_iter().for_each(|empty| body.text(empty));
    [0; 2].into_iter().for_each(|zero| body.u8(zero));
    [Uuid::nil(); 3].into_iter().for_each(|nil| body.uuid(nil));
    body.u8(0);
    [""; 10].into_iter().for_each(|empty| body.text(empty));
    fetch(&Fetch::default(), body);
    body.text("");
    body.u32(0);
    [""; 3].into_iter().for_each(|empty| body.text(empty));
    body.i32(0);
    body.i64(0);
}
