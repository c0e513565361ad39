//! Computes the expected rows from all reports at once. Doesn't share code with the merge function.

use schemas::click_tokens::LinkRelation;
use schemas::crawler::Crawler;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord};
use schemas::report_keys::ReportKeys;
use schemas::signature::{RecordedSignature, SignatureResult};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::facts::session_digest;

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
const MOST_OBSERVERS: usize = 32;

/// Columns of `events` that the model lacks. `home` and `reports.home` are the months of the copies that were read first, and `version`
/// contains block numbers, which depend on time. `is_deleted` is 0 in a live row. `reports.details` is the writer's encoding of columns
/// that events with several reports show when another report represents them.
pub(super) const NO_EVENT_COLUMNS: &str = "home, version, is_deleted, `reports.home`, `reports.details`";
/// Columns of `reports` that the model lacks, for the same reasons. Copies that were accepted at the same moment differ only in their
/// origin, so the one that is read first stays: see [`origins`].
pub(super) const NO_REPORT_COLUMNS: &str = "home, version, is_deleted, origin_partition, origin_offset";

/// When a report was accepted: microseconds, place in the request, identity.
type Acceptance = (i64, u64, u128);

#[derive(Clone, Debug)]
struct Report {
    accepted: Acceptance,
    shared: Option<u128>,
    observer: (uuid::Uuid, u8, Option<uuid::Uuid>),
    /// The role that the report counts for.
    role: u8,
    is_owners: bool,
    /// Signature from the log line, otherwise from the request.
    signature: Option<RecordedSignature>,
    event: LogEvent,
}

impl Report {
    fn org(&self) -> OrgId {
        OrgId(self.observer.0)
    }

    fn platform(&self) -> OrgId {
        self.event.session_org.unwrap_or(self.org())
    }

    fn agent(&self) -> &str {
        self.event.agent_id.as_deref().unwrap_or_default()
    }

    fn session(&self) -> u64 {
        self.event.session_id.map_or(0, |session| session_digest(self.platform(), session))
    }

    fn drain(&self) -> uuid::Uuid {
        self.observer.2.filter(|_| self.shared.is_some()).unwrap_or_default()
    }

    /// Returns whether the report counts as an agent's.
    fn is_claim(&self) -> bool {
        self.role == 1 || self.role == 0 && self.event.session_id.is_some()
    }

    fn is_seen(&self) -> bool {
        self.role == 2 || self.role == 3
    }

    /// Returns the sort key of representation: agent, edge, origin, index, no role.
    fn precedence(&self) -> (u8, Acceptance) {
        (self.observer.1.wrapping_sub(1), self.accepted)
    }

    /// Returns the fetch that the server reported; `None` if its description is empty.
    fn fetch(&self) -> Option<&Crawler> {
        let says = |of: &&Crawler| {
            let texts = [&of.bot, &of.operator].iter().any(|text| !text.is_empty());
            texts || of.purpose.is_some() || of.verified.is_some() || of.response_status != 0 || of.response_bytes != 0
        };
        self.event.crawler.as_deref().filter(says)
    }

    fn signature(&self) -> SignatureResult {
        self.signature.as_ref().map_or(SignatureResult::None, |signature| signature.result)
    }

    fn link(&self) -> &'static str {
        match self.event.link {
            Some(LinkRelation::Taken) => "taken",
            Some(LinkRelation::Same) => "same",
            Some(LinkRelation::Other) => "other",
            None => "",
        }
    }

    /// Returns the host whose readers can see the session.
    fn shown_to(&self) -> &str {
        match (self.link(), self.event.link_site.as_str()) {
            ("other", "") => "-",
            ("other", site) => site,
            _ => "",
        }
    }

    fn received(&self) -> u64 {
        let (at_us, place, _) = self.accepted;
        u64::try_from(at_us).unwrap() * 4_096 + place
    }
}

fn reports(records: &[(i32, Value)]) -> Vec<Report> {
    let mut reports = Vec::new();
    for (_, record) in records {
        let record: LogRecord = serde_json::from_value(record.clone()).unwrap();
        for (place, event) in record.events.into_iter().enumerate() {
            let ReportKeys { shared, identity } = ReportKeys::new(record.org, record.drain, &event);
            let role = schemas::event::SourceRole::code(event.source_role);
            reports.push(Report {
                accepted: (record.received_at_us, place as u64, identity.0),
                shared: shared.map(|key| key.0),
                // Only agents cite.
                role: if event.event_type == "content_cited" && role == 0 { 1 } else { role },
                observer: (record.org.0, role, record.drain.map(|drain| drain.0)),
                is_owners: record.is_owners,
                signature: event.signature.as_deref().or(record.signature.as_deref()).cloned(),
                event,
            });
        }
    }
    reports.sort_by_key(|report| report.accepted);
    let mut seen = BTreeSet::new();
    reports.retain(|report| seen.insert(report.accepted.2));
    reports
}

