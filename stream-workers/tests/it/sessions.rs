//! Sessions that events name: the worker writes them, and adds their agents to events.

use crate::click_tokens::{REPORTER, engaged, session};
use crate::clicks_without_postgres::with_own_postgres;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, Workers, column, record};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use service_kit::testing::TestStores;
use std::time::Duration;
use uuid::Uuid;

type Row = (Option<i16>, Option<String>, Option<DateTime<Utc>>, Option<String>, Option<String>, Option<DateTime<Utc>>);

/// Returns a record with one event in a session, with these facts about the session.
fn naming(n: u128, said: &Value) -> Value {
    let mut record = record(REPORTER, NEW_YEAR_US, &[engaged(n, &json!({"session_id": said["session_id"]}))]);
    record["named_sessions"] = json!([said]);
    record
}

async fn written(app: &TestApp, session: Uuid) -> Option<Row> {
    let columns = "privacy_level, parent_session_id, started_at, manifest_ref, agent_id, agent_named_at";
    let statement = format!("SELECT {columns} FROM sessions WHERE organization_id = $1 AND session_id = $2");
    let row = sqlx::query_as(sqlx::AssertSqlSafe(statement)).bind(Uuid::from_u128(REPORTER)).bind(session);
    row.fetch_optional(&app.stores.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_writes_sessions_after_postgres_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let (stores, mut server) = with_own_postgres(folder.path(), TestStores::fresh().await).await;
    let app = Workers::on(stores);
    let start: DateTime<Utc> = "2026-01-01T08:00:00Z".parse().unwrap();
    let said = json!({"session_id": session(1), "privacy_level": "summary", "parent_session_id": "p", "started_at": start,
        "manifest_ref": "m", "agent_id": "bot"});
    let later = json!({"session_id": session(1), "privacy_level": "intent", "parent_session_id": "other", "agent_id": "other"});
    let records = [(0, naming(0, &said)), (0, naming(1, &later)), (1, naming(2, &json!({"session_id": session(2)})))];

    server.kill_9();
    app.put(&records).await;
    let worker = app.worker();
    let is_not_committed = async || assert_eq!(app.not_stored().await, 3, "unwritten sessions are not committed");
    worker.assert_running(Duration::from_secs(3), is_not_committed).await;
    assert_eq!(app.visible().await.len(), 0, "an event that can be read has its session");
    let _server = tokio::task::spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap();
    app.caught_up().await;
    worker.stop().await;

    let row = written(&app, session(1)).await.expect("the session is written");
    let accepted_at = DateTime::from_timestamp_micros(NEW_YEAR_US);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        row,
        (Some(1), text("p"), Some(start), text("m"), text("bot"), accepted_at),
        "the strictest level, and what came first"
    );
    assert_eq!(written(&app, session(2)).await, Some((None, None, None, None, None, None)));
    assert_eq!(app.visible().await.len(), 3);

    app.put(&records).await;
    app.process_all().await;
    assert_eq!(written(&app, session(1)).await, Some(row), "repeating the records changes nothing");
}

#[tokio::test]
async fn replays_do_not_restore_deleted_sessions() {
    let app = Workers::start().await;
    app.put(&(0..PARTITIONS).map(|n| (n, naming(1, &json!({"session_id": session(1), "agent_id": "bot"})))).collect::<Vec<_>>())
        .await;
    app.process_all().await;
    assert!(written(&app, session(1)).await.is_some());
    sqlx::query("DELETE FROM sessions").execute(&app.stores.pool).await.unwrap();
    let (code, stdout, stderr) = app.replay(&[]).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains(&format!("{PARTITIONS} records")), "{stdout}");
    assert_eq!(written(&app, session(1)).await, None);
}

