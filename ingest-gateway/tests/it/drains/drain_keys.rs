//! Drain keys: each works only for its drain, within the drain's settings.

use super::{BOT, line, send_log};
use crate::harness::Gateway;
use schemas::event::SourceRole;
use schemas::identity::{DrainProvider, OrgType};
use schemas::report_keys::ReportKeys;
use serde_json::json;

#[tokio::test]
async fn drain_keys_work_for_one_provider_until_deletion() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().owner_of("a.test").await.id;
    let (drain, key) = gateway.seed().drain(org, OrgType::ContentOwner, DrainProvider::Cloudflare).await;
    let one = || line("a.test", "/", BOT, "", "ray-1");
    let taken = send_log(&gateway, "cloudflare", &key, one()).await;
    assert_eq!((taken.status, &taken.body["kept"]), (200, &json!(1)), "{}", taken.body);
    for provider in DrainProvider::NAMES.into_iter().filter(|name| *name != "cloudflare") {
        assert_eq!(send_log(&gateway, provider, &key, one()).await.status, 403, "{provider}");
    }
    let source: Vec<(uuid::Uuid, Option<uuid::Uuid>)> =
        sqlx::query_as("SELECT source, drain_id FROM drain_hours").fetch_all(&gateway.stores.pool).await.unwrap();
    assert_eq!(source, [(drain.0, Some(drain.0))], "its coverage is its own");

    sqlx::query("UPDATE drains SET deleted_at = now() WHERE id = $1").bind(drain.0).execute(&gateway.stores.pool).await.unwrap();
    service_kit::testing::eventually("the drain is forgotten", || async {
        (send_log(&gateway, "cloudflare", &key, one()).await.status == 403).then_some(())
    })
    .await;
}

#[tokio::test]
async fn records_contain_their_keys_drain() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("network", OrgType::Platform).await;
    let (drain, key) = gateway.seed().drain(org.id, OrgType::Platform, DrainProvider::Cloudflare).await;
    for key in [&key, &org.key] {
        assert_eq!(send_log(&gateway, "cloudflare", key, line("a.test", "/", BOT, "", "ray-1")).await.body["kept"], 1);
    }
    let mut records = gateway.log.records(2).await;
    records.sort_by_key(|record| record.received_at_us);
    assert_eq!([records[0].drain, records[1].drain], [Some(drain), None]);
    let identity = |place: usize| ReportKeys::new(records[place].org, records[place].drain, &records[place].events[0]).identity;
    assert_eq!(identity(0), identity(1), "an imported copy of a line is the same report");
}

#[tokio::test]
async fn drains_accept_only_their_hosts_and_use_their_role() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("network", OrgType::Platform).await.id;
    let (drain, key) = gateway.seed().drain(org, OrgType::Platform, DrainProvider::Cloudflare).await;
    sqlx::query("UPDATE drains SET hosts = '{a.test}', role = 'origin' WHERE id = $1")
        .bind(drain.0)
        .execute(&gateway.stores.pool)
        .await
        .unwrap();
    let hosts = ["www.a.test", "shop.a.test", "b.test", "nota.test"];
    let lines: Vec<String> = hosts.iter().map(|host| line(host, "/", BOT, "", host)).collect();
    let taken = send_log(&gateway, "cloudflare", &key, lines.join("\n")).await;
    assert_eq!((&taken.body["kept"], &taken.body["dropped"]), (&json!(2), &json!({"other_host": 2})), "{}", taken.body);
    assert_eq!(
        send_log(&gateway, "cloudflare?role=edge", &key, lines[0].clone()).await.status,
        400,
        "the drain sets the observer"
    );
    let events = gateway.log.records(1).await.into_iter().flat_map(|record| record.events);
    let roles: Vec<_> = events.map(|event| event.source_role).collect();
    assert_eq!(roles, [Some(SourceRole::Origin), Some(SourceRole::Origin)]);
}

#[tokio::test]
async fn lines_without_a_host_use_the_drains_host() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("network", OrgType::Platform).await.id;
    let (drain, key) = gateway.seed().drain(org, OrgType::Platform, DrainProvider::Combined).await;
    sqlx::query("UPDATE drains SET hosts = '{a.test}' WHERE id = $1").bind(drain.0).execute(&gateway.stores.pool).await.unwrap();
    let line = format!(r#"192.0.2.1 - - [01/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 10 "-" "{BOT}""#);
    let taken = send_log(&gateway, "combined", &key, line).await;
    assert_eq!((&taken.body["kept"], &taken.body["bad"]), (&json!(1), &json!(0)), "{}", taken.body);
    let event = gateway.log.records(1).await.remove(0).events.remove(0);
    assert_eq!(event.content_url.as_deref(), Some("https://a.test/a"));
}
