//! Hosts that a read includes.

use super::NEW_YEAR_MS;
use super::fixture::ReadFixture;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::period::Period;
use chrono::DateTime;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::identity_tables::OwnedSite;
use uuid::Uuid;

/// Returns the total that an owner sees, for all domains or for one.
async fn total_of(world: &ReadFixture, owned: &[OwnedSite], domain: Option<&str>) -> u64 {
    let owner = OrgId(Uuid::nil());
    let all = || Visibility::for_all_domains(owner, owned);
    let seen = domain.map_or_else(all, |domain| Visibility::for_domain(owner, owned, domain).unwrap());
    world.reads.summary(&seen, &Period::default(), &EventFilter::default()).await.unwrap().events
}

fn owned(domain: &str, except: &[&str], from_ms: Option<i64>) -> OwnedSite {
    let site = |domain: &str| Site::from_domain(domain).unwrap();
    let visible_from = from_ms.and_then(DateTime::from_timestamp_millis);
    let except = except.iter().map(|host| site(host)).collect();
    OwnedSite { site: site(domain), visible_from, excluded: except, formerly_owned: Vec::new() }
}

async fn total(world: &ReadFixture, domain: &str, from_ms: Option<i64>) -> u64 {
    total_of(world, &[owned(domain, &[], from_ms)], None).await
}

/// Inserts two events on a host, and adds the host to `sites` as the writer does.
async fn insert_host(world: &ReadFixture, host: &str) {
    let above = Site::from_stored(host).candidates();
    let above: Vec<&str> = above.iter().map(Site::as_str).collect();
    insert(world, (&above, &format!("'{host}'")), 1).await;
}

/// Inserts two events per host, one of them before the new year. `site` is an expression of `number`.
async fn insert(world: &ReadFixture, (above, site): (&[&str], &str), count: u64) {
    for above in above {
        world.store.run(&format!("INSERT INTO sites SELECT '{above}', {site} FROM numbers({count})")).await;
    }
    let events = format!(
        "INSERT INTO events (site, at, key, type, roles, role, representative, `reports.role`) \
         SELECT {site}, fromUnixTimestamp64Milli(toInt64({NEW_YEAR_MS} - 1 + n), 'UTC'), 2 * number + n, 'content_retrieved', 4, 2, 1, [2] \
         FROM numbers({count}) ARRAY JOIN [0, 1] AS n"
    );
    world.store.run(&events).await;
}

#[tokio::test]
async fn owners_can_have_many_hosts() {
    const HOSTS: u64 = 20_000;
    let world = ReadFixture::new().await;
    insert(&world, (&["com.example"], "concat('com.example.h', leftPad(toString(number), 9, '0'))"), HOSTS).await;
    assert_eq!(total(&world, "example.com", None).await, 2 * HOSTS);
    assert_eq!(total(&world, "example.com", Some(NEW_YEAR_MS)).await, HOSTS);
}

#[tokio::test]
async fn longest_verified_host_wins() {
    let world = ReadFixture::new().await;
    for host in [
        "test.a",
        "test.a.x",
        "test.a.b",
        "test.a.b.x",
        "test.a.b.c",
        "test.a.b.c.x",
        "test.xa",
        "test.a-x",
        "test2.a",
        "com.mythic-beasts",
        "com.mythic-beasts.shop",
        "com.mythic-beasts.vs.x",
    ] {
        // Insert it twice, because duplicate rows of a host exist until they are merged.
        insert_host(&world, host).await;
        insert_host(&world, host).await;
    }
    let hosts = [
        owned("a.test", &["b.a.test"], None),
        owned("c.b.a.test", &[], Some(NEW_YEAR_MS)),
        owned("mythic-beasts.com", &[], None),
    ];
    // Two events per host; below c.b.a.test only the later one.
    for (domain, expected) in [
        (None, 4 + 2 + 6),
        (Some("a.test"), 4 + 2),
        (Some("x.a.test"), 2),
        (Some("y.x.a.test"), 0),
        (Some("c.b.a.test"), 2),
        (Some("x.c.b.a.test"), 1),
        (Some("mythic-beasts.com"), 6),
        (Some("vs.mythic-beasts.com"), 2),
    ] {
        assert_eq!(total_of(&world, &hosts, domain).await, expected, "{domain:?}");
    }
    assert_eq!(total_of(&world, &hosts[..1], None).await, 4, "other owners' hosts are not read");
    assert_eq!(total_of(&world, &[owned("a.test", &[], None)], None).await, 12);
    assert_eq!(total_of(&world, &[], None).await, 0);
}