/// Returns the rows of `events`, ordered by key. 64-bit and 128-bit integers are strings, times are in milliseconds.
pub(crate) fn events(records: &[(i32, Value)]) -> Vec<Value> {
    let mut events: BTreeMap<u128, Vec<Report>> = BTreeMap::new();
    for report in reports(records) {
        let joins = |key: &u128| {
            let joined = events.get(key).map_or(&[][..], Vec::as_slice);
            joined.len() < MOST_OBSERVERS && joined.iter().all(|other| other.observer != report.observer)
        };
        let key = report.shared.filter(joins).unwrap_or(report.accepted.2);
        events.entry(key).or_default().push(report);
    }
    events.into_iter().map(|(key, reports)| event(key, &reports)).collect()
}

fn joined<const N: usize>(objects: [Value; N]) -> Value {
    objects.into_iter().flat_map(|object| object.as_object().unwrap().clone()).collect::<serde_json::Map<_, _>>().into()
}

fn event(key: u128, reports: &[Report]) -> Value {
    let shown = (0..reports.len()).min_by_key(|n| reports[*n].precedence()).unwrap();
    let described = reports.iter().filter(|report| report.fetch().is_some());
    let rank = |fetch: &Crawler| (fetch.bot.is_empty(), fetch.bot.is_empty() && fetch.response_status == 0);
    let described = described.min_by_key(|report| (!report.is_owners, rank(report.fetch().unwrap()), report.precedence()));
    let mut fetch = described.and_then(Report::fetch).cloned().unwrap_or_default();
    let is_owners_event = reports.iter().any(|report| report.is_owners);
    if described.is_some_and(|report| is_owners_event && !report.is_owners) && fetch.response_status / 100 != 2 {
        (fetch.response_status, fetch.response_bytes) = (0, 0);
    }
    let others = reports.iter().enumerate().filter(|(n, report)| *n != shown && (report.role == 1 || report.session() != 0));
    let others: Vec<&Report> = others.map(|(_, report)| report).collect();
    joined([
        of_event(key, reports),
        of_representative(shown, &reports[shown]),
        of_fetch(&fetch),
        json!({
            "other_agents.role": column(others.iter().copied(), |report| json!(report.role)),
            "other_agents.platform": column(others.iter().copied(), |report| json!(report.platform())),
            "other_agents.agent": column(others.iter().copied(), |report| json!(report.agent())),
            "other_agents.session": column(others.iter().copied(), |report| json!(report.session().to_string())),
        }),
        json!({
            "reports.organization": column(reports, |report| json!(report.org())),
            "reports.platform": column(reports, |report| json!(report.platform())),
            "reports.role": column(reports, |report| json!(report.role)),
            "reports.drain": column(reports, |report| json!(report.drain())),
            "reports.agent": column(reports, |report| json!(report.agent())),
            "reports.session": column(reports, |report| json!(report.session().to_string())),
            "reports.at": column(reports, |report| json!(report.event.at_ms.to_string())),
            "reports.received": column(reports, |report| json!(report.received().to_string())),
            "reports.identity": column(reports, |report| json!(report.accepted.2.to_string())),
        }),
    ])
}

fn column<'a>(reports: impl IntoIterator<Item = &'a Report>, value: impl Fn(&Report) -> Value) -> Value {
    reports.into_iter().map(value).collect()
}

fn of_event(key: u128, reports: &[Report]) -> Value {
    let is_timely = |report: &&Report| (-HOUR_US..=DAY_US).contains(&(report.accepted.0 - report.event.at_ms * 1_000));
    let first = reports.iter().find(is_timely).unwrap_or(&reports[0]);
    let is_retrieval = reports.iter().any(|report| report.event.event_type == "content_retrieved");
    let claims: Vec<OrgId> = reports.iter().filter(|report| report.is_claim()).map(Report::org).collect();
    let is_seen = reports.iter().any(|report| report.is_seen() && !claims.contains(&report.org()));
    json!({
        "key": key.to_string(),
        "site": reports[0].event.site,
        "at": first.event.at_ms.to_string(),
        "roles": reports.iter().fold(0, |roles, report| roles | 1 << report.role),
        "is_claimed": u8::from(is_retrieval && !claims.is_empty()),
        "is_seen": u8::from(is_retrieval && is_seen),
        "signature": reports.iter().map(Report::signature).max().unwrap().as_str(),
    })
}

