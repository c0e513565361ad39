//! Counts events as defined in docs/api/counting.md, from the rows of an evidence file.

use crate::evidence::{LogLine, Report, Role, Row, Signature, is_within};
use crate::figures::{Counter, Figures, Totals};
use crate::statement::{By, LineKey, Statement, Times};
use std::collections::{BTreeMap, BTreeSet, HashSet};

const MAX_OBSERVERS: usize = 32;
const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;

/// The figures so far. Rows must arrive in file order.
pub(crate) struct Count<'a> {
    statement: &'a Statement,
    times: Times,
    lines: BTreeMap<LineKey, LineCount>,
    covered: BTreeMap<String, BTreeSet<i64>>,
    /// Rows with the current key, with their numbers.
    group: Vec<(usize, Row)>,
    group_key: String,
    identities: HashSet<String>,
    pub(crate) reports: i64,
    pub(crate) hours: i64,
    sessions: HashSet<u64>,
    responses: HashSet<u64>,
}

#[derive(Default)]
struct LineCount {
    figures: Figures,
    sessions: HashSet<u64>,
    responses: HashSet<u64>,
    requesting: HashSet<u64>,
    investigating: HashSet<u64>,
}

/// An event or a log line, with everything that is counted.
struct Counted<'a> {
    key: LineKey,
    measure: &'a str,
    tier: Tier,
    is_signed: bool,
    sessions: Vec<u64>,
    /// Session and response in the report that represents the event.
    session: Option<u64>,
    response: Option<u64>,
}

#[derive(Clone, Copy)]
enum Tier {
    Claimed,
    Corroborated,
    Observed,
    Unknown,
}

impl<'a> Count<'a> {
    pub(crate) fn new(statement: &'a Statement, times: Times) -> Self {
        Self {
            statement,
            times,
            lines: BTreeMap::new(),
            covered: BTreeMap::new(),
            group: Vec::new(),
            group_key: String::new(),
            identities: HashSet::new(),
            reports: 0,
            hours: 0,
            sessions: HashSet::new(),
            responses: HashSet::new(),
        }
    }

    /// Adds a row with its key. Errors name the row and the rule that it breaks.
    pub(crate) fn add(&mut self, number: usize, key: &str, row: Row) -> Result<(), String> {
        let wrong = |text: &str| Err(format!("evidence row {number}: {text}"));
        if self.group_key != key {
            self.finish_group()?;
            key.clone_into(&mut self.group_key);
        }
        let host = row.host();
        if !host.is_empty() && !self.statement.hosts.iter().any(|above| is_within(host, above)) {
            return wrong("has a host that the statement does not have");
        }
        if let Row::Hour(hour) = &row {
            if !self.is_in_period(hour.at_ms) {
                return wrong("is outside the period");
            }
            self.hours += 1;
            self.covered.entry(hour.host.clone()).or_default().insert(hour.at_ms);
            return Ok(());
        }
        if row.accepted_us() >= self.times.closed_ms * 1_000 {
            return wrong("was accepted after the statement was closed");
        }
        if self.group.first().is_some_and(|(_, first)| first.host() != host) {
            return wrong("has another host than its group");
        }
        if !self.identities.insert(row.identity().to_owned()) {
            return wrong("repeats a report");
        }
        self.reports += 1;
        self.group.push((number, row));
        Ok(())
    }

    fn is_in_period(&self, at_ms: i64) -> bool {
        (self.times.since_ms..self.times.until_ms).contains(&at_ms)
    }

    fn finish_group(&mut self) -> Result<(), String> {
        let group = std::mem::take(&mut self.group);
        self.identities.clear();
        let Some((first, _)) = group.first() else { return Ok(()) };
        let reports: Vec<&Report> =
            group.iter().filter_map(|(_, row)| if let Row::Report(report) = row { Some(&**report) } else { None }).collect();
        let events = events(&reports);
        let mut counted: Vec<Counted<'_>> = events.iter().filter_map(|event| self.event(event)).collect();
        counted.extend(group.iter().filter_map(|(_, row)| if let Row::Line(line) = row { self.log_line(line) } else { None }));
        if counted.is_empty() {
            return Err(format!("evidence row {first}: its group has no event of the statement"));
        }
        counted.into_iter().for_each(|one| self.count(one));
        Ok(())
    }

