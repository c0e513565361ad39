//! What an owner's statements read: hosts, from when on each of them, the period, and whose agents may be shown.

use super::statement::{Statement, Value};
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use schemas::site::Site;
use std::collections::BTreeMap;

/// The years 1900 and 2299: what the column `at` can hold. No accepted event reaches them.
const FIRST_MS: i64 = -2_208_988_800_000;
const LAST_MS: i64 = 10_413_791_999_999;
/// After every event: since when an owner has what is another's.
const NEVER_MS: i64 = i64::MAX;
/// Columns of the table `owner_hosts`, which has one row: ClickHouse runs a subquery that returns a value while it plans, and so
/// plans it, too.
const OWNER_HOSTS: &str = "hosts Array(String), since Array(Int64)";
/// A call in the text of statements, and what stands for it.
const OWNED_SINCE: (&str, &str) = ("owned_since(site)", include_str!("../../sql/owned_since.sql"));

/// The parameters and tables that all statements of an owner have.
#[derive(Clone)]
pub(super) struct Scope {
    /// The longest of these hosts above a host decides since when its events are the owner's.
    deciders: BTreeMap<Site, i64>,
    /// Hosts whose events, with those of their subdomains, are read.
    asked: Vec<Site>,
    window: (i64, i64),
    outcome: Option<Outcome>,
}

impl Scope {
    pub(super) fn new(seen: &Visibility, period: &Period) -> Self {
        let foreign = seen.foreign().iter().map(|site| (site.clone(), NEVER_MS));
        let own = seen.own().iter().map(|own| (own.site.clone(), own.visible_from_ms.unwrap_or(FIRST_MS)));
        let everything = || seen.own().iter().map(|own| own.site.clone()).collect();
        let end = |ms: Option<i64>, otherwise: i64| ms.unwrap_or(otherwise).clamp(FIRST_MS, LAST_MS);
        Self {
            deciders: foreign.chain(own).collect(),
            asked: seen.asked().map_or_else(everything, |site| vec![site.clone()]),
            window: (end(period.from_ms, FIRST_MS), end(period.before_ms, LAST_MS)),
            outcome: None,
        }
    }

    /// Narrows it to fetches with this outcome; no other events have one.
    pub(super) fn narrowed(self, outcome: Option<Outcome>) -> Self {
        Self { outcome, ..self }
    }

    /// Sets the parameters and tables of a statement. `is_shared` is whether events of some host are not all the owner's.
    pub(super) fn bind(&self, statement: Statement) -> Statement {
        let is_shared = self.deciders.values().any(|since_ms| *since_ms != FIRST_MS);
        // Otherwise ClickHouse doesn't resolve the call.
        let statement = if is_shared { statement.expand(OWNED_SINCE) } else { statement };
        statement
            .with_table("owner_hosts", OWNER_HOSTS, [self.owner_hosts()])
            .with_table("asked_hosts", "host String", self.asked.iter().map(|host| [host.as_str().into()]))
            .with("is_shared", is_shared)
            .with("never_ms", NEVER_MS)
            .with("since_ms", self.window.0)
            .with("until_ms", self.window.1)
            .with("outcome", self.outcome.map_or("", Outcome::as_str))
    }

