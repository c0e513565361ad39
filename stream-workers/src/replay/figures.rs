//! The figures of the store before and after a replay, and what they may not do.
//!
//! Must count what was accepted before the replay began and nothing else: live traffic goes on meanwhile.

use chrono::{DateTime, Utc};
use schemas::ids::OrgId;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// What is counted, by its name, and a value that stands for all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    counts: BTreeMap<String, u64>,
    /// Equal when the same reports of the same observations are stored.
    fingerprint: u64,
}

const EVENTS: &str = "events";
const OBSERVATIONS: &str = "observations";

impl Figures {
    /// The same of all shards: they have no event in common.
    pub(super) async fn count_all(shards: &[clickhouse::Client], until: DateTime<Utc>, orgs: &[OrgId]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for shard in shards {
            let counted = if shards.len() == 1 { COUNTED_ON_ONE_SERVER } else { COUNTED_ON_A_SHARD };
            let Self { counts, fingerprint } = Self::count(shard, counted, until, orgs).await?;
            all.fingerprint ^= fingerprint;
            counts.into_iter().for_each(|(name, count)| *all.counts.entry(name).or_default() += count);
        }
        Ok(all)
    }

    /// Counts what was accepted before `until`, of some organisations or of all.
    async fn count(client: &clickhouse::Client, counted: &str, until: DateTime<Utc>, orgs: &[OrgId]) -> anyhow::Result<Self> {
        let of_orgs = if orgs.is_empty() { "" } else { " AND org_id IN ?" };
        let scope = counted.replace("{accepted}", &format!("received_at < fromUnixTimestamp64Micro(?){of_orgs}"));
        let named: Vec<String> = orgs.iter().map(ToString::to_string).collect();
        let ask = |columns: &str, rest: &str| {
            let query = client.query(&format!("SELECT {columns} {scope} {rest}")).bind(until.timestamp_micros());
            if orgs.is_empty() { query } else { query.bind(&named) }
        };
        let all = "uniqExact(site, event_key), count(), groupBitXor(said)";
        let (events, observations, fingerprint): (u64, u64, u64) = ask(all, "").fetch_one().await?;
        let by_type = ask("event_type, uniqExact(site, event_key)", "GROUP BY event_type");
        let by_type: Vec<(String, u64)> = by_type.fetch_all().await?;
        let mut counts = BTreeMap::from([(EVENTS.to_owned(), events), (OBSERVATIONS.to_owned(), observations)]);
        counts.extend(by_type.into_iter().map(|(name, count)| (format!("{EVENTS} {name}"), count)));
        Ok(Self { counts, fingerprint })
    }

    pub(super) fn observations(&self) -> u64 {
        self.of(OBSERVATIONS)
    }

    pub(super) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    fn of(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

/// Of each observer the first of the reports that were accepted so: its type, and a value for all that it says.
const COUNTED_ON_ONE_SERVER: &str =
    "FROM (SELECT site, event_key, event_type, cityHash64(*) AS said FROM observations FINAL WHERE {accepted})";
/// The same where repeats stay apart, each by its position on the log. Read in the order of the key, nothing is held of it.
const COUNTED_ON_A_SHARD: &str = "FROM ( \
    SELECT site, event_key, argMax(event_type, version) AS event_type, \
        argMax(cityHash64(* EXCEPT (log_partition, log_offset)), version) AS said \
    FROM observations WHERE {accepted} GROUP BY site, event_key, org_id, observer SETTINGS optimize_aggregation_in_order = 1)";

/// Two counts of the same.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    pub(super) before: &'a Figures,
    pub(super) after: &'a Figures,
}

impl Difference<'_> {
    pub(super) fn is_none(&self) -> bool {
        self.before == self.after
    }

    /// What a replay cannot bring about: a figure that fell, and reports that changed in number-preserving ways.
    pub(super) fn surprises(&self) -> Vec<String> {
        let fallen = self.before.counts.iter().filter(|(name, before)| self.after.of(name) < **before);
        let mut surprises: Vec<String> =
            fallen.map(|(name, before)| format!("{name} fell from {before} to {}", self.after.of(name))).collect();
        if self.before.counts == self.after.counts && self.before.fingerprint != self.after.fingerprint {
            surprises.push("no figure changed, but other reports are stored than before".to_owned());
        }
        surprises
    }
}

impl Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.after.counts.keys().chain(self.before.counts.keys()).map(String::len).max().unwrap_or(0);
        write!(f, "{:width$} {:>14} {:>14} {:>14}", "", "before", "after", "difference")?;
        let names: std::collections::BTreeSet<&String> = self.before.counts.keys().chain(self.after.counts.keys()).collect();
        for name in names {
            let (before, after) = (self.before.of(name), self.after.of(name));
            let difference = i128::from(after) - i128::from(before);
            write!(f, "\n{name:width$} {before:>14} {after:>14} {difference:>+14}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(events: u64, observations: u64, fingerprint: u64) -> Figures {
        Figures { counts: [(EVENTS.to_owned(), events), (OBSERVATIONS.to_owned(), observations)].into(), fingerprint }
    }

    fn surprises(before: &Figures, after: &Figures) -> Vec<String> {
        Difference { before, after }.surprises()
    }

    #[test]
    fn what_falls_or_changes_unseen_is_a_surprise_and_what_is_restored_is_not() {
        let before = figures(10, 12, 7);
        assert_eq!(surprises(&before, &before.clone()), [""; 0]);
        assert_eq!(surprises(&before, &figures(11, 13, 8)), [""; 0]);
        assert_eq!(surprises(&before, &figures(9, 12, 8)), ["events fell from 10 to 9"]);
        assert_eq!(surprises(&before, &figures(10, 12, 8)), ["no figure changed, but other reports are stored than before"]);
    }

    #[test]
    fn the_difference_is_a_table() {
        let (before, after) = (figures(10, 12, 7), figures(10, 13, 8));
        let table = Difference { before: &before, after: &after }.to_string();
        assert_eq!(table.lines().count(), 3);
        assert!(table.ends_with("observations             12             13             +1"), "{table}");
    }
}
