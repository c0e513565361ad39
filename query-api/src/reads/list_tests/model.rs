//! The expected lists, from a model with all copies of all reports. It doesn't share code with reads or merge.

use super::MOST;
use super::reports::{BASE_MS, Copy};
use super::stored_reports::received;
use crate::parameters::event_filter::{EventFilter, ReportedBy};
use crate::parameters::period::Period;
use crate::reads::event_page::{EventRow, ReportSignature};
use crate::reads::list_limits::model::{is_standard, listed};
use chrono::DateTime;
use service_kit::identity_tables::OwnedSite;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Owner, host, and start time of the owner's events.
const VERIFIED: [(usize, &str, i64); 4] = [
    (0, "example.com", i64::MIN),
    (1, "blog.example.com", BASE_MS),
    (0, "x.blog.example.com", BASE_MS - 3_600_000),
    (0, "other.test", BASE_MS + 1),
];

/// Returns an owner's hosts as the directory does.
pub(super) fn owned(owner: usize) -> Vec<OwnedSite> {
    let site = |host: &str| super::reports::site(host).unwrap();
    let of = |is_own: bool| VERIFIED.iter().filter(move |(of, ..)| (*of == owner) == is_own);
    let except = |host: &str| of(false).map(|(_, other, _)| *other).filter(|other| is_within(other, host)).map(site).collect();
    let visible_from = |from| if from == i64::MIN { None } else { DateTime::from_timestamp_millis(from) };
    of(true)
        .map(|(_, host, from)| OwnedSite {
            site: site(host),
            visible_from: visible_from(*from),
            excluded: except(host),
            formerly_owned: Vec::new(),
        })
        .collect()
}

fn is_within(host: &str, verified: &str) -> bool {
    host == verified || host.ends_with(&format!(".{verified}"))
}

/// Returns the time from which events on this host belong to the owner.
fn owned_from(owner: usize, host: &str) -> Option<i64> {
    let above = VERIFIED.iter().filter(|(_, verified, _)| is_within(host, verified));
    let (of, _, from) = above.max_by_key(|(_, verified, _)| verified.len())?;
    (*of == owner).then_some(*from)
}

fn is_in(period: &Period, at_ms: i64) -> bool {
    period.from_ms.is_none_or(|from| at_ms >= from) && period.before_ms.is_none_or(|before| at_ms < before)
}

/// Returns the first accepted copy of each report, in order of acceptance.
pub(super) fn firsts(copies: &[Copy]) -> Vec<&Copy> {
    let mut copies: Vec<&Copy> = copies.iter().collect();
    copies.sort_by_key(|copy| (copy.accepted.at_us, copy.accepted.place));
    let mut seen = BTreeSet::new();
    copies.retain(|copy| seen.insert(copy.accepted.identity));
    copies
}

/// An event with its reports in order of acceptance.
pub(super) struct Event<'a> {
    pub(super) key: u128,
    pub(super) reports: Vec<&'a Copy>,
}

pub(super) fn events(copies: &[Copy]) -> Vec<Event<'_>> {
    let mut events: BTreeMap<u128, Vec<&Copy>> = BTreeMap::new();
    for report in firsts(copies) {
        let shared = report.shared_key.map(|key| key.0);
        let is_first = |key: &u128| events.get(key).is_none_or(|joined| joined.iter().all(|one| one.observer != report.observer));
        let key = shared.filter(is_first).unwrap_or(report.accepted.identity.0);
        events.entry(key).or_default().push(report);
    }
    events.into_iter().map(|(key, reports)| Event { key, reports }).collect()
}

fn precedence(copy: &Copy) -> (u8, u64) {
    (if copy.facts.roles.0 == 0 { 9 } else { copy.facts.roles.0 }, received(&copy.accepted))
}

fn host(copy: &Copy) -> String {
    copy.site.as_ref().unwrap().domain()
}

