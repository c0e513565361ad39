//! Counts a month from its evidence rows (docs/api/counting.md), in order and in one pass.

use super::distinct::{Distinct, Kind};
use super::document::{By, MAX_BYTES, json_bytes, too_large};
use super::figures::{Line, Measure, Tiers, Totals};
use super::hours::CoveredHours;
use super::opaque_ids::{OpaqueIds, hex};
use crate::reads::EvidenceRow;
use schemas::bots::BotTable;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::signature::SignatureResult;
use serde::Serialize;
use service_kit::http::ApiError;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use store::facts::{CONTENT_RETRIEVED, Facts, Fetch, ReportFacts};
use store::report::{Acceptance, Home, Observer};
use store::row::{Entry, EventRow};
use store::tables::{corroboration, owner_fetch};
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Bytes of a line and of a measure without their names, with large figures.
const LINE_BYTES: usize = 300;
const MEASURE_BYTES: usize = 110;

/// What is counted, and for whom.
pub(super) struct Rules<'a> {
    pub(super) since_ms: i64,
    pub(super) until_ms: i64,
    pub(super) operator: Option<&'a str>,
    pub(super) by: By,
    /// Names the operators of agents.
    pub(super) bots: &'a BotTable,
    /// Organizations that report only for their own hosts.
    pub(super) owners: HashSet<Uuid>,
    /// Rows accepted from this time on are late.
    pub(super) late_from_us: Option<u64>,
}

pub(super) struct Computation<'a> {
    rules: Rules<'a>,
    ids: OpaqueIds,
    positions: HashMap<String, u32>,
    /// Estimated length of the lines in JSON.
    bytes: usize,
    lines: Vec<Line>,
    distinct: Distinct,
    pub(super) reports: i64,
    pub(super) late_reports: i64,
    /// Rows of the current event, and its key.
    event: Vec<EvidenceRow>,
    event_key: u128,
}

/// A row of the evidence file. Members are in canonical order.
#[derive(Serialize)]
struct ReportRow<'a> {
    accepted_us: u64,
    at_ms: i64,
    bot: &'a str,
    click: bool,
    content_id: &'a str,
    drain: String,
    group: Option<String>,
    host: &'a str,
    identity: String,
    license: &'a str,
    operator: &'a str,
    organization: String,
    owner: bool,
    place: u64,
    response: Option<String>,
    role: &'a str,
    row: &'static str,
    session: Option<String>,
    signature: &'a str,
    status: Option<u16>,
    r#type: &'a str,
    url: &'a str,
}

#[derive(Serialize)]
struct LineRow<'a> {
    accepted_us: u64,
    at_ms: i64,
    bot: &'a str,
    host: &'a str,
    identity: String,
    operator: &'a str,
    place: u64,
    row: &'static str,
    status: u16,
    url: &'a str,
}

impl<'a> Computation<'a> {
    pub(super) fn new(rules: Rules<'a>, ids: OpaqueIds) -> Self {
        Self {
            rules,
            ids,
            positions: HashMap::new(),
            bytes: 0,
            lines: Vec::new(),
            distinct: Distinct::default(),
            reports: 0,
            late_reports: 0,
            event: Vec::new(),
            event_key: 0,
        }
    }

    /// Adds the next row. If it belongs to another event, finishes the previous one and, if that counts, appends its rows to the evidence
    /// file. Returns 413 if the statement would be too large.
    pub(super) fn add(&mut self, row: EvidenceRow, file: &mut Vec<u8>) -> Result<(), ApiError> {
        if row.event_key != self.event_key {
            self.finish_event(file)?;
            self.event_key = row.event_key;
        }
        self.event.push(row);
        Ok(())
    }

