//! Click tokens that the gateway could not look up are resolved as the gateway would have, or their record is rejected.

use crate::test_app::{NEW_YEAR_US, Workers, column, event, record};
use chrono::DateTime;
use schemas::secrets::{PlainClickToken, SecretHash};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

pub(crate) const REPORTER: u128 = 1;
const ISSUER: u128 = 9;
const SECOND_US: i64 = 1_000_000;
const UNKNOWN: &str = "event 1: the click token is unknown or expired";

pub(crate) fn session(n: u128) -> Uuid {
    Uuid::from_u128(0x4000_0000_0000_0000_8000_0000_0000_0000_u128 + n)
}

/// Issues a session's token that is valid until this time. Usually, the gateway writes these tables.
pub(crate) async fn issue(pool: &PgPool, token: &str, issuer: u128, session: Uuid, agent: Option<&str>, until_us: i64) {
    let start = "INSERT INTO sessions (organization_id, session_id, agent_id, agent_named_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    sqlx::query(start)
        .bind(Uuid::from_u128(issuer))
        .bind(session)
        .bind(agent)
        .bind(agent.map(|_| DateTime::UNIX_EPOCH))
        .execute(pool)
        .await
        .unwrap();
    sqlx::query("INSERT INTO click_tokens VALUES ($1, $2, $3, 'https://example.com/', $4, $4)")
        .bind(hash(token).as_bytes().as_slice())
        .bind(Uuid::from_u128(issuer))
        .bind(session)
        .bind(DateTime::from_timestamp_micros(until_us))
        .execute(pool)
        .await
        .unwrap();
}

fn hash(token: &str) -> SecretHash {
    PlainClickToken::presented(token).hash()
}

