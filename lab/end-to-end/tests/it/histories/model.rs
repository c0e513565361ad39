//! An independent, simple implementation of the rules about host and event ownership, delegations, and merging reports. It uses none of the
//! service's `Site`, `Visibility` or SQL.

use super::test_app::{NEW_YEAR_MS, OWNERS, Observation, STEP_US};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const HOUR_US: i64 = 3_600_000_000;

/// An event and the reports about it by different observers, in order of acceptance.
#[derive(Clone, Debug)]
pub(super) struct Retrieval<'a> {
    pub(super) key: u128,
    pub(super) reports: Vec<&'a Observation>,
}

impl<'a> Retrieval<'a> {
    /// Returns the time of the first accepted timely report, or of the first accepted report.
    pub(super) fn at(&self) -> i64 {
        let is_timely = |row: &&&Observation| (-HOUR_US..=24 * HOUR_US).contains(&(row.accepted_us - row.at * 1_000));
        self.reports.iter().find(is_timely).unwrap_or(&self.reports[0]).at
    }

    /// Returns the report that represents the event: the agent's, then edge, origin, index, no role; then the first accepted one.
    pub(super) fn representative(&self) -> &'a Observation {
        self.reports.iter().min_by_key(|row| rank(row)).unwrap()
    }

    /// Returns a fetch's outcome: from the status that an owner reports, otherwise from the first status in the order of [`rank`]. A report
    /// by the owner without a status is a fetch.
    pub(super) fn outcome(&self) -> &'static str {
        let is_owners = self.reports.iter().any(|row| row.is_owners);
        let telling = self.reports.iter().filter(|row| row.status != 0 && row.is_owners == is_owners);
        let told_by = telling.min_by_key(|row| rank(row));
        match told_by.map_or(0, |row| row.status) {
            _ if self.representative().event_type != "content_retrieved" => "",
            0 | 200 => "fetch",
            304 => "revalidation",
            _ => "failed",
        }
    }
}

/// Order of precedence: agent, edge, origin, index, no role.
fn rank(row: &Observation) -> i8 {
    if row.source_role == 0 { 5 } else { row.source_role }
}

/// A period in which an owner has verified a host.
#[derive(Clone, Debug)]
struct Ownership {
    owner: usize,
    host: String,
    from_us: i64,
    until_us: Option<i64>,
    /// Start of the events that this owner sees.
    seen_from_us: i64,
}

/// Half-open window for a read, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
}

