//! Encodes rows of `events` and `reports`.

use super::{EVENT_COLUMNS, HAS_OWN_URL, IS_OWNERS, REPORT_COLUMNS, SIGNATURE_SHIFT};
use crate::facts::{CONTENT_RETRIEVED, Facts, Fetch, ReportFacts, role};
use crate::report::Report;
use crate::row::{Entry, EventPlace, EventRow, EventWrite, ReportPlace};
use crate::row_binary::Encoder;
use schemas::click_tokens::LinkRelation;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::log::LogEvent;
use schemas::signature::{RecordedSignature, SignatureResult};
use schemas::site::Site;
use serde_json::value::RawValue;

/// Appends a row of `events`, in the order of [`EVENT_COLUMNS`].
pub fn encode_event(write: &EventWrite<Facts>, version: u64, body: &mut Encoder) {
    match write {
        EventWrite::Row(row) => live_event(row, body),
        EventWrite::Tombstone(at) => {
            append_place(at, body);
            append_defaults(&EVENT_COLUMNS[4..EVENT_COLUMNS.len() - 2], body);
        }
    }
    body.u64(version);
    body.u8(u8::from(matches!(write, EventWrite::Tombstone(_))));
}

fn append_place(place: &EventPlace, body: &mut Encoder) {
    body.text(place.site.as_ref().map_or("", Site::as_str));
    body.i64(place.at_ms);
    body.u128(place.key.0);
    body.u32(place.home.0);
}

/// Appends the default value of each column: zero bytes for every type.
fn append_defaults(columns: &[(&str, &str)], body: &mut Encoder) {
    let bytes = |(_, of): &(&str, &str)| match *of {
        "UInt16" => 2_usize,
        "UInt32" | "Int32" => 4,
        "UInt64" | "Int64" => 8,
        "UInt128" | "UUID" => 16,
        // The length of a string or an array, or a small number.
        _ => 1,
    };
    body.0.resize(body.0.len() + columns.iter().map(bytes).sum::<usize>(), 0);
}

fn live_event(row: &EventRow<Facts>, body: &mut Encoder) {
    append_place(&row.place(), body);
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
    append_fetch(&owner_fetch(row), body);
    body.u8(row.reports.iter().map(|entry| entry.facts.signature.code()).max().unwrap_or_default());
    append_other_agents(row, shown, body);
    append_reports(row, body);
}

/// Returns the position of the report that represents the event.
fn representative(row: &EventRow<Facts>) -> usize {
    let order = |n: &usize| (row.reports[*n].observer.precedence(), row.reports[*n].accepted);
    (0..row.reports.len()).min_by_key(order).unwrap_or(0)
}

/// Returns whether an agent claims the fetch, and whether a server of an organization that doesn't claim it reports it
/// (docs/api/event-keys.md#figures).
pub fn corroboration(row: &EventRow<Facts>) -> (bool, bool) {
    let is_retrieval = row.reports.iter().any(|entry| entry.facts.event_type == CONTENT_RETRIEVED);
    let claims = || row.reports.iter().filter(|entry| entry.facts.is_claim());
    let is_others = |entry: &&Entry<Facts>| claims().all(|claim| claim.observer.org != entry.observer.org);
    let mut seen = row.reports.iter().filter(|entry| entry.facts.is_seen_by_server());
    (is_retrieval && claims().next().is_some(), is_retrieval && seen.any(|entry| is_others(&entry)))
}

/// Returns the fetch as described by the owner's reports in order of precedence: the first that names a bot, or else the first with a
/// status, or else the first with a fetch. Without one, uses other observers' reports in the same order, but they can't turn the owner's
/// event into a failed fetch or a revalidation (docs/api/counting.md#5-one-report-represents-the-event).
pub fn owner_fetch(row: &EventRow<Facts>) -> Fetch {
    let described = row.reports.iter().filter_map(|entry| Some((entry, entry.facts.fetch.as_ref()?)));
    let rank = |fetch: &Fetch| (fetch.bot.is_empty(), fetch.bot.is_empty() && fetch.status == 0);
    let order = |(entry, fetch): &(&Entry<Facts>, &Fetch)| {
        (!entry.facts.is_owners, rank(fetch), entry.observer.precedence(), entry.accepted)
    };
    let Some((first, fetch)) = described.min_by_key(order) else { return Fetch::default() };
    let is_owners_event = row.reports.iter().any(|entry| entry.facts.is_owners);
    if is_owners_event && !first.facts.is_owners && !(200..300).contains(&fetch.status) {
        return Fetch { status: 0, bytes: 0, ..fetch.clone() };
    }
    fetch.clone()
}

fn append_fetch(fetch: &Fetch, body: &mut Encoder) {
    let Fetch { bot, operator, purpose, verified, status, bytes } = fetch;
    [bot, operator, purpose].into_iter().for_each(|text| body.text(text));
    body.u8(*verified);
    body.u16(*status);
    body.u64(*bytes);
}

