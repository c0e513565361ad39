//! One statement sees the index of one moment, whatever is inserted and compacted while it runs.

use super::{begun, retrievals};
use crate::at_once::ReadSettings;
use crate::period::Period;
use crate::sql::Telemetry;
use crate::sql::within::Within;
use crate::visibility::Visibility;
use axum::Router;
use axum::routing::get;
use schemas::ids::OrgId;
use schemas::site::Site;
use service_kit::directory::OwnedSite;
use service_kit::retrieval_index::Compactor;
use service_kit::stores;
use service_kit::testing::{TestServer, TestStores};
use std::sync::Arc;
use tokio::sync::Notify;
use uuid::Uuid;

/// How many retrievals the first and the last step of one statement count, between which four reports of three retrievals are
/// inserted, then compacted, and their parts dropped. Two retrievals of before have other reports then, too.
async fn counted_before_and_after(settings: &[(&str, &str)]) -> (u64, u64) {
    let stores = TestStores::fresh().await;
    let client = stores::clickhouse(&stores.clickhouse).unwrap();
    let compactor = Compactor::connect(&stores.clickhouse).unwrap();
    let insert = async |rows: &str| {
        let rows = format!("INSERT INTO observations (site, event_key, observer, version) {rows}");
        client.query(&rows).execute().await.unwrap();
    };
    insert("SELECT 'com.example', number, 1, 9 FROM numbers(5)").await;
    compactor.compact_all().await.unwrap();
    insert("SELECT 'com.example', number, 2, 9 FROM numbers(2)").await;

    let (reached, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let held = {
        let (reached, gate) = (reached.clone(), gate.clone());
        move || async move {
            reached.notify_one();
            gate.notified().await;
            gate.notify_one();
            "1\n"
        }
    };
    let server = TestServer::start(Router::new().route("/gate", get(held))).await;
    let site = OwnedSite {
        site: Site::from_domain("example.com").unwrap(),
        visible_from: None,
        except: Vec::new(),
        formerly: Vec::new(),
    };
    let seen = Visibility::of_everything(OrgId(Uuid::nil()), &[site]);
    let within = Within::new(&seen, &Period::parse(None, None).ok().unwrap());
    let all = retrievals(&within, "at");
    let statement = format!(
        "{} SELECT (SELECT count() FROM {all}) AS before, \
           (SELECT count() FROM url('{}/gate', 'LineAsString', 'line String')) AS gate, (SELECT count() FROM {all}) AS after",
        begun(&within),
        server.url,
    );
    let telemetry = Telemetry::new(&client.clone().with_setting("readonly", "0"), &ReadSettings::default());
    let query = within.bind(telemetry.client.query(&statement));
    let query = settings.iter().fold(query, |query, (name, value)| query.with_setting(*name, *value));
    let meanwhile = async {
        reached.notified().await;
        insert("SELECT 'com.example', number, 3, 9 FROM numbers(4, 4)").await;
        compactor.compact_all().await.unwrap();
        assert!(compactor.parts().await.unwrap().is_empty());
        gate.notify_one();
    };
    let (counted, ()) = tokio::join!(query.fetch_one::<(u64, u64, u64)>(), meanwhile);
    let (before, opened, after) = counted.unwrap();
    assert_eq!(opened, 1);
    (before, after)
}

#[tokio::test]
async fn an_insert_and_a_compaction_between_two_steps_of_a_statement_change_nothing_in_it() {
    assert_eq!(counted_before_and_after(&[]).await, (5, 5));
}

#[tokio::test]
async fn without_the_setting_for_one_snapshot_they_would() {
    let (before, after) = counted_before_and_after(&[("enable_shared_storage_snapshot_in_query", "0")]).await;
    assert_ne!((before, after), (5, 5));
}