    fn finish_event(&mut self, file: &mut Vec<u8>) -> Result<(), ApiError> {
        let rows = std::mem::take(&mut self.event);
        let Some(first) = rows.first() else { return Ok(()) };
        if first.is_line == 1 {
            return self.log_line(first, file);
        }
        let (facts, operators): (Vec<Facts>, Vec<String>) = rows.iter().map(|row| self.facts(row)).unzip();
        let event = event(&rows, facts);
        let Some(shown) = event.representative() else { return Ok(()) };
        let position = rows.iter().position(|row| row.identity == shown.accepted.identity.0).unwrap_or(0);
        let (row, fetch) = (&rows[position], owner_fetch(&event));
        let names_operator = shown.facts.is_claim() && !operators[position].is_empty();
        let operator = if names_operator { &operators[position] } else { &fetch.operator };
        if !self.counts(event.at_ms(), row.visible_from_ms, operator) {
            return Ok(());
        }
        let number = self.line(&row.host, &row.url, &row.content_id, &row.license)?;
        let measure = measure(row, fetch.status);
        let tiers = self.tiers(number, measure)?;
        count_tier(tiers, &event);
        tiers.signed += u64::from(event.reports.iter().any(|report| report.facts.signature == SignatureResult::Valid));
        for session in event.reports.iter().map(|report| report.facts.session).filter(|session| *session != 0) {
            self.distinct.add(number, Kind::Session, session).map_err(ApiError::unavailable)?;
        }
        let response = self.response(row);
        self.count_metrics(number, measure, shown.facts.session, response).map_err(ApiError::unavailable)?;
        for ((row, report), operator) in rows.iter().zip(&event.reports).zip(&operators) {
            self.write_report(row, &report.facts, operator, file);
        }
        Ok(())
    }

    fn log_line(&mut self, row: &EvidenceRow, file: &mut Vec<u8>) -> Result<(), ApiError> {
        if !self.counts(row.at_ms, row.visible_from_ms, &row.bot_operator) {
            return Ok(());
        }
        let measure = if row.status == 304 { "revalidation" } else { "failed_fetch" };
        let number = self.line(&row.host, &row.url, "", "")?;
        self.tiers(number, measure)?.observed += 1;
        self.note(row);
        let line = LineRow {
            accepted_us: row.received >> 12,
            at_ms: row.at_ms,
            bot: &row.bot_name,
            host: &row.host,
            identity: key_text(row.identity),
            operator: &row.bot_operator,
            place: row.received & 0xfff,
            row: "line",
            status: row.status,
            url: &row.url,
        };
        write_row(&line, file);
        Ok(())
    }

    fn note(&mut self, row: &EvidenceRow) {
        self.reports += 1;
        self.late_reports += i64::from(self.rules.late_from_us.is_some_and(|from| row.received >> 12 >= from));
    }

    fn counts(&self, at_ms: i64, visible_from_ms: i64, operator: &str) -> bool {
        let first = self.rules.since_ms.max(visible_from_ms);
        (first..self.rules.until_ms).contains(&at_ms) && self.rules.operator.is_none_or(|wanted| wanted == operator)
    }

    /// Returns the parts of a report that the store's rules need, and its operator: the agent's for a claim, otherwise the bot's.
    fn facts(&self, row: &EvidenceRow) -> (Facts, String) {
        let session = if row.shown_session.is_nil() { 0 } else { self.ids.session(row.platform, row.shown_session) };
        let mut facts = ReportFacts {
            event_type: row.event_type.clone(),
            url: String::new(),
            role: row.role,
            platform: OrgId(row.platform),
            agent: String::new(),
            session,
            link_site: String::new(),
            fetch: None,
            is_owners: self.rules.owners.contains(&row.organization),
            signature: row.verdict.parse().unwrap_or(SignatureResult::None),
        };
        let agents = self.rules.bots.classify_text(&row.shown_agent).filter(|_| facts.is_claim());
        let operator = agents.map_or_else(|| row.bot_operator.clone(), |bot| bot.operator.to_string());
        let fetch = || Fetch { bot: row.bot_name.clone(), operator: operator.clone(), status: row.status, ..Fetch::default() };
        facts.fetch = (row.has_fetch == 1).then(fetch);
        (Arc::new(facts), operator)
    }

    fn response(&self, row: &EvidenceRow) -> Option<u64> {
        let has_response = !row.response.is_empty();
        has_response.then(|| self.ids.response(row.organization, row.shown_session, &row.response))
    }

