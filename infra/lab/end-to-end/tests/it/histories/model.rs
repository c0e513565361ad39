//! What a history amounts to, by a second and naive reading of the rules: who holds a host and since when its events are
//! theirs, who was granted what, and which observations are one retrieval.
//!
//! Must not use what it is the model of: no `Site`, no `Visibility`, no SQL.

use super::town::{NEW_YEAR_MS, OWNERS, Observation, STEP_US};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Observations of one retrieval.
pub(super) type Retrieval<'a> = Vec<&'a Observation>;

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
    /// Owner and partner.
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

    /// Whether an event is this owner's to see.
    pub(super) fn is_seen(&self, row: &Observation, owner: usize) -> bool {
        self.seen_from(&host_of(row)).is_some_and(|(holder, from_us)| holder == owner && row.at * 1_000 >= from_us)
    }

    /// Whether an event may stand in a manifest.
    pub(super) fn is_shown(&self, row: &Observation) -> bool {
        (0..OWNERS).any(|owner| self.is_visible[owner] && self.is_seen(row, owner))
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
        let is_looked_at = |row: &&Observation| {
            let host = host_of(row);
            // Conversations are nobody's but their reporter's.
            !row.event_type.starts_with("turn_")
                && self.owner_of(&host) == Some(owner)
                && domain.is_none_or(|domain| is_within(&host, domain))
        };
        let mut retrievals = grouped(self.merged().into_iter().filter(is_looked_at));
        retrievals.retain(|seen| {
            let told_by = representative(seen);
            self.is_seen(told_by, owner) && window.covers(told_by.at)
        });
        Some(retrievals)
    }

    /// What an organisation has reported itself, and what others did with its click tokens.
    pub(super) fn reported(&self, org: Uuid, window: Window) -> Vec<Retrieval<'_>> {
        let mut retrievals = grouped(self.merged().into_iter().filter(|row| row.org_id == org || row.platform_id == org));
        retrievals.retain(|seen| window.covers(representative(seen).at));
        retrievals
    }

    /// Of the repeats of one observation the first accepted, which has the largest version.
    pub(super) fn merged(&self) -> Vec<&Observation> {
        let mut first: BTreeMap<_, &Observation> = BTreeMap::new();
        for row in &self.rows {
            let kept = first.entry((&row.site, row.event_key, row.org_id, row.observer)).or_insert(row);
            if row.version > kept.version {
                *kept = row;
            }
        }
        first.into_values().collect()
    }
}

fn grouped<'a>(rows: impl Iterator<Item = &'a Observation>) -> Vec<Retrieval<'a>> {
    let mut retrievals: BTreeMap<u128, Retrieval<'_>> = BTreeMap::new();
    rows.for_each(|row| retrievals.entry(row.event_key).or_default().push(row));
    retrievals.into_values().collect()
}

/// Which observation tells of its retrieval: the agent's, then edge, origin, index, no role; then the first accepted.
pub(super) fn representative<'a>(seen: &Retrieval<'a>) -> &'a Observation {
    let rank = |row: &Observation| if row.source_role == 0 { 5 } else { row.source_role };
    seen.iter().min_by_key(|row| (rank(row), u64::MAX - row.version, row.org_id)).unwrap()
}
