//! Parameters and tables for an owner's statements: its ID, hosts with their start times, period and filter.

use super::statement::{Statement, Value};
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::period::Period;
use schemas::ids::OrgId;
use schemas::site::Site;
use std::collections::BTreeMap;

/// Limits of the `at` column: the years 1900 to 2299. Every accepted event is between them.
pub(super) const FIRST_MS: i64 = -2_208_988_800_000;
pub(super) const LAST_MS: i64 = 10_413_791_999_999;
/// Start time for other owners' hosts, later than every event.
const NEVER_MS: i64 = i64::MAX;
/// Marks hosts without their own start time. Earlier than every start time.
const UNDECIDED_MS: i64 = i64::MIN;

/// Returns the first millisecond of a period, and the first one after it, within the limits of the `at` column.
pub(super) fn bounds(period: &Period) -> (i64, i64) {
    let end = |ms: Option<i64>, otherwise: i64| ms.unwrap_or(otherwise).clamp(FIRST_MS, LAST_MS);
    (end(period.from_ms, FIRST_MS), end(period.before_ms, LAST_MS))
}

/// Parameters and tables of all statements for an owner.
pub(super) struct Scope {
    owner: OrgId,
    /// Start times of the owner's events by verified host. A subdomain has the start time of the longest host above it.
    start_times: BTreeMap<Site, i64>,
    /// The hosts with a start time within the requested host, and the host itself.
    requested_hosts: BTreeMap<Site, i64>,
    window: (i64, i64),
    filter: EventFilter,
}

impl Scope {
    pub(super) fn new(seen: &Visibility, period: &Period) -> Self {
        let foreign = seen.foreign().iter().map(|site| (site.clone(), NEVER_MS));
        let own = seen.own().iter().map(|own| (own.site.clone(), own.visible_from_ms.unwrap_or(FIRST_MS)));
        let deciders: BTreeMap<Site, i64> = foreign.chain(own).collect();
        Self {
            owner: seen.organization_id(),
            requested_hosts: seen.requested().map_or_else(|| deciders.clone(), |site| beneath(site, &deciders)),
            start_times: deciders,
            window: bounds(period),
            filter: EventFilter::default(),
        }
    }

    /// Limits the statements to events that match a filter.
    pub(super) fn filtered(self, filter: &EventFilter) -> Self {
        Self { filter: filter.clone(), ..self }
    }

    /// Returns the first millisecond of the period, and the first one after it.
    pub(super) fn window(&self) -> (i64, i64) {
        self.window
    }

    /// Binds the parameters and tables. `is_dated` is set if a host has a start time; `dated_ms` is the latest one.
    pub(super) fn bind(&self, statement: Statement) -> Statement {
        let host = |(host, _): (&Site, &i64)| [host.as_str().into()];
        let foreign = self.requested_hosts.iter().filter(|(_, since_ms)| **since_ms == NEVER_MS);
        let own_since = self.requested_hosts.values().copied().filter(|since_ms| *since_ms != NEVER_MS);
        let dated_ms = own_since.max().unwrap_or(FIRST_MS);
        statement
            .with_table("owner_hosts", "host String, since Int64", self.start_times.iter().map(since))
            .with_table("asked_hosts", "host String", self.requested_hosts.iter().map(host))
            .with_table("foreign_hosts", "host String", foreign.map(host))
            .with("owner_id", self.owner.0.to_string())
            .with("is_dated", dated_ms != FIRST_MS)
            .with("dated_ms", dated_ms)
            .with("first_ms", FIRST_MS)
            .with("never_ms", NEVER_MS)
            .with("undecided", UNDECIDED_MS)
            .with("since_ms", self.window.0)
            .with("until_ms", self.window.1)
            .filtered(&self.filter)
    }
}

fn since((host, since_ms): (&Site, &i64)) -> [Value; 2] {
    [host.as_str().into(), (*since_ms).into()]
}

/// Returns the hosts with a start time within a host, and the host itself with the start time of the longest such host above it.
fn beneath(site: &Site, deciders: &BTreeMap<Site, i64>) -> BTreeMap<Site, i64> {
    let since_ms = site.candidates().iter().find_map(|above| deciders.get(above)).copied().unwrap_or(NEVER_MS);
    let beneath = deciders.iter().filter(|(host, _)| host.is_within(site)).map(|(host, since_ms)| (host.clone(), *since_ms));
    beneath.chain([(site.clone(), since_ms)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(domain: &str) -> Site {
        Site::from_domain(domain).unwrap()
    }

    #[test]
    fn narrowed_reads_inherit_the_start_time_above() {
        let deciders = [("a.test", 3), ("b.a.test", NEVER_MS), ("c.b.a.test", 7), ("x.test", 5)];
        let deciders = deciders.map(|(domain, since_ms)| (site(domain), since_ms)).into();
        for (domain, expected) in [
            ("a.test", [("a.test", 3), ("b.a.test", NEVER_MS), ("c.b.a.test", 7)].as_slice()),
            ("y.a.test", &[("y.a.test", 3)]),
            ("y.b.a.test", &[("y.b.a.test", NEVER_MS)]),
            ("c.b.a.test", &[("c.b.a.test", 7)]),
            ("z.c.b.a.test", &[("z.c.b.a.test", 7)]),
            ("test2.test", &[("test2.test", NEVER_MS)]),
        ] {
            let expected = expected.iter().map(|(domain, since_ms)| (site(domain), *since_ms)).collect();
            assert_eq!(beneath(&site(domain), &deciders), expected, "{domain}");
        }
    }
}
