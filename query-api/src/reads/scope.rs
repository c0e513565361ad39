//! What an owner's statements read: hosts, from when on each of them, the period, and whose agents may be shown.

use super::statement::{Statement, Value};
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use schemas::site::Site;
use std::collections::{BTreeMap, BTreeSet};

/// The text of a statement about an owner's hosts: that of `hosts.sql`, then that of the named file.
macro_rules! owners {
    ($file:literal) => {
        concat!(include_str!("../../sql/hosts.sql"), include_str!(concat!("../../sql/", $file)))
    };
}
pub(super) use owners;

/// The years 1900 and 2299: what the column `at` can hold. No accepted event reaches them.
const FIRST_MS: i64 = -2_208_988_800_000;
const LAST_MS: i64 = 10_413_791_999_999;
/// After every event. Since then an owner has a host of another one.
const NEVER_MS: i64 = i64::MAX;
/// Columns of the table `owner_hosts`, which has one row: ClickHouse runs a subquery that returns a value while it plans, and so
/// plans it, too.
const OWNER_HOSTS: &str = "hosts Array(String), since Array(Int64), domains Array(String)";

/// The parameters and tables that all statements of an owner have.
#[derive(Clone)]
pub(super) struct Scope {
    /// Hosts that decide to whom the events of theirs and of their subdomains belong, and since when to this owner.
    deciders: BTreeMap<Site, i64>,
    /// The domains of the owner's hosts, and everything above them.
    domains: BTreeSet<Site>,
    /// The host whose events, with those of its subdomains, are read; everything if it is `None`.
    asked: Option<Site>,
    window: (i64, i64),
    outcome: Option<Outcome>,
}

impl Scope {
    pub(super) fn new(seen: &Visibility, period: &Period) -> Self {
        let foreign = seen.foreign().iter().map(|site| (site.clone(), NEVER_MS));
        let own = seen.own().iter().map(|own| (own.site.clone(), own.visible_from_ms.unwrap_or(FIRST_MS)));
        let end = |ms: Option<i64>, otherwise: i64| ms.unwrap_or(otherwise).clamp(FIRST_MS, LAST_MS);
        Self {
            deciders: foreign.chain(own).collect(),
            domains: seen.own().iter().flat_map(|own| own.site.candidates()).collect(),
            asked: seen.asked().cloned(),
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
        let own = || self.deciders.iter().filter(|(_, since_ms)| **since_ms != NEVER_MS);
        let is_dated = own().any(|(_, since_ms)| *since_ms != FIRST_MS);
        let first = own().next().map_or("", |(host, _)| host.as_str()).to_owned();
        // The byte after the dot, so that everything beneath is before it.
        let end = own().map(|(host, _)| format!("{}/", host.as_str())).max().unwrap_or_default();
        statement
            .with_table("owner_hosts", OWNER_HOSTS, [lists(&self.deciders, &self.domains)])
            .with("first", first)
            .with("end", end)
            .with("asked", self.asked.as_ref().map_or("", Site::as_str))
            .with("is_dated", is_dated)
            .with("never_ms", NEVER_MS)
            .with("since_ms", self.window.0)
            .with("until_ms", self.window.1)
            .with("outcome", self.outcome.map_or("", Outcome::as_str))
    }
}

/// The row of `owner_hosts`.
fn lists(deciders: &BTreeMap<Site, i64>, domains: &BTreeSet<Site>) -> [Value; 3] {
    let names = |sites: &mut dyn Iterator<Item = &Site>| sites.map(|site| site.as_str().to_owned()).collect::<Vec<_>>();
    let mut hosts = names(&mut deciders.keys());
    let mut since: Vec<i64> = deciders.values().copied().collect();
    // ClickHouse's `transform` requires lists that are not empty. No host is called so.
    hosts.push("-".to_owned());
    since.push(NEVER_MS);
    [hosts.into(), since.into(), names(&mut domains.iter()).into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use schemas::ids::OrgId;
    use schemas::site::registrable_domain;
    use service_kit::directory::OwnedSite;
    use service_kit::stores;
    use service_kit::testing::TestStores;

    fn site(domain: &str) -> Site {
        Site::from_domain(domain).unwrap()
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

    /// What `hosts.sql` finds.
    #[derive(Debug, PartialEq, Eq, clickhouse::Row, serde::Deserialize)]
    struct Hosts {
        owned: Vec<(String, i64)>,
        asked: Vec<String>,
    }

    async fn hosts(stores: &TestStores, seen: &Visibility) -> Hosts {
        const HOSTS: &str = concat!(
            include_str!("../../sql/hosts.sql"),
            "SELECT arraySort(arrayZip(hosts.sites, hosts.since)) AS owned, arraySort(hosts.asked) AS asked"
        );
        let client = stores::clickhouse(&stores.clickhouse).unwrap().with_setting("readonly", "1");
        Scope::new(seen, &Period::default()).bind(Statement::new(HOSTS)).query(&client).fetch_one().await.unwrap()
    }

    #[tokio::test]
    async fn the_longest_verified_host_decides() {
        let stores = TestStores::fresh().await;
        let stored = [
            "a.test",
            "x.a.test",
            "b.a.test",
            "x.b.a.test",
            "c.b.a.test",
            "x.c.b.a.test",
            "xa.test",
            "a-x.test",
            "mythic-beasts.com",
            "shop.mythic-beasts.com",
            "x.vs.mythic-beasts.com",
        ];
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        for site in stored.map(site) {
            // Twice, because rows of one host can be there until they are merged.
            for _ in 0..2 {
                let insert = client.query("INSERT INTO sites VALUES (?, ?)");
                insert.bind(registrable_domain(site.as_str())).bind(site.as_str()).execute().await.unwrap();
            }
        }
        let owner = OrgId(uuid::Uuid::nil());
        let all =
            [owned("a.test", &["b.a.test"], None), owned("c.b.a.test", &[], Some(7)), owned("mythic-beasts.com", &[], None)];
        let found = hosts(&stores, &Visibility::of_everything(owner, &all)).await;
        let expected = [
            ("-", NEVER_MS),
            ("com.mythic-beasts", FIRST_MS),
            ("com.mythic-beasts.shop", FIRST_MS),
            ("com.mythic-beasts.vs.x", FIRST_MS),
            ("test.a", FIRST_MS),
            ("test.a.b.c", 7),
            ("test.a.b.c.x", 7),
            ("test.a.x", FIRST_MS),
        ];
        assert_eq!(found.owned, expected.map(|(host, since)| (host.to_owned(), since)));
        assert_eq!(found.asked, expected[1..].iter().map(|(host, _)| (*host).to_owned()).collect::<Vec<_>>());
        for (domain, asked) in [
            ("a.test", ["test.a", "test.a.b.c", "test.a.b.c.x", "test.a.x"].as_slice()),
            ("c.b.a.test", &["test.a.b.c", "test.a.b.c.x"]),
            ("y.x.a.test", &[]),
            ("vs.mythic-beasts.com", &["com.mythic-beasts.vs.x"]),
        ] {
            let narrowed = hosts(&stores, &Visibility::of_domain(owner, &all, domain).unwrap()).await;
            assert_eq!(
                (narrowed.owned, narrowed.asked),
                (found.owned.clone(), asked.iter().map(|host| (*host).to_owned()).collect())
            );
        }
        let nothing = hosts(&stores, &Visibility::of_everything(owner, &[])).await;
        assert_eq!((nothing.owned, nothing.asked), (vec![("-".to_owned(), NEVER_MS)], vec![]));
    }
}