    /// Returns a line's position, and adds the line if it is new.
    fn line(&mut self, host: &str, url: &str, content_id: &str, license: &str) -> Result<usize, ApiError> {
        let content = match self.rules.by {
            _ if url.is_empty() => content_id.to_owned(),
            By::Url => url.to_owned(),
            By::Section => section(host, url),
        };
        let key = format!("{}:{host}{}:{content}{license}", host.len(), content.len());
        if let Some(position) = self.positions.get(&key) {
            return Ok(*position as usize);
        }
        let position = self.lines.len();
        self.reserve(LINE_BYTES + json_bytes(host) + json_bytes(&content) + json_bytes(license))?;
        self.positions.insert(key, u32::try_from(position).unwrap_or(u32::MAX));
        let (host, license) = (host.to_owned(), license.to_owned());
        self.lines.push(Line { content, host, license, ..Line::default() });
        Ok(position)
    }

    fn tiers(&mut self, number: usize, measure: &str) -> Result<&mut Tiers, ApiError> {
        let measure = Measure(measure.to_owned());
        if !self.lines[number].events.contains_key(&measure) {
            self.reserve(MEASURE_BYTES + json_bytes(&measure.0))?;
        }
        Ok(self.lines[number].events.entry(measure).or_default())
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES { Err(too_large()) } else { Ok(()) }
    }

    /// Counts the metrics of COUNTER. Without a session, a fetch or investigation counts as if it had its own.
    fn count_metrics(&mut self, number: usize, measure: &str, session: u64, response: Option<u64>) -> io::Result<()> {
        let counter = &mut self.lines[number].counter;
        let (total, unique, kind) = match measure {
            "fetch" => (&mut counter.requests, &mut counter.unique_requests, Kind::Request),
            "grounding" | "citation" => (&mut counter.investigations, &mut counter.unique_investigations, Kind::Investigation),
            _ => return Ok(()),
        };
        *total += 1;
        if session == 0 {
            *unique += 1;
        } else {
            self.distinct.add(number, kind, session)?;
        }
        match response.filter(|_| measure != "fetch") {
            Some(response) => self.distinct.add(number, Kind::Response, response),
            None => Ok(()),
        }
    }

    fn write_report(&mut self, row: &EvidenceRow, facts: &ReportFacts, operator: &str, file: &mut Vec<u8>) {
        self.note(row);
        let role = SourceRole::from_code(row.role).map_or("", SourceRole::as_str);
        let report = ReportRow {
            accepted_us: row.received >> 12,
            at_ms: row.at_ms.max(0),
            bot: &row.bot_name,
            click: row.is_click == 1,
            content_id: &row.content_id,
            drain: self.ids.opaque(row.drain),
            group: (row.is_joined == 1).then(|| key_text(row.event_key)),
            host: &row.host,
            identity: key_text(row.identity),
            license: &row.license,
            operator,
            organization: self.ids.opaque(row.organization),
            owner: facts.is_owners,
            place: row.received & 0xfff,
            response: self.response(row).map(hex),
            role,
            row: "report",
            session: (facts.session != 0).then(|| hex(facts.session)),
            signature: facts.signature.as_str(),
            status: facts.fetch.as_ref().map(|fetch| fetch.status),
            r#type: &row.event_type,
            url: &row.url,
        };
        write_row(&report, file);
    }

    /// Returns the lines, sorted, and the totals.
    pub(super) async fn finish(mut self, file: &mut Vec<u8>, covered: &CoveredHours) -> Result<Counted, ApiError> {
        self.finish_event(file)?;
        let (distinct, mut lines) = (self.distinct, self.lines);
        let count = move || distinct.finish(&mut lines).map(|found| (found, lines));
        let counted = spawn_blocking(count).await.map_err(ApiError::internal)?;
        let ((sessions, responses), mut lines) = counted.map_err(ApiError::unavailable)?;
        let hours = u64::try_from((self.rules.until_ms - self.rules.since_ms) / 3_600_000).unwrap_or(0);
        let mut totals = Totals { hours, covered_hours: covered.total(), sessions, ..Totals::default() };
        totals.counter.responses = responses;
        let mut by_host = HashMap::new();
        for line in &mut lines {
            line.covered_hours = *by_host.entry(line.host.clone()).or_insert_with(|| covered.hours_of(&line.host));
            totals.add(line);
        }
        lines.sort_by(|a, b| a.key().cmp(&b.key()));
        Ok(Counted { lines, bytes: self.bytes, totals, reports: self.reports, late_reports: self.late_reports })
    }
}