impl Window {
    fn covers(&self, at: i64) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

#[derive(Debug, Default)]
pub(super) struct Model {
    tenures: Vec<Ownership>,
    pub(super) granted: BTreeSet<(usize, usize)>,
    pub(super) shares: bool,
    pub(super) is_visible: [bool; OWNERS],
    pub(super) rows: Vec<Observation>,
}

pub(super) fn is_within(host: &str, above: &str) -> bool {
    host == above || host.ends_with(&format!(".{above}"))
}

pub(super) fn host_of(row: &Observation) -> String {
    row.site.rsplit('.').collect::<Vec<_>>().join(".")
}

impl Model {
    /// Describes who owned what during which steps, for failure messages.
    pub(super) fn story(&self) -> String {
        let step = |us: i64| (us - NEW_YEAR_MS * 1_000) / STEP_US;
        let told = self.tenures.iter().map(|tenure| {
            let until = tenure.until_us.map(step).map_or_else(String::new, |until| until.to_string());
            format!("{} by {} {}..{until}", tenure.host, tenure.owner, step(tenure.from_us))
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// Verifies a host. Returns whether the owner has verified this host afterwards.
    pub(super) fn verify(&mut self, owner: usize, host: &str, now_us: i64) -> bool {
        let held = self.tenures.iter().find(|tenure| tenure.host == host && tenure.until_us.is_none());
        if let Some(held) = held {
            return held.owner == owner;
        }
        let seen_from_us = self.seen_by_newcomer(owner, host, now_us);
        self.tenures.push(Ownership { owner, host: host.to_owned(), from_us: now_us, until_us: None, seen_from_us });
        true
    }

    /// Releases a host. Returns whether the owner had verified it.
    pub(super) fn release(&mut self, owner: usize, host: &str, now_us: i64) -> bool {
        let mut own = self.tenures.iter_mut().filter(|tenure| tenure.owner == owner && tenure.host == host);
        let Some(tenure) = own.find(|tenure| tenure.until_us.is_none()) else { return false };
        tenure.until_us = Some(now_us);
        true
    }

    /// Returns from when a new owner sees the host's events:
    /// - an owner who already sees them through a parent host: unchanged
    /// - the host's first owner: from the beginning
    /// - an owner who follows others, on the host or a parent: from now
    /// - an owner who returns before anyone else has verified it: as before
    fn seen_by_newcomer(&self, owner: usize, host: &str, now_us: i64) -> i64 {
        if let Some((holder, seen_from_us)) = self.seen_from(host)
            && holder == owner
        {
            return seen_from_us;
        }
        let others = self.tenures.iter().filter(|tenure| tenure.owner != owner && is_within(host, &tenure.host));
        let Some(others_until) = others.map(|tenure| tenure.until_us.unwrap_or(now_us)).max() else { return i64::MIN };
        let own = self.tenures.iter().filter(|tenure| tenure.owner == owner && tenure.host == host);
        let before = own.max_by_key(|tenure| tenure.until_us).filter(|tenure| tenure.until_us >= Some(others_until));
        before.map_or(now_us, |tenure| tenure.seen_from_us)
    }

    /// Returns the ownership that determines who owns the host now: that of the longest verified parent.
    fn current_ownership(&self, host: &str) -> Option<&Ownership> {
        let above = self.tenures.iter().filter(|tenure| is_within(host, &tenure.host) && tenure.until_us.is_none());
        above.max_by_key(|tenure| tenure.host.len())
    }

    pub(super) fn owner_of(&self, host: &str) -> Option<usize> {
        self.current_ownership(host).map(|tenure| tenure.owner)
    }

    /// Returns the host's current owner, and the time from which that owner sees its events. If a subdomain had another owner, its events
    /// are visible from that owner's release.
    fn seen_from(&self, host: &str) -> Option<(usize, i64)> {
        let holder = self.current_ownership(host)?;
        let beneath = |tenure: &&Ownership| is_within(host, &tenure.host) && tenure.host.len() > holder.host.len();
        let left = self.tenures.iter().filter(beneath).filter(|tenure| tenure.owner != holder.owner);
        let left = left.filter_map(|tenure| tenure.until_us).max();
        Some((holder.owner, left.map_or(holder.seen_from_us, |left| left.max(holder.seen_from_us))))
    }

    /// Returns whether the owner sees an event on this host at this time.
    pub(super) fn is_seen(&self, host: &str, at: i64, owner: usize) -> bool {
        self.seen_from(host).is_some_and(|(holder, from_us)| holder == owner && at * 1_000 >= from_us)
    }

    /// Returns whether a manifest may contain the event.
    pub(super) fn is_in_manifest(&self, row: &Observation) -> bool {
        (0..OWNERS).any(|owner| self.is_visible[owner] && self.is_seen(&host_of(row), row.at, owner))
    }

    /// Returns the owner's verified hosts, sorted.
    pub(super) fn hosts_of(&self, owner: usize) -> Vec<&str> {
        let own = self.tenures.iter().filter(|tenure| tenure.owner == owner && tenure.until_us.is_none());
        own.map(|tenure| tenure.host.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the events that an owner sees, or `None` for a 403.
    pub(super) fn seen(&self, owner: usize, domain: Option<&str>, window: Window) -> Option<Vec<Retrieval<'_>>> {
        if domain.is_some_and(|domain| self.owner_of(domain) != Some(owner)) {
            return None;
        }
        let mut seen = self.retrievals();
        seen.retain(|event| {
            let (told_by, at) = (event.representative(), event.at());
            let host = host_of(told_by);
            // Only the reporter sees conversations.
            !told_by.event_type.starts_with("turn_")
                && self.is_seen(&host, at, owner)
                && domain.is_none_or(|domain| is_within(&host, domain))
                && window.covers(at)
        });
        Some(seen)
    }

    /// Returns an organization's own reports and others' reports with its click tokens, each with its identity.
    pub(super) fn reported(&self, org: Uuid, window: Window) -> Vec<(u128, &Observation)> {
        let mut reports = self.merged();
        reports.retain(|(_, row)| (row.org_id == org || row.platform_id == org) && window.covers(row.at));
        reports
    }

    /// Returns the first accepted copy of each report and its identity, in order of acceptance.
    pub(super) fn merged(&self) -> Vec<(u128, &Observation)> {
        let mut rows: Vec<&Observation> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.accepted_us);
        let mut known = BTreeSet::new();
        let identities = rows.into_iter().map(|row| (row.keys().identity.0, row));
        identities.filter(|(identity, _)| known.insert(*identity)).collect()
    }

    fn retrievals(&self) -> Vec<Retrieval<'_>> {
        let mut events: BTreeMap<u128, Vec<&Observation>> = BTreeMap::new();
        for (_, row) in self.merged() {
            events.entry(row.keys().event().0).or_default().push(row);
        }
        events.into_iter().map(|(key, reports)| Retrieval { key, reports }).collect()
    }
}
