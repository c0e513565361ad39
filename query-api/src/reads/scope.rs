//! What an owner's statements read: hosts, from when on each of them, the period, and whose agents may be shown.

use super::Reads;
use super::statement::{Statement, Value};
use crate::access::visibility::{OwnHost, Visibility};
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use schemas::site::Site;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::{BTreeSet, HashMap};

const SITES: &str = include_str!("../../sql/sites.sql");

/// The years 1900 and 2299: what the column `at` can hold. No accepted event reaches them.
const FIRST_MS: i64 = -2_208_988_800_000;
const LAST_MS: i64 = 10_413_791_999_999;
/// After every event.
const NEVER_MS: i64 = i64::MAX;
/// Not a host: the only one of an empty list. `link_site` contains it if the agent is hidden from all readers.
const NO_HOST: &str = "-";
/// Columns of the table with one row: lists of hosts and since when each counts. Statements look both lists up in one subquery,
/// because ClickHouse runs a subquery that returns a value while it plans, and so plans it, too.
const TIMES: &str = "told Array(String), told_since Array(Int64), dated Array(String), dated_since Array(Int64)";

/// The parameters and tables that all statements of an owner have.
#[derive(Clone)]
pub(super) struct Scope {
    /// Hosts whose events are visible, and from when on.
    visible: Vec<(String, i64)>,
    /// Hosts for which `link_site` allows to show platform, agent and session, and from when on.
    told: Vec<(String, i64)>,
    window: (i64, i64),
    outcome: Option<Outcome>,
}

impl Scope {
    /// Decides which of the `stored` hosts are visible.
    pub(super) fn new(seen: &Visibility, period: &Period, stored: &BTreeSet<Site>) -> Self {
        let deciders = deciders(seen.own(), seen.foreign());
        let is_looked_at = |site: &&Site| seen.beneath().iter().any(|host| site.is_within(host));
        let (own, foreign) = seen.readers();
        let end = |ms: Option<i64>, otherwise: i64| ms.unwrap_or(otherwise).clamp(FIRST_MS, LAST_MS);
        Self {
            told: visible(&self::deciders(own, foreign), stored.iter()),
            visible: visible(&deciders, stored.iter().filter(is_looked_at)),
            window: (end(period.from_ms, FIRST_MS), end(period.before_ms, LAST_MS)),
            outcome: None,
        }
    }

    /// Narrows it to fetches with this outcome; no other events have one.
    pub(super) fn narrowed(self, outcome: Option<Outcome>) -> Self {
        Self { outcome, ..self }
    }

    /// Sets the parameters and tables of a statement. `is_dated` is whether only later events of some host are visible.
    pub(super) fn bind(self, statement: Statement) -> Statement {
        let hosts: Vec<[Value; 1]> = self.visible.iter().map(|(site, _)| [site.as_str().into()]).collect();
        let dated: Vec<_> = self.visible.into_iter().filter(|(_, since_ms)| *since_ms > FIRST_MS).collect();
        let is_dated = !dated.is_empty();
        let ([told, told_since], [dated, dated_since]) = (lists(self.told), lists(dated));
        statement
            .with_table("visible_hosts", "site String", hosts)
            .with_table("host_times", TIMES, [[told, told_since, dated, dated_since]])
            .with("is_dated", is_dated)
            .with("since_ms", self.window.0)
            .with("until_ms", self.window.1)
            .with("outcome", self.outcome.map_or("", Outcome::as_str))
    }
}

/// Hosts, and since when each of them counts. ClickHouse's `transform` requires lists that are not empty.
fn lists(mut hosts: Vec<(String, i64)>) -> [Value; 2] {
    if hosts.is_empty() {
        hosts.push((NO_HOST.to_owned(), NEVER_MS));
    }
    let (sites, since_ms): (Vec<String>, Vec<i64>) = hosts.into_iter().unzip();
    [sites.into(), since_ms.into()]
}

/// Returns since when a host and its subdomains belong to the owner; `None` if they belong to another owner.
type Deciders<'a> = HashMap<&'a Site, Option<i64>>;