    fn belongs(&self, at_ms: i64, operator: &str) -> bool {
        self.is_in_period(at_ms) && self.statement.operator.as_deref().is_none_or(|wanted| wanted == operator)
    }

    fn key(&self, host: &str, url: &str, content_id: &str, license: &str) -> LineKey {
        let content = match self.statement.by {
            _ if url.is_empty() => content_id.to_owned(),
            By::Url => url.to_owned(),
            By::Section => section(host, url),
        };
        (host.to_owned(), content, license.to_owned())
    }

    fn event<'b>(&self, reports: &[&'b Report]) -> Option<Counted<'b>> {
        // Among equal reports, `min_by_key` returns the first one.
        let shown = *reports.iter().min_by_key(|report| report.role)?;
        let timely = reports.iter().find(|report| is_timely(report)).or(reports.first())?;
        let described = reports.iter().filter(|report| report.status.is_some());
        let decides = described.min_by_key(|report| {
            let has_no_bot = report.bot.is_empty();
            (!report.owner, has_no_bot, has_no_bot && report.status == Some(0), report.role)
        });
        let operator = match decides {
            _ if is_claim(shown) && !shown.operator.is_empty() => &shown.operator,
            Some(report) => &report.operator,
            None => "",
        };
        if !self.belongs(timely.at_ms, operator) {
            return None;
        }
        let status = decides.map_or(0, |report| {
            let status = report.status.unwrap_or(0);
            let is_foreign = !report.owner && reports.iter().any(|report| report.owner);
            if is_foreign && !(200..300).contains(&status) { 0 } else { status }
        });
        let digests = |digest: &Option<String>| digest.as_ref().and_then(|digest| u64::from_str_radix(digest, 16).ok());
        Some(Counted {
            key: self.key(&shown.host, &shown.url, &shown.content_id, &shown.license),
            measure: measure(shown, status),
            tier: tier(reports),
            is_signed: reports.iter().any(|report| report.signature == Signature::Valid),
            sessions: reports.iter().filter_map(|report| digests(&report.session)).collect(),
            session: digests(&shown.session),
            response: digests(&shown.response),
        })
    }

    fn log_line(&self, line: &LogLine) -> Option<Counted<'static>> {
        self.belongs(line.at_ms, &line.operator).then(|| Counted {
            key: self.key(&line.host, &line.url, "", ""),
            measure: if line.status == 304 { "revalidation" } else { "failed_fetch" },
            tier: Tier::Observed,
            is_signed: false,
            sessions: Vec::new(),
            session: None,
            response: None,
        })
    }

    fn count(&mut self, one: Counted<'_>) {
        let line = self.lines.entry(one.key).or_default();
        let tiers = line.figures.events.entry(one.measure.to_owned()).or_default();
        *match one.tier {
            Tier::Claimed => &mut tiers.claimed,
            Tier::Corroborated => &mut tiers.corroborated,
            Tier::Observed => &mut tiers.observed,
            Tier::Unknown => &mut tiers.unknown,
        } += 1;
        tiers.signed += i64::from(one.is_signed);
        line.sessions.extend(&one.sessions);
        self.sessions.extend(&one.sessions);
        // Without a session, a fetch or investigation counts as if it had its own.
        let is_first = |seen: &mut HashSet<u64>| i64::from(one.session.is_none_or(|session| seen.insert(session)));
        let counter = &mut line.figures.counter;
        match one.measure {
            "fetch" => {
                counter.requests += 1;
                counter.unique_requests += is_first(&mut line.requesting);
            }
            "grounding" | "citation" => {
                counter.investigations += 1;
                counter.unique_investigations += is_first(&mut line.investigating);
                line.responses.extend(one.response);
                self.responses.extend(one.response);
            }
            _ => {}
        }
    }

    /// Returns the figures of each line, and the totals.
    pub(crate) fn finish(mut self) -> Result<(BTreeMap<LineKey, Figures>, Totals), String> {
        self.finish_group()?;
        let size = |set: &HashSet<u64>| i64::try_from(set.len()).unwrap_or(i64::MAX);
        let mut totals = Figures { sessions: size(&self.sessions), ..Figures::default() };
        let mut hours_of: BTreeMap<&str, i64> = BTreeMap::new();
        let mut lines = BTreeMap::new();
        for (key, line) in &self.lines {
            let covered_hours = *hours_of.entry(&key.0).or_insert_with(|| self.covered_hours(|above| is_within(&key.0, above)));
            let mut figures = Figures { covered_hours, sessions: size(&line.sessions), ..line.figures.clone() };
            figures.counter.responses = size(&line.responses);
            add(&mut totals, &figures);
            lines.insert(key.clone(), figures);
        }
        totals.counter.responses = size(&self.responses);
        totals.covered_hours = self.covered_hours(|_| true);
        let hours = (self.times.until_ms - self.times.since_ms) / 3_600_000;
        Ok((lines, Totals { figures: totals, hours }))
    }

    fn covered_hours(&self, is_chosen: impl Fn(&str) -> bool) -> i64 {
        let hours = self.covered.iter().filter(|(host, _)| is_chosen(host)).flat_map(|(_, hours)| hours);
        i64::try_from(hours.collect::<BTreeSet<_>>().len()).unwrap_or(i64::MAX)
    }
}