    /// The row of `owner_hosts`: hosts with a dot at their end, those below others first, and since when they are the owner's. The
    /// last one is above all hosts.
    fn owner_hosts(&self) -> [Value; 2] {
        // In this order a host follows those above it.
        let hosts = self.deciders.iter().rev().map(|(host, since_ms)| (format!("{}.", host.as_str()), *since_ms));
        let (hosts, since): (Vec<String>, Vec<i64>) = hosts.chain([(String::new(), NEVER_MS)]).unzip();
        [hosts.into(), since.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use schemas::ids::OrgId;
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

    /// The hosts that the read is about, and since when they are the owner's; those that are never are missing.
    async fn hosts(stores: &TestStores, seen: &Visibility) -> Vec<(String, i64)> {
        const HOSTS: &str = "SELECT DISTINCT site, if({is_shared:UInt8}, owned_since(site), toInt64(-2208988800000)) AS since FROM sites \
                             WHERE above IN (SELECT host FROM asked_hosts) AND if({is_shared:UInt8}, owned_since(site) != {never_ms:Int64}, 1) ORDER BY site";
        let client = stores::clickhouse(&stores.clickhouse).unwrap().with_setting("readonly", "1");
        Scope::new(seen, &Period::default()).bind(Statement::new(HOSTS)).query(&client).fetch_all().await.unwrap()
    }

    /// Since when clicks by a link to this host show whose agent it was.
    async fn told_since(stores: &TestStores, seen: &Visibility, link: &str) -> i64 {
        const SINCE: &str = "WITH (SELECT (hosts, since) FROM owner_hosts) AS deciders, {link:String} AS link_site \
                             SELECT deciders.2[arrayFirstIndex(host -> startsWith(link_site || '.', host), deciders.1)]";
        let client = stores::clickhouse(&stores.clickhouse).unwrap().with_setting("readonly", "1");
        let statement = Scope::new(seen, &Period::default()).bind(Statement::new(SINCE)).with("link", site(link).as_str());
        statement.query(&client).fetch_one().await.unwrap()
    }

    const STORED: [&str; 12] = [
        "a.test",
        "x.a.test",
        "b.a.test",
        "x.b.a.test",
        "c.b.a.test",
        "x.c.b.a.test",
        "xa.test",
        "a-x.test",
        "a.test2",
        "mythic-beasts.com",
        "shop.mythic-beasts.com",
        "x.vs.mythic-beasts.com",
    ];

    #[tokio::test]
    async fn the_longest_verified_host_decides() {
        let stores = TestStores::fresh().await;
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        for site in STORED.map(site) {
            for above in site.candidates() {
                // Twice, because rows of one host can be there until they are merged.
                for _ in 0..2 {
                    let insert = client.query("INSERT INTO sites (above, site) VALUES (?, ?)");
                    insert.bind(above.as_str()).bind(site.as_str()).execute().await.unwrap();
                }
            }
        }
        let owner = OrgId(uuid::Uuid::nil());
        let shared =
            [owned("a.test", &["b.a.test"], None), owned("c.b.a.test", &[], Some(7)), owned("mythic-beasts.com", &[], None)];
        let expected: BTreeMap<&str, i64> = [
            ("com.mythic-beasts", FIRST_MS),
            ("com.mythic-beasts.shop", FIRST_MS),
            ("com.mythic-beasts.vs.x", FIRST_MS),
            ("test.a", FIRST_MS),
            ("test.a.b.c", 7),
            ("test.a.b.c.x", 7),
            ("test.a.x", FIRST_MS),
        ]
        .into();
        let all = Visibility::of_everything(owner, &shared);
        let named = |hosts: &mut dyn Iterator<Item = (&&str, &i64)>| -> Vec<(String, i64)> {
            hosts.map(|(host, since)| ((*host).to_owned(), *since)).collect()
        };
        assert_eq!(hosts(&stores, &all).await, named(&mut expected.iter()));
        for domain in ["a.test", "c.b.a.test", "y.x.a.test", "vs.mythic-beasts.com"] {
            let narrowed = Visibility::of_domain(owner, &shared, domain).unwrap();
            let beneath = |host: &str| Site::from_stored(host).is_within(&site(domain));
            let expected = named(&mut expected.iter().filter(|(host, _)| beneath(host)));
            assert_eq!(hosts(&stores, &narrowed).await, expected, "{domain}");
        }
        for host in STORED {
            let expected = expected.get(site(host).as_str()).copied().unwrap_or(NEVER_MS);
            assert_eq!(told_since(&stores, &all, host).await, expected, "{host}");
        }
        let alone = Visibility::of_everything(owner, &[owned("a.test", &[], None)]);
        let expected = ["test.a", "test.a.b", "test.a.b.c", "test.a.b.c.x", "test.a.b.x", "test.a.x"];
        assert_eq!(hosts(&stores, &alone).await, expected.map(|host| (host.to_owned(), FIRST_MS)));
        assert_eq!(hosts(&stores, &Visibility::of_everything(owner, &[])).await, []);
    }
}