fn deciders<'a>(own: &'a [OwnHost], foreign: &'a [Site]) -> Deciders<'a> {
    let foreign = foreign.iter().map(|site| (site, None));
    foreign.chain(own.iter().map(|own| (&own.site, Some(own.visible_from_ms.unwrap_or(FIRST_MS))))).collect()
}

/// The sites that are the owner's by the longest host above each, and from when on.
fn visible<'a>(deciders: &Deciders<'_>, sites: impl Iterator<Item = &'a Site>) -> Vec<(String, i64)> {
    let from = |site: &Site| site.candidates().iter().find_map(|above| deciders.get(above)).copied().flatten();
    sites.filter_map(|site| Some((site.as_str().to_owned(), from(site)?))).collect()
}

/// Hosts with events, of one domain.
#[derive(clickhouse::Row, Deserialize)]
struct StoredSites {
    sites: Vec<String>,
}

impl Reads {
    /// Looks up which hosts have events and decides which of them are visible. A host that has its first event only afterwards
    /// is in the next response.
    pub(super) async fn scope(&self, seen: &Visibility, period: &Period) -> Result<Scope, ApiError> {
        let stored: Vec<StoredSites> = self.all(sites(seen)).await?;
        let stored = stored.iter().flat_map(|row| &row.sites).map(|site| Site::from_stored(site)).collect();
        Ok(Scope::new(seen, period, &stored))
    }
}

/// Looks up the owner's hosts with their subdomains, and those that the read names. The registrable domain of each is one
/// of these hosts, a host above them, or beneath them.
fn sites(seen: &Visibility) -> Statement {
    let own = seen.readers().0.iter().map(|own| &own.site);
    let hosts: BTreeSet<&Site> = own.chain(seen.beneath()).collect();
    let domains: BTreeSet<Site> = hosts.iter().flat_map(|host| host.candidates()).collect();
    let first = hosts.first().map_or("", |host| host.as_str());
    // The byte after the dot, so that everything beneath is before it.
    let end = hosts.iter().map(|host| format!("{}/", host.as_str())).max().unwrap_or_default();
    Statement::new(SITES)
        .with_table("asked_domains", "domain String", domains.iter().map(|domain| [domain.as_str().into()]))
        .with_table("asked_hosts", "host String", hosts.iter().map(|host| [host.as_str().into()]))
        .with("first", first)
        .with("end", end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use schemas::ids::OrgId;
    use service_kit::directory::OwnedSite;

    fn site(domain: &str) -> Site {
        Site::from_domain(domain).unwrap()
    }

    fn scope(owned: &[OwnedSite], stored: &[&str]) -> Scope {
        let seen = Visibility::of_everything(OrgId(uuid::Uuid::nil()), owned);
        Scope::new(&seen, &Period::default(), &stored.iter().map(|domain| site(domain)).collect())
    }

    fn owned(domain: &str, except: &[&str], from_ms: Option<i64>) -> OwnedSite {
        let visible_from = from_ms.and_then(DateTime::from_timestamp_millis);
        OwnedSite {
            site: site(domain),
            visible_from,
            except: except.iter().map(|host| site(host)).collect(),
            formerly: Vec::new(),
        }
    }

    #[test]
    fn the_longest_verified_host_decides() {
        let hosts = [owned("a.test", &["b.a.test"], None), owned("c.b.a.test", &[], Some(7))];
        let stored = ["a.test", "x.a.test", "b.a.test", "x.b.a.test", "c.b.a.test", "x.c.b.a.test", "xa.test", "a-x.test"];
        let visible = scope(&hosts, &stored).visible;
        let visible: Vec<(&str, i64)> = visible.iter().map(|(site, from)| (site.as_str(), *from)).collect();
        assert_eq!(visible, [("test.a", FIRST_MS), ("test.a.b.c", 7), ("test.a.b.c.x", 7), ("test.a.x", FIRST_MS)]);
    }
}