/// Returns an engagement event with these additional members.
pub(crate) fn engaged(key: u128, members: &Value) -> Value {
    let mut event = event(key);
    event["type"] = json!("content_engaged");
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

pub(crate) fn by_token(key: u128, token: &str) -> Value {
    engaged(key, &json!({"ctx_hash": hash(token)}))
}

/// One log contains hashes, the other what a gateway makes of the tokens. The tables must be equal in every column.
#[tokio::test(flavor = "multi_thread")]
async fn worker_and_gateway_lookups_produce_the_same_rows() {
    let (hashed, resolved) = (Workers::start().await, Workers::start().await);
    // These have expired by now, but were valid when the events were accepted.
    let until_us = NEW_YEAR_US + 60 * SECOND_US;
    let (own, theirs, nameless) = (session(1), session(2), session(3));
    let pool = &hashed.stores.pool;
    issue(pool, "ctx_own", REPORTER, own, Some("bot/1"), until_us).await;
    issue(pool, "ctx_theirs", ISSUER, theirs, Some("bot/9"), until_us).await;
    issue(pool, "ctx_nameless", ISSUER, nameless, None, until_us).await;
    issue(pool, "ctx_over", ISSUER, theirs, None, NEW_YEAR_US).await;

    let plain = engaged(7, &json!({"session_id": own, "agent_id": "named by the reporter"}));
    let left = [
        by_token(1, "ctx_own"),
        by_token(2, "ctx_theirs"),
        by_token(3, "ctx_nameless"),
        engaged(4, &json!({"ctx_hash": hash("ctx_own"), "session_id": own})),
        engaged(5, &json!({"ctx_hash": hash("ctx_theirs"), "agent_id": "named by the reporter"})),
        plain.clone(),
        engaged(9, &json!({"session_id": own})),
        engaged(10, &json!({"session_id": session(4)})),
        engaged(11, &json!({"session_id": theirs, "session_org": Uuid::from_u128(ISSUER), "link": "same"})),
        engaged(12, &json!({"ctx_hash": hash("ctx_own"), "agent_id": "named by the reporter"})),
        // Events without their own URLs.
        engaged(13, &json!({"ctx_hash": hash("ctx_theirs"), "content_url": null, "site": "", "type": "checkout_completed"})),
        engaged(14, &json!({"ctx_hash": hash("ctx_own"), "content_url": null, "site": ""})),
        // Events with sessions that the tokens don't bind: the token never existed, is expired, or belongs to another session.
        engaged(15, &json!({"ctx_hash": hash("ctx_never"), "session_id": own})),
        engaged(16, &json!({"ctx_hash": hash("ctx_over"), "session_id": own, "agent_id": "named by the reporter"})),
        engaged(17, &json!({"ctx_hash": hash("ctx_never"), "session_id": session(4)})),
        engaged(19, &json!({"ctx_hash": hash("ctx_theirs"), "session_id": theirs})),
        engaged(20, &json!({"ctx_hash": hash("ctx_theirs"), "session_id": session(4)})),
        engaged(21, &json!({"ctx_hash": hash("ctx_theirs"), "session_id": own})),
        // An event on another host than the token's link.
        engaged(18, &json!({"ctx_hash": hash("ctx_theirs"), "content_url": "https://pay.test/", "site": "test.pay"})),
    ];
    let issuer = Uuid::from_u128(ISSUER);
    let looked_up = [
        engaged(1, &json!({"session_id": own, "agent_id": "bot/1"})),
        engaged(2, &json!({"session_id": theirs, "session_org": issuer, "agent_id": "bot/9", "link": "same"})),
        engaged(3, &json!({"session_id": nameless, "session_org": issuer, "link": "same"})),
        engaged(4, &json!({"session_id": own, "agent_id": "bot/1"})),
        // The reporter can't name the agent of another organization's session.
        engaged(5, &json!({"session_id": theirs, "session_org": issuer, "agent_id": "bot/9", "link": "same"})),
        plain,
        engaged(9, &json!({"session_id": own, "agent_id": "bot/1"})),
        engaged(10, &json!({"session_id": session(4)})),
        engaged(11, &json!({"session_id": theirs, "session_org": issuer, "agent_id": "bot/9", "link": "same"})),
        engaged(12, &json!({"session_id": own, "agent_id": "named by the reporter"})),
        engaged(
            13,
            &json!({"session_id": theirs, "session_org": issuer, "agent_id": "bot/9", "link": "taken", "type": "checkout_completed"}),
        ),
        engaged(14, &json!({"session_id": own, "agent_id": "bot/1"})),
        engaged(15, &json!({"session_id": own, "agent_id": "bot/1"})),
        engaged(16, &json!({"session_id": own, "agent_id": "named by the reporter"})),
        engaged(17, &json!({"session_id": session(4)})),
        engaged(19, &json!({"session_id": theirs})),
        engaged(20, &json!({"session_id": session(4)})),
        engaged(21, &json!({"session_id": own, "agent_id": "bot/1"})),
        engaged(
            18,
            &json!({"session_id": theirs, "session_org": issuer, "agent_id": "bot/9", "link": "other", "link_site": "com.example",
                "content_url": "https://pay.test/", "site": "test.pay"}),
        ),
    ];
    hashed.put(&[(0, record(REPORTER, NEW_YEAR_US, &left)), (1, record(REPORTER, NEW_YEAR_US, &[event(8)]))]).await;
    resolved.put(&[(0, record(REPORTER, NEW_YEAR_US, &looked_up)), (1, record(REPORTER, NEW_YEAR_US, &[event(8)]))]).await;
    hashed.process_all().await;
    resolved.process_all().await;
    let expected = resolved.table().await;
    assert_eq!(resolved.visible().await.len(), 20);
    assert_eq!(hashed.table().await, expected);

    hashed.empty().await;
    hashed.process_all().await;
    assert_eq!(hashed.table().await, expected, "read again into empty tables");
    assert!(hashed.log.dead_letters().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_token_rejects_only_its_record() {
    let app = Workers::start().await;
    let until_us = NEW_YEAR_US + SECOND_US;
    issue(&app.stores.pool, "ctx_good", ISSUER, session(1), None, until_us).await;
    let good = |key| by_token(key, "ctx_good");
    issue(&app.stores.pool, "ctx_own", REPORTER, session(1), None, until_us).await;
    let elsewhere = engaged(91, &json!({"ctx_hash": hash("ctx_own"), "session_id": session(2)}));
    let bad = [
        (record(REPORTER, NEW_YEAR_US, &[good(90), by_token(91, "ctx_never"), good(92)]), UNKNOWN),
        (record(REPORTER, until_us, &[event(90), good(91)]), UNKNOWN),
        (
            record(REPORTER, NEW_YEAR_US, &[good(90), elsewhere]),
            "event 1: the click token belongs to a session other than session_id",
        ),
    ];

    let worker = app.worker();
    let mut expected = Vec::new();
    for (n, (refused, reason)) in (0_u128..).zip(bad) {
        // The token is valid until its last microsecond.
        app.put(&[(0, record(REPORTER, until_us - 1, &[good(2 * n)]))]).await;
        let bytes = refused.to_string().into_bytes();
        expected.push((app.log.put(0, &bytes).await, bytes, reason.to_owned()));
        app.put(&[(0, record(REPORTER, NEW_YEAR_US, &[good(2 * n + 1)]))]).await;
    }
    app.caught_up().await;
    worker.stop().await;

    let neighbours: Vec<String> = (0..6).map(|n| format!("event-{n:06}")).collect();
    assert_eq!(app.visible().await, neighbours);
    expected.sort();
    let letters = app.log.dead_letters().await;
    let found: Vec<_> = letters.into_iter().map(|letter| (letter.origin, letter.payload, letter.reason)).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_named_later_apply_to_later_events() {
    let app = Workers::start().await;
    issue(&app.stores.pool, "ctx_late", ISSUER, session(1), None, NEW_YEAR_US + SECOND_US).await;
    let members = json!({"session_id": session(1), "session_org": Uuid::from_u128(ISSUER), "link": "same"});
    let worker = app.worker();
    let put = async |accepted_at_us: i64, key: u128| {
        let events = [by_token(key, "ctx_late"), engaged(10 + key, &members)];
        app.put(&[(0, record(REPORTER, accepted_at_us, &events))]).await;
        app.caught_up().await;
    };
    put(NEW_YEAR_US, 1).await;
    let name = "UPDATE sessions SET agent_id = 'bot', agent_named_at = $1";
    sqlx::query(name).bind(DateTime::from_timestamp_micros(NEW_YEAR_US + 2)).execute(&app.stores.pool).await.unwrap();
    // These are later on the log, accepted before, at and after the time when the agent was named.
    for (key, accepted_at_us) in [(2, NEW_YEAR_US + 1), (3, NEW_YEAR_US + 2), (4, NEW_YEAR_US + 3)] {
        put(accepted_at_us, key).await;
    }
    worker.stop().await;
    let (agents, whole) = (column(&app, "agent").await, app.table().await);
    assert_eq!(agents, ["", "", "bot", "bot", "", "", "bot", "bot"]);

    app.empty().await;
    app.process_all().await;
    assert_eq!(app.table().await, whole, "read again into empty tables");
}