fn row(owner: usize, key: u128, copy: &Copy) -> EventRow {
    let content = &copy.facts;
    let leads_to = content.link_site.rsplit('.').collect::<Vec<_>>().join(".");
    let is_owners = || owned_from(owner, &leads_to).is_some_and(|from| copy.at_ms >= from);
    let shows_agent = content.link != 3 || (!content.link_site.is_empty() && is_owners());
    EventRow {
        id: if content.event_id.is_empty() { Uuid::from_u128(key).to_string() } else { content.event_id.clone() },
        r#type: content.event_type.to_owned(),
        session: if shows_agent { content.session } else { Uuid::nil() },
        platform: if shows_agent { content.platform } else { copy.observer.org.0 },
        agent: if shows_agent { content.agent.clone() } else { String::new() },
        url: content.url.clone(),
        telemetry_id: String::new(),
        role: content.roles.1,
        by_other: 0,
        at_ms: copy.at_ms,
        reported: content.data.clone(),
        unknown: content.extra.clone(),
        roles: vec![content.roles.1],
        fetch: None,
        signature: ReportSignature::default(),
    }
}

fn signature(copy: &Copy) -> ReportSignature {
    let result = copy.facts.signature;
    let text = |of: u8, text: &str| if result == of { text.to_owned() } else { String::new() };
    ReportSignature { result, reason: text(1, "stale"), signed_by: String::new(), proof: text(2, "{}") }
}

impl Event<'_> {
    pub(super) fn at_ms(&self) -> i64 {
        let is_timely = |copy: &&&Copy| {
            let late_ms = copy.accepted.at_us / 1_000 - copy.at_ms;
            (-3_600_000..=86_400_000).contains(&late_ms)
        };
        self.reports.iter().find(is_timely).unwrap_or(&self.reports[0]).at_ms
    }

    fn representing(&self) -> &Copy {
        self.reports.iter().min_by_key(|copy| precedence(copy)).unwrap()
    }

    fn is_visible(&self, owner: usize) -> bool {
        let from = owned_from(owner, &host(self.reports[0]));
        from.is_some_and(|from| self.at_ms() >= from) && !self.representing().facts.event_type.starts_with("turn_")
    }

    fn row(&self, owner: usize) -> EventRow {
        let roles: BTreeSet<u8> = self.reports.iter().map(|copy| copy.facts.roles.1).collect();
        let is_fetch = self.representing().facts.event_type == "content_retrieved";
        let fetch = Some((if is_fetch { "fetch".to_owned() } else { String::new() }, String::new()));
        EventRow { at_ms: self.at_ms(), roles: roles.into_iter().collect(), fetch, ..row(owner, self.key, self.representing()) }
    }

    /// Returns the reports that the owner may see, by precedence.
    fn visible_reports(&self, owner: usize) -> Vec<&Copy> {
        let from = owned_from(owner, &host(self.reports[0])).unwrap();
        let represents = |copy: &Copy| copy.accepted == self.representing().accepted;
        let mut reports: Vec<&Copy> =
            self.reports.iter().copied().filter(|copy| copy.at_ms >= from || represents(copy)).collect();
        reports.sort_by_key(|copy| precedence(copy));
        reports
    }

    fn report_rows(&self, owner: usize) -> Vec<EventRow> {
        let named = |(nth, copy): (usize, &Copy)| {
            let row = EventRow { signature: signature(copy), ..row(owner, self.key, copy) };
            if nth == 0 || row.role == 1 || !row.session.is_nil() {
                return row;
            }
            let signature = ReportSignature { proof: String::new(), ..row.signature };
            EventRow { platform: Uuid::nil(), agent: String::new(), signature, ..row }
        };
        self.visible_reports(owner).into_iter().enumerate().map(named).collect()
    }

    fn claimed_and_seen(&self) -> Option<(bool, bool)> {
        let is_claim = |copy: &&&Copy| copy.facts.roles.1 == 1 || (copy.facts.roles.1 == 0 && !copy.facts.session.is_nil());
        let claimants: BTreeSet<Uuid> = self.reports.iter().filter(is_claim).map(|copy| copy.observer.org.0).collect();
        let is_server = |copy: &&Copy| [2, 3].contains(&copy.facts.roles.1) && !claimants.contains(&copy.observer.org.0);
        let is_retrieval = self.reports[0].facts.event_type == "content_retrieved";
        is_retrieval.then(|| (!claimants.is_empty(), self.reports.iter().any(is_server)))
    }
}