fn of_representative(place: usize, report: &Report) -> Value {
    json!({
        "representative": place + 1,
        "type": report.event.event_type,
        "url": report.event.content_url.as_deref().unwrap_or_default(),
        "role": report.role,
        "is_claim": u8::from(report.is_claim()),
        "organization": report.org(),
        "platform": report.platform(),
        "agent": report.agent(),
        "session": report.session().to_string(),
        "link_site": report.shown_to(),
    })
}

fn of_fetch(of: &Crawler) -> Value {
    json!({
        "bot": of.bot,
        "operator": of.operator,
        "purpose": of.purpose.map(schemas::bots::Purpose::as_str).unwrap_or_default(),
        "verified": of.verified.map_or("unknown", |is_verified| if is_verified { "yes" } else { "no" }),
        "status": of.response_status,
        "bytes": of.response_bytes.to_string(),
    })
}

/// Returns the rows of `reports`, ordered by identity, with the reporter's row before the issuer's.
pub(crate) fn stored_reports(records: &[(i32, Value)]) -> Vec<Value> {
    let mut reports = reports(records);
    reports.sort_unstable_by_key(|report| report.accepted.2);
    let rows = |report: Report| {
        let issuer = report.event.session_org.filter(|issuer| *issuer != report.org());
        let row = joined([of_report(&report), of_texts(&report.event), of_crawler(&report), of_signature(&report)]);
        let of_issuer = issuer.map(|issuer| joined([row.clone(), json!({"organization": issuer, "is_issuers": 1})]));
        [row].into_iter().chain(of_issuer)
    };
    reports.into_iter().flat_map(rows).collect()
}

fn of_report(report: &Report) -> Value {
    json!({
        "organization": report.org(),
        "at": report.event.at_ms.to_string(),
        "identity": report.accepted.2.to_string(),
        "is_issuers": 0,
        "group_key": report.shared.unwrap_or_default().to_string(),
        "received": report.received().to_string(),
        "site": report.event.site,
        "type": report.event.event_type,
        "source_role": report.observer.1,
        "role": report.role,
        "drain": report.drain(),
        "platform": report.platform(),
        "session": report.event.session_id.map(|session| session.0).unwrap_or_default(),
        "link": report.link(),
        "link_site": report.event.link_site,
    })
}

fn of_texts(event: &LogEvent) -> Value {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let raw =
        |value: &Option<Box<serde_json::value::RawValue>>| value.as_ref().map(|raw| raw.get().to_owned()).unwrap_or_default();
    json!({
        "agent": text(&event.agent_id),
        "url": text(&event.content_url),
        "content_id": text(&event.content_id),
        "content_telemetry_id": text(&event.content_telemetry_id),
        "event_id": text(&event.id),
        "turn_id": text(&event.turn_id),
        "output_id": text(&event.output_id),
        "data": raw(&event.data),
        "extra": raw(&event.extra),
    })
}

fn of_crawler(report: &Report) -> Value {
    let of = report.event.crawler.as_deref().cloned().unwrap_or_default();
    let besides = json!({
        "cache_status": of.cache_status,
        "asn": of.asn,
        "country": of.country,
        "media_type": of.media_type,
        "bots_version": of.bots_version,
    });
    joined([of_fetch(&of), besides])
}

fn of_signature(report: &Report) -> Value {
    let signature = report.signature.as_ref();
    let proof = signature.and_then(|signature| signature.proof.as_ref()).map(|proof| serde_json::to_string(proof).unwrap());
    json!({
        "signature": report.signature().as_str(),
        "signature_reason": signature.map_or("", |signature| &signature.reason),
        "signed_by": signature.map_or("", |signature| &signature.signed_by),
        "signature_proof": proof.unwrap_or_default(),
    })
}

/// Returns partition and offset of the records that a report may come from, by identity and time of acceptance. The log has no other
/// records.
pub(super) fn origins(records: &[(i32, Value)]) -> BTreeSet<(u128, u64, i32, i64)> {
    let (mut next, mut origins) = (BTreeMap::<i32, i64>::new(), BTreeSet::new());
    for (partition, record) in records {
        let offset = next.entry(*partition).or_default();
        for report in reports(&[(*partition, record.clone())]) {
            origins.insert((report.accepted.2, report.received(), *partition, *offset));
        }
        *offset += 1;
    }
    origins
}