#[tokio::test]
async fn unstorable_sessions_reject_only_their_record() {
    let app = Workers::start().await;
    let bad = [
        json!({"agent_id": "a\0b"}),
        json!({"manifest_ref": "\0"}),
        json!({"parent_session_id": "\0"}),
        json!({"started_at": "-4714-01-01T00:00:00Z"}),
    ];
    let oldest = json!({"session_id": session(1), "started_at": "0000-01-01T00:00:00+14:00"});
    for (n, members) in (10..).zip(bad) {
        let mut said = members;
        said["session_id"] = json!(session(n));
        app.put(&[(0, naming(n, &said))]).await;
    }
    app.put(&[(0, naming(1, &oldest))]).await;
    app.process_all().await;
    assert_eq!(app.visible().await.len(), 1);
    assert!(written(&app, session(1)).await.is_some_and(|row| row.2.is_some()));
    for n in 10..14 {
        assert_eq!(written(&app, session(n)).await, None);
    }
    let reasons: Vec<String> = app.log.dead_letters().await.into_iter().map(|letter| letter.reason).collect();
    assert!(reasons.len() == 4 && reasons.iter().all(|reason| reason.ends_with("cannot be stored")), "{reasons:?}");
}

#[tokio::test]
async fn writes_more_sessions_than_fit_in_a_statement() {
    let app = Workers::start().await;
    for part in 0..3 {
        let sessions = (part * 1_000..(part + 1) * 1_000).map(session);
        let mut record = naming(part, &json!({"session_id": session(part)}));
        record["named_sessions"] = sessions.map(|session| json!({"session_id": session})).collect();
        app.put(&[(0, record)]).await;
    }
    app.process_all().await;
    let written: i64 = sqlx::query_scalar("SELECT count(*) FROM sessions").fetch_one(&app.stores.pool).await.unwrap();
    assert_eq!(written, 3_000);
}

/// Returns a record with an event of the session that may name the agent.
fn of_agent(n: u128, accepted_us: i64, agent: Option<&str>) -> Value {
    let mut event = engaged(n, &json!({"session_id": session(1)}));
    let mut said = json!({"session_id": session(1)});
    if let Some(agent) = agent {
        (event["agent_id"], said["agent_id"]) = (json!(agent), json!(agent));
    }
    let mut record = record(REPORTER, accepted_us, &[event]);
    record["named_sessions"] = json!([said]);
    record
}

#[tokio::test(flavor = "multi_thread")]
async fn later_events_get_the_first_named_agent() {
    let app = Workers::start().await;
    let said = [None, Some("env-bot"), Some("later-bot"), None];
    let records = (0_u128..).zip(said).map(|(n, agent)| of_agent(n, NEW_YEAR_US + i64::try_from(n).unwrap(), agent));
    app.put(&records.map(|record| (0, record)).collect::<Vec<_>>()).await;
    app.process_all().await;
    // One block contains all of them. The first event was accepted before an agent was named.
    let expected = ["", "env-bot", "later-bot", "env-bot"];
    assert_eq!(column(&app, "agent").await, expected);
    let whole = app.table().await;
    app.empty().await;
    app.process_all().await;
    assert_eq!(app.table().await, whole, "read again into empty tables");
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_agent_replaces_the_cached_one() {
    let app = Workers::start().await;
    let worker = app.worker();
    // An API call names the agent, and the record that named it earlier is read afterwards.
    let call = "INSERT INTO sessions (organization_id, session_id, agent_id, agent_named_at) VALUES ($1, $2, 'called', $3)";
    let call = sqlx::query(call).bind(Uuid::from_u128(REPORTER)).bind(session(1));
    call.bind(DateTime::from_timestamp_micros(NEW_YEAR_US + 20)).execute(&app.stores.pool).await.unwrap();
    for (n, accepted, agent) in [(0, 30, None), (1, 10, Some("env-bot")), (2, 40, None)] {
        app.put(&[(0, of_agent(n, NEW_YEAR_US + accepted, agent))]).await;
        app.caught_up().await;
    }
    worker.stop().await;
    assert_eq!(column(&app, "agent").await, ["called", "env-bot", "env-bot"]);
}