/// Returns the events that an owner may see, with their keys, in the order of the list.
pub(super) fn owners_list<'a>(owner: usize, copies: &'a [Copy], period: &Period) -> Vec<Event<'a>> {
    let mut events = events(copies);
    events.retain(|event| event.is_visible(owner) && is_in(period, event.at_ms()));
    events.sort_by_key(|event| (Reverse(event.at_ms()), event.key));
    events
}

pub(super) fn owners_events(owner: usize, copies: &[Copy], period: &Period, filter: &EventFilter) -> Vec<EventRow> {
    let is_wanted = |row: &EventRow| {
        filter.values().all(|(name, value)| match name {
            "event_type" => row.r#type == value,
            "agent_id" => row.agent == value,
            _ => row.platform.to_string() == value,
        })
    };
    owners_list(owner, copies, period).iter().map(|event| event.row(owner)).filter(is_wanted).collect()
}

/// Number of events with this id, the event as listed, its corroboration, and its reports.
pub(super) type OneEvent = (u64, EventRow, Option<(bool, bool)>, Vec<EventRow>);

pub(super) fn one_event(owner: usize, copies: &[Copy], period: &Period, id: &str) -> Option<OneEvent> {
    let events = owners_list(owner, copies, period);
    let named: Vec<&Event<'_>> = events.iter().filter(|event| event.report_rows(owner).iter().any(|row| row.id == id)).collect();
    let newest = named.first()?;
    Some((named.len() as u64, newest.row(owner), newest.claimed_and_seen(), newest.report_rows(owner)))
}

/// Returns an organization's reports, or others' reports with its click tokens, in list order.
pub(super) fn own_list<'a>(org: Uuid, copies: &'a [Copy], period: &Period) -> Vec<(&'a Copy, bool)> {
    let role_of = |copy: &Copy| (copy.observer.org.0 == org, copy.facts.platform == org);
    let mut reports: Vec<(&Copy, bool)> = firsts(copies)
        .into_iter()
        .filter(|copy| role_of(copy) != (false, false) && is_in(period, copy.at_ms))
        .map(|copy| (copy, !role_of(copy).0))
        .collect();
    reports.sort_by_key(|(copy, _)| (Reverse(copy.at_ms), copy.accepted.identity));
    reports
}

pub(super) fn own_row(copy: &Copy, is_others: bool) -> EventRow {
    let content = &copy.facts;
    let is_bound = !is_others && content.platform != copy.observer.org.0;
    let id = if is_others || content.event_id.is_empty() {
        Uuid::from_u128(copy.accepted.identity.0).to_string()
    } else {
        content.event_id.clone()
    };
    EventRow {
        id,
        r#type: content.event_type.to_owned(),
        session: if is_bound { Uuid::nil() } else { content.session },
        platform: if is_bound { Uuid::nil() } else { content.platform },
        agent: if is_bound { String::new() } else { content.agent.clone() },
        url: if is_bound && content.link == 1 { String::new() } else { content.url.clone() },
        telemetry_id: if is_others { String::new() } else { content.telemetry_id.clone() },
        role: content.roles.1,
        by_other: u8::from(is_others),
        at_ms: copy.at_ms,
        reported: content.data.clone(),
        unknown: content.extra.clone(),
        roles: vec![content.roles.1],
        fetch: None,
        signature: ReportSignature::default(),
    }
}

pub(super) fn own_events(org: Uuid, copies: &[Copy], period: &Period, by: Option<ReportedBy>) -> Vec<EventRow> {
    let reports = own_list(org, copies, period).into_iter();
    let reports = reports.filter(|(_, is_others)| by.is_none_or(|by| (by == ReportedBy::Other) == *is_others));
    reports.map(|(copy, is_others)| own_row(copy, is_others)).collect()
}

