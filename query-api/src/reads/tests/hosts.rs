//! Which hosts are found.

use super::NEW_YEAR_MS;
use super::world::World;
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::reads::SummaryRow;
use chrono::DateTime;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::directory::OwnedSite;
use uuid::Uuid;

/// The events in total of the owner of a domain.
async fn total(world: &World, domain: &str, from_ms: Option<i64>) -> u64 {
    let visible_from = from_ms.and_then(DateTime::from_timestamp_millis);
    let owned = OwnedSite { site: Site::from_domain(domain).unwrap(), visible_from, except: Vec::new(), formerly: Vec::new() };
    let seen = Visibility::of_everything(OrgId(Uuid::nil()), &[owned]);
    let rows = world.reads.summary(&seen, &Period::default(), None).await.unwrap();
    rows.iter().map(|row| if let SummaryRow::Total { events, .. } = row { *events } else { 0 }).sum()
}

/// Two events per host, one of them from before new year, for hosts as an expression of `number`.
async fn insert(world: &World, (above, site): (&[&str], &str), count: u64) {
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
async fn owners_of_many_hosts_are_counted() {
    const HOSTS: u64 = 20_000;
    let world = World::new().await;
    insert(&world, (&["com.example"], "concat('com.example.h', leftPad(toString(number), 9, '0'))"), HOSTS).await;
    assert_eq!(total(&world, "example.com", None).await, 2 * HOSTS);
    assert_eq!(total(&world, "example.com", Some(NEW_YEAR_MS)).await, HOSTS);
}

#[tokio::test]
async fn hosts_beneath_a_public_suffix_are_found() {
    let world = World::new().await;
    // Of the suffix x.mythic-beasts.com, each name beneath is a registrable domain.
    for host in
        ["com.mythic-beasts", "com.mythic-beasts.x.a", "com.mythic-beasts.x.a.b", "com.mythic-beasts-x", "com.mythic-beastsx.y"]
    {
        let above = Site::from_stored(host).candidates();
        let above: Vec<&str> = above.iter().map(Site::as_str).collect();
        insert(&world, (&above, &format!("'{host}'")), 1).await;
    }
    for (domain, expected) in [("mythic-beasts.com", 6), ("a.x.mythic-beasts.com", 4), ("b.a.x.mythic-beasts.com", 2)] {
        assert_eq!(total(&world, domain, None).await, expected, "{domain}");
    }
}