/// Appends the agents' reports, except the one at position `shown`.
fn append_other_agents(row: &EventRow<Facts>, shown: usize, body: &mut Encoder) {
    let has_agent = |facts: &ReportFacts| facts.role == role::AGENT || facts.session != 0;
    let others = row.reports.iter().enumerate().filter(|(n, entry)| *n != shown && has_agent(&entry.facts));
    let others: Vec<&ReportFacts> = others.map(|(_, entry)| &*entry.facts).collect();
    body.array(others.iter(), |body, facts| body.u8(facts.role));
    body.array(others.iter(), |body, facts| body.uuid(facts.platform.0));
    body.array(others.iter(), |body, facts| body.text(&facts.agent));
    body.array(others.iter(), |body, facts| body.u64(facts.session));
}

fn append_reports(row: &EventRow<Facts>, body: &mut Encoder) {
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
    body.array(entries(), |body, entry| body.bytes(&details(&entry.facts, shown, is_only)));
}

/// Encodes the parts of a report that other columns don't contain; see [`decode_events`](super::decode_events). Omits the URL,
/// which can have 8 KB, if it equals the event's.
fn details(facts: &Facts, url_of_event: &str, is_only: bool) -> Vec<u8> {
    let mut details = Encoder::default();
    let has_own_url = facts.url != url_of_event;
    let flags = (u8::from(has_own_url) * HAS_OWN_URL) | (u8::from(facts.is_owners) * IS_OWNERS);
    details.u8(flags | (facts.signature.code() << SIGNATURE_SHIFT));
    if is_only {
        return details.0;
    }
    if has_own_url {
        details.text(&facts.url);
    }
    details.text(&facts.link_site);
    if let Some(of) = &facts.fetch {
        append_fetch(of, &mut details);
    }
    details.0
}

/// Content of a row of `reports`, without its place.
#[derive(Clone, Copy, Debug)]
pub struct ReportContent<'a> {
    pub report: &'a Report<Facts>,
    /// The rest of the report, which is not part of the facts.
    pub event: &'a LogEvent,
    /// Partition and offset of the record in the log.
    pub origin: (i32, i64),
}

/// Appends a row of `reports`, in the order of [`REPORT_COLUMNS`]: a live row, or a tombstone without content. In an issuer's row, `issuer`
/// replaces the reporting organization.
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
        None => append_defaults(&REPORT_COLUMNS[5..REPORT_COLUMNS.len() - 2], body),
    }
    body.u64(version);
    body.u8(u8::from(content.is_none()));
}

fn live_report(content: &ReportContent<'_>, body: &mut Encoder) {
    let ReportContent { report: Report { shared_key, accepted, observer, facts, .. }, event, origin } = content;
    body.u128(shared_key.map_or(0, |key| key.0));
    body.u64(accepted.stored());
    body.text(&event.site);
    body.text(&facts.event_type);
    body.u8(SourceRole::code(observer.role));
    body.u8(facts.role);
    body.uuid(observer.drain.map(|drain| drain.0).unwrap_or_default());
    body.uuid(facts.platform.0);
    body.uuid(event.session_id.map(|session| session.0).unwrap_or_default());
    body.u8(u8::try_from(LinkRelation::code(event.link)).unwrap_or(0));
    [&event.link_site, &facts.agent, &facts.url].into_iter().for_each(|text| body.text(text));
    for text in [&event.content_id, &event.content_telemetry_id, &event.id, &event.turn_id, &event.output_id] {
        body.text(text.as_deref().unwrap_or_default());
    }
    [&event.data, &event.extra].into_iter().for_each(|json| body.text(json.as_deref().map_or("", RawValue::get)));
    append_fetch(&facts.fetch.clone().unwrap_or_default(), body);
    let unknown = Crawler::default();
    let Crawler { cache_status, asn, country, media_type, bots_version, .. } = event.crawler.as_deref().unwrap_or(&unknown);
    body.text(cache_status);
    body.u32(*asn);
    [country, media_type, bots_version].into_iter().for_each(|text| body.text(text));
    append_signature(event.signature.as_deref(), body);
    body.i32(origin.0);
    body.i64(origin.1);
}

fn append_signature(signature: Option<&RecordedSignature>, body: &mut Encoder) {
    body.u8(signature.map_or(SignatureResult::None, |signature| signature.result).code());
    body.text(signature.map_or("", |signature| &signature.reason));
    body.text(signature.map_or("", |signature| &signature.signed_by));
    let proof = signature.and_then(|signature| signature.proof.as_ref());
    body.text(&proof.map(|proof| serde_json::to_string(proof).expect("a proof serializes")).unwrap_or_default());
}