/// Adds the figures that add up over lines.
fn add(totals: &mut Figures, line: &Figures) {
    for (measure, tiers) in &line.events {
        let sum = totals.events.entry(measure.clone()).or_default();
        sum.claimed += tiers.claimed;
        sum.corroborated += tiers.corroborated;
        sum.observed += tiers.observed;
        sum.unknown += tiers.unknown;
        sum.signed += tiers.signed;
    }
    let Counter { investigations, requests, unique_investigations, unique_requests, .. } = line.counter;
    totals.counter.investigations += investigations;
    totals.counter.requests += requests;
    totals.counter.unique_investigations += unique_investigations;
    totals.counter.unique_requests += unique_requests;
}

/// Joins a group's reports, which are in order of acceptance.
fn events<'a>(reports: &[&'a Report]) -> Vec<Vec<&'a Report>> {
    let (mut joined, mut events) = (Vec::new(), Vec::new());
    let mut observers = HashSet::new();
    for report in reports {
        let observer = (&report.organization, report.role as u8, &report.drain);
        if report.group.is_some() && observers.len() < MAX_OBSERVERS && observers.insert(observer) {
            joined.push(*report);
        } else {
            events.push(vec![*report]);
        }
    }
    events.push(joined);
    events
}

fn is_timely(report: &Report) -> bool {
    (-HOUR_US..=DAY_US).contains(&(report.accepted_us - report.at_ms.saturating_mul(1_000)))
}

fn is_claim(report: &Report) -> bool {
    report.role == Role::Agent || (report.role == Role::Unknown && report.session.is_some())
}

fn tier(reports: &[&Report]) -> Tier {
    let claiming: HashSet<&String> =
        reports.iter().filter(|report| is_claim(report)).map(|report| &report.organization).collect();
    let is_seen =
        reports.iter().any(|report| matches!(report.role, Role::Edge | Role::Origin) && !claiming.contains(&report.organization));
    match (!claiming.is_empty(), is_seen) {
        (true, true) => Tier::Corroborated,
        (true, false) => Tier::Claimed,
        (false, true) => Tier::Observed,
        (false, false) => Tier::Unknown,
    }
}

fn measure(shown: &Report, status: i64) -> &str {
    match (shown.r#type.as_str(), status) {
        ("content_retrieved", 0 | 200..300) => "fetch",
        ("content_retrieved", 304) => "revalidation",
        ("content_retrieved", _) => "failed_fetch",
        ("content_grounded", _) => "grounding",
        ("content_cited", _) => "citation",
        ("content_presented", _) => "presentation",
        ("content_engaged", _) => {
            if shown.click {
                "visit"
            } else {
                "engagement"
            }
        }
        (other, _) => other,
    }
}

/// Returns a URL's section: `https://host/segment/*`, or `https://host/` if the path has only one segment.
fn section(host: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    match path.split_once('/') {
        Some((segment, _)) => format!("https://{host}/{segment}/*"),
        None => format!("https://{host}/"),
    }
}