pub(super) type Named = (&'static str, String);

/// Returns the figures and names that a report counts for.
pub(super) fn figures_of(copy: &Copy, is_others: bool) -> Vec<Named> {
    let row = own_row(copy, is_others);
    if is_others {
        return vec![("clicks", String::new()), ("click", row.r#type)];
    }
    let role = (row.role != 0).then(|| ("role", row.role.to_string()));
    let agent = (row.role == 1 || !row.session.is_nil()).then_some(("agent", row.agent));
    [("total", String::new()), ("type", row.r#type)].into_iter().chain(role).chain(agent).collect()
}

/// A figure, whether it is the sum of unlisted values, and its name.
pub(super) type Figure = (String, bool, String);

pub(super) fn own_figures(org: Uuid, copies: &[Copy], period: &Period) -> BTreeMap<Figure, (u64, u64)> {
    let mut figures: BTreeMap<(&str, String), (u64, BTreeSet<Uuid>)> = BTreeMap::new();
    for (copy, is_others) in own_list(org, copies, period) {
        let session = own_row(copy, is_others).session;
        for (figure, name) in figures_of(copy, is_others) {
            let (events, sessions) = figures.entry((figure, name)).or_default();
            *events += 1;
            sessions.extend(Some(session).filter(|session| !session.is_nil()));
        }
    }
    let of = |figure: &str, most, is_standard: fn(&str) -> bool| {
        let named = figures.iter().filter(|((of, _), _)| *of == figure);
        let events = named.map(|((_, name), (events, _))| (name.clone(), *events)).collect();
        listed(&events, most, |name: &String| is_standard(name))
    };
    let (types, clicks) = (of("type", MOST.types, is_standard), of("click", MOST.types, is_standard));
    let agents = of("agent", MOST.agents, |_| false);
    let mut shown: BTreeMap<Figure, (u64, BTreeSet<Uuid>)> = BTreeMap::new();
    for ((figure, name), (events, sessions)) in figures {
        let is_other = match figure {
            "type" => !types.contains(&name),
            "click" => !clicks.contains(&name),
            "agent" => !agents.contains(&name),
            _ => false,
        };
        let name = if is_other { String::new() } else { name };
        let figure = shown.entry((figure.to_owned(), is_other, name)).or_default();
        figure.0 += events;
        figure.1.extend(sessions);
    }
    shown.into_iter().map(|(figure, (events, sessions))| (figure, (events, sessions.len() as u64))).collect()
}

/// Bucket, whether the cell is the sum of unlisted values, and name; then events, sessions and clicks.
pub(super) type Cells = BTreeMap<(i64, bool, String), (u64, u64, u64)>;

/// Returns the cells of an organization's own series, and the first and last bucket with a report.
pub(super) fn own_series(
    org: Uuid,
    copies: &[Copy],
    period: &Period,
    bucket_ms: i64,
    figures: [&str; 2],
) -> (Cells, Option<(i64, i64)>) {
    let mut cells: BTreeMap<(i64, String), (u64, BTreeSet<Uuid>, u64)> = BTreeMap::new();
    let mut buckets = BTreeSet::new();
    for (copy, is_others) in own_list(org, copies, period) {
        let (session, bucket) = (own_row(copy, is_others).session, copy.at_ms / bucket_ms);
        buckets.insert(bucket);
        for (_, name) in figures_of(copy, is_others).into_iter().filter(|(figure, _)| figures.contains(figure)) {
            let (events, sessions, clicks) = cells.entry((bucket, name)).or_default();
            if is_others {
                *clicks += 1;
            } else {
                *events += 1;
                sessions.extend(Some(session).filter(|session| !session.is_nil()));
            }
        }
    }
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    cells.iter().for_each(|((_, name), (events, _, clicks))| *by_name.entry(name.clone()).or_default() += events + clicks);
    let listed = listed(&by_name, MOST.in_series, |name| figures[0] == "type" && is_standard(name));
    type Counts = (u64, BTreeSet<Uuid>, u64);
    let mut shown: BTreeMap<(i64, bool, String), Counts> = BTreeMap::new();
    for ((bucket, name), (events, sessions, clicks)) in cells {
        let key = if listed.contains(&name) { (bucket, false, name) } else { (bucket, true, String::new()) };
        let cell = shown.entry(key).or_default();
        (cell.0, cell.2) = (cell.0 + events, cell.2 + clicks);
        cell.1.extend(sessions);
    }
    let cells = shown.into_iter().map(|(cell, (events, sessions, clicks))| (cell, (events, sessions.len() as u64, clicks)));
    (cells.collect(), buckets.first().copied().zip(buckets.last().copied()))
}
