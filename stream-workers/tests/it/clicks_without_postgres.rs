//! While PostgreSQL is unavailable, only records with an unresolved click token wait for it.

use crate::click_tokens::{REPORTER, by_token, engaged, issue, session};
use crate::test_app::{
    NEW_YEAR_US, PARTITIONS, RunningTask, RunningWorker, TestApp, Workers, column, event, ids, record, stream,
};
use local::test_servers::Postgres;
use serde_json::{Value, json};
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{TestStores, client, free_address};
use std::path::Path;
use std::time::Duration;
use tokio::task::spawn_blocking;

const ISSUER: u128 = 9;

/// Returns stores with a PostgreSQL that can be killed and paused.
pub(crate) async fn with_own_postgres(folder: &Path, fresh: TestStores) -> (TestStores, Postgres) {
    let at = folder.to_owned();
    let server = spawn_blocking(move || Postgres::start(&at)).await.unwrap().unwrap();
    let postgres = PostgresSettings { database_url: server.url() };
    let pool = databases::postgres(&postgres).unwrap();
    databases::migrate_postgres(&pool).await.unwrap();
    (TestStores { postgres, pool, ..fresh }, server)
}

/// Puts a record with a token and, once it is on the log, 59 more on all partitions: a third of them with a token or with an
/// agent to look up.
async fn put_portion(app: &TestApp, first: u128) {
    let record = |n: u128| match n % 3 {
        0 if n.is_multiple_of(2) => record(REPORTER, NEW_YEAR_US, &[by_token(n, "ctx_nameless")]),
        0 => record(REPORTER, NEW_YEAR_US, &[engaged(n, &json!({"session_id": session(1)}))]),
        _ => record(1, NEW_YEAR_US, &[event(n)]),
    };
    let on_its_partition = |n: u128| (i32::try_from(n).unwrap() % PARTITIONS, record(n));
    app.put(&[on_its_partition(first)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    app.put(&(first + 1..first + 60).map(on_its_partition).collect::<Vec<_>>()).await;
}

/// Waits for several attempts, and asserts that nothing is committed in the meantime.
async fn waits(app: &TestApp, worker: &RunningTask, visible: u128) {
    let is_not_committed = async || assert_eq!(app.not_stored().await, 60, "unresolved records are not committed");
    worker.assert_running(Duration::from_secs(6), is_not_committed).await;
    assert_eq!(app.visible().await, ids(0..visible));
}

#[tokio::test(flavor = "multi_thread")]
async fn unresolved_tokens_wait_for_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let (stores, mut server) = with_own_postgres(folder.path(), TestStores::fresh().await).await;
    let app = Workers::on(stores);
    let until_us = NEW_YEAR_US + 1;
    issue(&app.stores.pool, "ctx_nameless", ISSUER, session(1), None, until_us).await;
    issue(&app.stores.pool, "ctx_known", ISSUER, session(2), Some("bot"), until_us).await;

    server.pause();
    put_portion(&app, 0).await;
    let worker = app.worker();
    waits(&app, &worker, 0).await;
    server.resume();
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..60));

    server.kill_9();
    put_portion(&app, 60).await;
    waits(&app, &worker, 60).await;
    let mut server = spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap();
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..120));

    // The agent of a token's session can no longer change, so it isn't looked up again.
    app.put(&[(0, record(REPORTER, NEW_YEAR_US, &[by_token(120, "ctx_known")]))]).await;
    app.caught_up().await;
    server.kill_9();
    app.put(&[(0, record(REPORTER, NEW_YEAR_US, &[by_token(121, "ctx_known")]))]).await;
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..122));
    worker.stop().await;

    let by_agent = |agent: &'static str, session: String| (agent.to_owned(), session);
    let expected: Vec<_> = (0..122_u128)
        .map(|n| match n {
            120.. => by_agent("bot", session(2).to_string()),
            n if n % 3 == 0 => by_agent("", session(1).to_string()),
            _ => by_agent("", uuid::Uuid::nil().to_string()),
        })
        .collect();
    let found: Vec<_> = column(&app, "agent").await.into_iter().zip(column(&app, "session").await).collect();
    assert_eq!(found, expected);
    assert!(app.log.dead_letters().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_and_stores_without_postgres() {
    let fresh = TestStores::fresh().await;
    let nobody = PostgresSettings { database_url: format!("postgres://telemetry@{}/telemetry", free_address()) };
    let app = Workers::on(TestStores { postgres: nobody, ..fresh });
    let RunningWorker { mut process, listen, .. } = app.watched([]).await;
    app.put(&stream(0..60)).await;
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..60));
    let ready = client().get(format!("http://{listen}/ready")).send().await.unwrap();
    assert_eq!(ready.status(), 503);
    let body: Value = ready.json().await.unwrap();
    assert_eq!(body, serde_json::json!({"status": "unavailable", "reason": "database"}));
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
}