pub(super) struct Counted {
    pub(super) lines: Vec<Line>,
    /// At least the length of the lines in JSON.
    pub(super) bytes: usize,
    pub(super) totals: Totals,
    pub(super) reports: i64,
    pub(super) late_reports: i64,
}

/// The event that these reports are, in order of acceptance.
fn event(rows: &[EvidenceRow], facts: Vec<Facts>) -> EventRow<Facts> {
    let entry = |(row, facts): (&EvidenceRow, Facts)| Entry {
        accepted: Acceptance::from_stored(row.received, EventKey(row.identity)),
        observer: Observer {
            org: OrgId(row.organization),
            role: SourceRole::from_code(row.role),
            drain: Some(DrainId(row.drain)).filter(|drain| !drain.0.is_nil()),
        },
        at_ms: row.at_ms,
        home: Home(0),
        facts,
    };
    let key = EventKey(rows.first().map_or(0, |row| row.event_key));
    EventRow { key, site: None, home: Home(0), reports: rows.iter().zip(facts).map(entry).collect() }
}

fn measure(row: &EvidenceRow, status: u16) -> &str {
    match (row.event_type.as_str(), status) {
        (CONTENT_RETRIEVED, 0 | 200..300) => "fetch",
        (CONTENT_RETRIEVED, 304) => "revalidation",
        (CONTENT_RETRIEVED, _) => "failed_fetch",
        ("content_grounded", _) => "grounding",
        ("content_cited", _) => "citation",
        ("content_presented", _) => "presentation",
        ("content_engaged", _) if row.is_click == 1 => "visit",
        ("content_engaged", _) => "engagement",
        (other, _) => other,
    }
}

fn count_tier(tiers: &mut Tiers, event: &EventRow<Facts>) {
    let facts = || event.reports.iter().map(|report| &report.facts);
    let (is_claimed, is_seen) = if facts().any(|facts| facts.event_type == CONTENT_RETRIEVED) {
        corroboration(event)
    } else {
        let is_claimed = facts().any(|facts| facts.is_claim());
        (is_claimed, !is_claimed && facts().any(|facts| facts.is_seen_by_server()))
    };
    *match (is_claimed, is_seen) {
        (true, true) => &mut tiers.corroborated,
        (true, false) => &mut tiers.claimed,
        (false, true) => &mut tiers.observed,
        (false, false) => &mut tiers.unknown,
    } += 1;
}

/// Returns the host with the first segment of the path and `*`, or without a segment if the path has only one.
fn section(host: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    match rest.split('/').skip(1).collect::<Vec<_>>().as_slice() {
        [segment, _, ..] => format!("https://{host}/{segment}/*"),
        _ => format!("https://{host}/"),
    }
}

fn key_text(key: u128) -> String {
    format!("{key:032x}")
}

fn write_row(row: &impl Serialize, file: &mut Vec<u8>) {
    serde_json::to_writer(&mut *file, row).expect("rows contain only strings and numbers");
    file.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_bytes_of_a_statement() {
        let (long, quotes) = ("x".repeat(8_000), "\"".repeat(500));
        for (name, path, measures) in
            [("short", "/", 1), ("long", long.as_str(), 1), ("quotes", &quotes, 2), ("types", "/", 50_000)]
        {
            let (owners, bots) = (HashSet::new(), &BotTable::bundled());
            let rules = Rules { since_ms: 0, until_ms: 0, operator: None, by: By::Url, bots, owners, late_from_us: None };
            let mut computation = Computation::new(rules, OpaqueIds::new(Vec::new()));
            let mut add = |number: usize| {
                let url = format!("https://a.test/{}{path}", number / measures);
                let line = computation.line("a.test", &url, "", &url)?;
                computation.tiers(line, &format!("type{number}")).map(|tiers| tiers.claimed = u64::MAX >> 11)
            };
            assert!((0..1_000_000).any(|number| add(number).is_err()), "{name}");
            let bytes = serde_json::to_string(&computation.lines).unwrap().len();
            assert!((MAX_BYTES / 2..MAX_BYTES).contains(&bytes), "{name}: {bytes}");
        }
    }
}
