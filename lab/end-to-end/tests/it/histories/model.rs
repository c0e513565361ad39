//! What a history amounts to, by a second and naive reading of the rules: who holds a host and since when its events are
//! theirs, who was granted what, and which reports are of one event.
//!
//! Must not use what it is the model of: no `Site`, no `Visibility`, no SQL.

use super::town::{NEW_YEAR_MS, OWNERS, Observation, STEP_US};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const HOUR_US: i64 = 3_600_000_000;

/// An event by its reports in order of acceptance, each of another observer.
#[derive(Clone, Debug)]
pub(super) struct Retrieval<'a> {
    pub(super) key: u128,
    pub(super) reports: Vec<&'a Observation>,
}

impl<'a> Retrieval<'a> {
    /// The time of the first accepted timely report, else of the first accepted one.
    pub(super) fn at(&self) -> i64 {
        let is_timely = |row: &&&Observation| (-HOUR_US..=24 * HOUR_US).contains(&(row.accepted_us - row.at * 1_000));
        self.reports.iter().find(is_timely).unwrap_or(&self.reports[0]).at
    }

    /// The report that represents it: the agent's, then edge, origin, index, no role; then the first accepted.
    pub(super) fn representative(&self) -> &'a Observation {
        self.reports.iter().min_by_key(|row| rank(row)).unwrap()
    }

    /// Of a fetch: by the status that an owner reports, else by anybody's, in the order of [`rank`].
    pub(super) fn outcome(&self) -> &'static str {
        let told_by = self.reports.iter().filter(|row| row.status != 0).min_by_key(|row| (!row.is_owners, rank(row)));
        match told_by.map_or(0, |row| row.status) {
            _ if self.representative().event_type != "content_retrieved" => "",
            0 | 200 => "fetch",
            304 => "revalidation",
            _ => "failed",
        }
    }
}

/// Agent, edge, origin, index, no role.
fn rank(row: &Observation) -> i8 {
    if row.source_role == 0 { 5 } else { row.source_role }
}

/// An owner's time with a host.
#[derive(Clone, Debug)]
struct Tenure {
    owner: usize,
    host: String,
    from_us: i64,
    until_us: Option<i64>,
    /// First moment whose events this owner sees.
    seen_from_us: i64,
}

/// Which part of time a read covers, in milliseconds, half-open.
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
    tenures: Vec<Tenure>,
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
    /// Who held what from which step to which, for whoever reads a failure.
    pub(super) fn story(&self) -> String {
        let step = |us: i64| (us - NEW_YEAR_MS * 1_000) / STEP_US;
        let told = self.tenures.iter().map(|tenure| {
            let until = tenure.until_us.map(step).map_or_else(String::new, |until| until.to_string());
            format!("{} by {} {}..{until}", tenure.host, tenure.owner, step(tenure.from_us))
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// Whether the owner holds the very host afterwards.
    pub(super) fn verify(&mut self, owner: usize, host: &str, now_us: i64) -> bool {
        let held = self.tenures.iter().find(|tenure| tenure.host == host && tenure.until_us.is_none());
        if let Some(held) = held {
            return held.owner == owner;
        }
        let seen_from_us = self.seen_by_newcomer(owner, host, now_us);
        self.tenures.push(Tenure { owner, host: host.to_owned(), from_us: now_us, until_us: None, seen_from_us });
        true
    }

    /// Whether there was anything to release.
    pub(super) fn release(&mut self, owner: usize, host: &str, now_us: i64) -> bool {
        let mut own = self.tenures.iter_mut().filter(|tenure| tenure.owner == owner && tenure.host == host);
        let Some(tenure) = own.find(|tenure| tenure.until_us.is_none()) else { return false };
        tenure.until_us = Some(now_us);
        true
    }

    /// Who sees the host's events already, by a host above, goes on seeing them. The first owner sees all. Who comes after
    /// others, of the host or of one above, sees what happens from now on; who comes back, and nobody had it meanwhile,
    /// what they saw.
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

    /// Whose the host is now, by which verified host.
    fn holder(&self, host: &str) -> Option<&Tenure> {
        let above = self.tenures.iter().filter(|tenure| is_within(host, &tenure.host) && tenure.until_us.is_none());
        above.max_by_key(|tenure| tenure.host.len())
    }

    pub(super) fn owner_of(&self, host: &str) -> Option<usize> {
        self.holder(host).map(|tenure| tenure.owner)
    }

    /// Since when the events of a host are its present owner's: what others had beneath the owner's host is the owner's
    /// from when they left it.
    fn seen_from(&self, host: &str) -> Option<(usize, i64)> {
        let holder = self.holder(host)?;
        let beneath = |tenure: &&Tenure| is_within(host, &tenure.host) && tenure.host.len() > holder.host.len();
        let left = self.tenures.iter().filter(beneath).filter(|tenure| tenure.owner != holder.owner);
        let left = left.filter_map(|tenure| tenure.until_us).max();
        Some((holder.owner, left.map_or(holder.seen_from_us, |left| left.max(holder.seen_from_us))))
    }

    /// Whether what happened then on this host is this owner's to see.
    pub(super) fn is_seen(&self, host: &str, at: i64, owner: usize) -> bool {
        self.seen_from(host).is_some_and(|(holder, from_us)| holder == owner && at * 1_000 >= from_us)
    }

    /// Whether an event may stand in a manifest.
    pub(super) fn is_shown(&self, row: &Observation) -> bool {
        (0..OWNERS).any(|owner| self.is_visible[owner] && self.is_seen(&host_of(row), row.at, owner))
    }

    /// The owner's verified hosts, sorted.
    pub(super) fn hosts_of(&self, owner: usize) -> Vec<&str> {
        let own = self.tenures.iter().filter(|tenure| tenure.owner == owner && tenure.until_us.is_none());
        own.map(|tenure| tenure.host.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What an owner may see; `None` is a refusal.
    pub(super) fn seen(&self, owner: usize, domain: Option<&str>, window: Window) -> Option<Vec<Retrieval<'_>>> {
        if domain.is_some_and(|domain| self.owner_of(domain) != Some(owner)) {
            return None;
        }
        let mut seen = self.retrievals();
        seen.retain(|event| {
            let (told_by, at) = (event.representative(), event.at());
            let host = host_of(told_by);
            // Conversations are nobody's but their reporter's.
            !told_by.event_type.starts_with("turn_")
                && self.is_seen(&host, at, owner)
                && domain.is_none_or(|domain| is_within(&host, domain))
                && window.covers(at)
        });
        Some(seen)
    }

    /// What an organisation has reported itself, and what others did with its click tokens, with identities.
    pub(super) fn reported(&self, org: Uuid, window: Window) -> Vec<(u128, &Observation)> {
        let mut reports = self.merged();
        reports.retain(|(_, row)| (row.org_id == org || row.platform_id == org) && window.covers(row.at));
        reports
    }

    /// The first accepted copy of each report with its identity, in order of acceptance.
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
