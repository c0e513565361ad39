//! Limits on what an organization without a verified domain may store, and on drain coverage of unverified hosts (threat F50).

use crate::drains::{BOT, PERSON, line, send_log};
use crate::encodings::compress;
use crate::harness::{Gateway, TestApp, retrieval, with};
use ingest_gateway::Limits;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::{eventually, send_request};
use sqlx::PgPool;

const HOUR_SECONDS: i64 = 3_600;

async fn count(pool: &PgPool, table: &str) -> i64 {
    let statement = format!("SELECT count(*) FROM {table}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(pool).await.expect("the table exists")
}

async fn starts(gateway: &TestApp, key: &str, members: &Value, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(gateway.post(key, "/sessions/start", members).await.status);
    }
    statuses
}

/// Returns a log with one line in each of the last `hours` hours before a fixed time.
fn log(host: &str, user_agent: &str, hours: i64) -> String {
    log_until(1_792_000_000, host, user_agent, hours)
}

fn log_until(newest: i64, host: &str, user_agent: &str, hours: i64) -> String {
    let lines = (0..hours).map(|hour| {
        let at = chrono::DateTime::from_timestamp(newest - hour * HOUR_SECONDS, 0).expect("a time in range");
        let text = line(host, "/", user_agent, "192.0.2.1", &format!("ray-{hour}"));
        text.replace("2026-11-01T10:00:00", &at.format("%Y-%m-%dT%H:%M:%S").to_string())
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn f50_drains_without_a_verified_domain_store_nothing() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().org("anyone", OrgType::ContentOwner).await;
    for user_agent in [BOT, PERSON] {
        let sent = send_log(&gateway, "cloudflare", &owner.key, log("a.test", user_agent, 200)).await;
        assert_eq!((sent.status, &sent.body["lines"]), (200, &json!(200)), "{}", sent.body);
    }
    let _ = send_log(&gateway, "cloudflare", &owner.key, format!("{}{}", "nonsense\n".repeat(50), log("a.test", BOT, 1))).await;
    for table in ["drain_hours", "drain_bodies", "drain_bad_lines"] {
        assert_eq!(count(&gateway.stores.pool, table).await, 0, "{table}");
    }
    assert_eq!(gateway.log.record_count(), 0);
}

#[tokio::test]
async fn f50_other_hosts_get_no_coverage_hours() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().owner_of("a.test").await;
    for user_agent in [BOT, PERSON] {
        let sent = send_log(&gateway, "cloudflare", &owner.key, log("b.test", user_agent, 100)).await;
        assert_eq!((sent.status, &sent.body["dropped"]["other_host"]), (200, &json!(100)), "{}", sent.body);
    }
    // These lines count in the hour of their acceptance, and the test may cross into the next hour.
    assert!((1..=2).contains(&count(&gateway.stores.pool, "drain_hours").await));
    assert_eq!(send_log(&gateway, "cloudflare", &owner.key, log("a.test", PERSON, 100)).await.status, 200);
    assert!(count(&gateway.stores.pool, "drain_hours").await >= 100);
}

#[tokio::test]
async fn f50_all_bodies_in_an_hour_share_one_row() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().owner_of("a.test").await;
    for wave in 0..4 {
        let bodies = (0..10).map(|body| line("a.test", "/", PERSON, "192.0.2.1", &format!("ray-{wave}-{body}")));
        let sent = bodies.map(|body| send_log(&gateway, "cloudflare", &owner.key, body));
        for answer in futures::future::join_all(sent).await {
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
    }
    let rows: Vec<(i64, i64)> =
        sqlx::query_as("SELECT lines, people FROM drain_hours").fetch_all(&gateway.stores.pool).await.unwrap();
    assert_eq!(rows, [(40, 40)]);
}

#[tokio::test]
async fn f50_over_budget_coverage_is_skipped_but_events_are_kept() {
    let limits = Limits { owner_bytes: 20_000, coverage_bytes: 200, ..Limits::default() };
    let gateway = Gateway::start_with(limits).await;
    let seed = gateway.seed();
    let (owner, platform) = (seed.owner_of("a.test").await, seed.org("platform", OrgType::Platform).await);
    for key in [&owner.key, &platform.key] {
        let sent = send_log(&gateway, "cloudflare", key, log("a.test", BOT, 100)).await;
        assert_eq!((sent.status, &sent.body["kept"]), (200, &json!(100)), "{}", sent.body);
    }
    for table in ["drain_hours", "drain_bodies"] {
        assert_eq!(count(&gateway.stores.pool, table).await, 0, "{table}");
    }
    assert!(gateway.log.records(2).await.iter().all(|record| record.events.len() == 100));
}

#[tokio::test]
async fn f50_limits_writes_without_a_verified_domain() {
    let limits = Limits { unverified_bytes: 300_000, ..Limits::default() };
    let gateway = Gateway::start_with(limits).await;
    let seed = gateway.seed();
    let (anyone, verified) = (seed.org("anyone", OrgType::ContentOwner).await, seed.owner_of("a.test").await);
    let agent = seed.org("agent", OrgType::Agent).await;
    let large = json!({"content_scope": "x".repeat(2_000), "own.note": "y".repeat(55_000)});
    assert_eq!(starts(&gateway, &anyone.key, &large, 10).await, [[201; 5], [429; 5]].concat());
    assert_eq!(count(&gateway.stores.pool, "sessions").await, 5, "rejected requests are not stored");
    let refused = gateway.post(&anyone.key, "/sessions/start", &large).await;
    assert!(refused.headers.contains_key("retry-after"), "{}", refused.body);
    for (name, key) in [("verified", &verified.key), ("agent", &agent.key)] {
        assert_eq!(starts(&gateway, key, &large, 10).await, [201; 10], "{name}");
    }
}

#[tokio::test]
async fn f79_logs_without_a_verified_domain_get_429() {
    let limits = Limits { unverified_bytes: 1_000_000, ..Limits::default() };
    let gateway = Gateway::start_with(limits).await;
    let seed = gateway.seed();
    let anyone = || async { seed.org("anyone", OrgType::ContentOwner).await.key };
    let send = |key: String, provider: &'static str, body: Vec<u8>| {
        let request = gateway.post_request(&format!("/drains/{provider}"), &key).header("content-encoding", "gzip");
        async { send_request(request.body(body)).await }
    };
    let lines = |bytes: usize| compress("gzip", &b"GET /\n".repeat(bytes / 6));
    let records = compress("gzip", &[br#"{"records":["#.to_vec(), br#"{"data":"R0VU"},"#.repeat(100_000)].concat());
    for (provider, log) in [("ndjson", lines(1_600_000)), ("combined", lines(1_600_000)), ("firehose", records)] {
        // The rest isn't gzip, so reading on would return 400.
        let refused = send(anyone().await, provider, [log, vec![b'x'; 100_000]].concat()).await;
        assert_eq!(refused.status, 429, "{provider}: {}", refused.body);
        let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((3_000..=3_600).contains(&wait), "{provider}: the body needs the whole budget, not {wait} s of it");
    }
    let (key, mut statuses) = (anyone().await, Vec::new());
    for _ in 0..5 {
        statuses.push(send(key.clone(), "combined", lines(300_000)).await.status);
    }
    assert_eq!(statuses, [422, 422, 422, 429, 429], "lines that can't be read, until the budget is spent");
    for key in [seed.owner_of("a.test").await.key, seed.org("network", OrgType::Platform).await.key] {
        assert_eq!(send(key, "combined", lines(2_000_000)).await.status, 422, "no such budget");
    }
}

#[tokio::test]
async fn f50_limits_content_owners_sessions() {
    let limits = Limits { owner_bytes: 300_000, ..Limits::default() };
    let gateway = Gateway::start_with(limits).await;
    let owner = gateway.seed().owner_of("a.test").await;
    let large = json!({"own.note": "y".repeat(57_000)});
    assert_eq!(starts(&gateway, &owner.key, &large, 8).await, [[201; 5].as_slice(), &[429; 3]].concat());
}

#[tokio::test]
async fn f50_limits_sessions_named_by_events() {
    let gateway = Gateway::start_with(Limits { owner_bytes: 20_000, ..Limits::default() }).await;
    let seed = gateway.seed();
    let (owner, agent) = (seed.owner_of("a.test").await.key, seed.org("agent", OrgType::Agent).await.key);
    let batch = || {
        let event = || with(retrieval("https://a.test/"), json!({"session_id": uuid::Uuid::new_v4()}));
        json!({"events": (0..10).map(|_| event()).collect::<Vec<_>>()})
    };
    let first = batch();
    assert_eq!(gateway.report(&owner, &first).await.status, 201);
    let refused = gateway.report(&owner, &batch()).await;
    assert_eq!((refused.status, refused.headers.contains_key("retry-after")), (429, true), "{}", refused.body);
    for _ in 0..5 {
        assert_eq!(gateway.report(&owner, &first).await.status, 201, "known sessions are free");
        assert_eq!(gateway.report(&agent, &batch()).await.status, 201);
    }
    assert_eq!(gateway.log.record_count(), 11, "rejected events are not on the log");
}

async fn send_all(gateway: &TestApp, key: &str, bodies: &[String]) {
    for some in bodies.chunks(20) {
        let sent = some.iter().map(|body| send_log(gateway, "cloudflare", key, body.clone()));
        for answer in futures::future::join_all(sent).await {
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn f50_platform_coverage_grows_less_than_10_mb() {
    // The budget is a 32nd of the default, and the allowed growth a 32nd of 10 MB.
    let gateway = Gateway::start_with(Limits { coverage_bytes: 256 * 1024, ..Limits::default() }).await;
    let now = service_kit::clock::Clock::System.now().timestamp();
    let own = |n: usize| line("a.test", "/", PERSON, "192.0.2.1", &format!("ray-{n}"));
    let recent = |n: usize| log_until(now, &format!("b{n}.test"), BOT, 100);
    let shapes = [
        ("hours", vec![log("a.test", BOT, 8_000), log("b.test", PERSON, 8_000)]),
        ("recent hours", (0..40).map(recent).collect()),
        ("bodies", (0..1_500).map(own).collect()),
        ("bad lines", (0..200).map(|n| format!("{}{}", "nonsense\n".repeat(10), own(n))).collect()),
    ];
    for (name, bodies) in shapes {
        let platform = gateway.key("network", OrgType::Platform).await;
        send_all(&gateway, &platform, &[own(0)]).await;
        let before = table_bytes(&gateway).await;
        send_all(&gateway, &platform, &bodies).await;
        let grown = table_bytes(&gateway).await - before;
        println!("{name}: {} bodies, {grown} bytes", bodies.len());
        assert!(grown < 10_000_000 / 32, "{name}: {grown} bytes");
    }
}

async fn table_bytes(gateway: &TestApp) -> i64 {
    sqlx::query_scalar("SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        .fetch_one(&gateway.stores.pool)
        .await
        .expect("PostgreSQL responds")
}

/// Returns the size of PostgreSQL's tables and the log, in bytes.
async fn bytes(gateway: &TestApp) -> i64 {
    let tables = table_bytes(gateway).await;
    let records = gateway.log.record_texts(usize::try_from(gateway.log.record_count()).expect("it is a number")).await;
    tables + i64::try_from(records.iter().map(String::len).sum::<usize>()).expect("it is a number")
}

#[tokio::test]
async fn f50_session_writes_grow_less_than_10_mb() {
    // The budget is a 32nd of the default, and the allowed growth a 32nd of 10 MB.
    let gateway = Gateway::start_with(Limits { unverified_bytes: 128 * 1024, ..Limits::default() }).await;
    let large = "y".repeat(57_000);
    let session = uuid::Uuid::new_v4();
    let shapes = [
        ("/sessions/start", json!({})),
        ("/sessions/start", json!({"own.note": large})),
        ("/sessions/bulk", json!({"events": [], "own.note": large, "session_id": session})),
        ("/sessions/bulk", json!({"session_id": session})),
    ];
    for (path, body) in shapes {
        let anyone = gateway.seed().org("anyone", OrgType::ContentOwner).await;
        let before = bytes(&gateway).await;
        let mut requests = 0;
        while gateway.post(&anyone.key, path, &body).await.status == 201 {
            requests += 1;
            assert!(requests < 1_000, "{path} never returned 429");
        }
        let grown = bytes(&gateway).await - before;
        println!("{path}: {requests} requests, {grown} bytes");
        assert!(grown < 10_000_000 / 32, "{path}: {grown} bytes after {requests} requests");
    }
}

/// Each pending change holds a PostgreSQL connection, and a process has sixteen.
#[tokio::test(flavor = "multi_thread")]
async fn f53_session_writes_leave_connections_for_others() {
    let gateway = Gateway::start().await;
    let (busy, other) = (gateway.seed().org("busy", OrgType::Agent).await, gateway.seed().org("other", OrgType::Agent).await);
    let session = uuid::Uuid::new_v4();
    let mut holder = gateway.stores.pool.begin().await.unwrap();
    sqlx::query("INSERT INTO sessions (organization_id, session_id, created_at) VALUES ($1, $2, now())")
        .bind(busy.id.0)
        .bind(session)
        .execute(&mut *holder)
        .await
        .unwrap();
    let body = json!({"session_id": session}).to_string();
    let held: Vec<_> =
        (0..40).map(|_| tokio::spawn(gateway.post_request("/sessions/bulk", &busy.key).body(body.clone()).send())).collect();
    eventually("changes wait for the row", || async {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&gateway.stores.pool)
        .await
        .unwrap();
        (waiting >= 7).then_some(())
    })
    .await;
    let started = gateway.post(&other.key, "/sessions/start", &json!({})).await;
    assert_eq!(started.status, 201, "{}", started.body);
    holder.rollback().await.unwrap();
    for sent in held {
        // Requests that waited too long for a slot got 429.
        assert!(matches!(sent.await.unwrap().unwrap().status().as_u16(), 201 | 429));
    }
}

#[tokio::test]
async fn f51_an_organizations_keys_share_a_rate() {
    let gateway = Gateway::start_with(Limits { key_rate: 2, ..Limits::default() }).await;
    let seed = gateway.seed();
    let (busy, other) = (seed.org("busy", OrgType::Agent).await, seed.org("other", OrgType::Agent).await);
    for path in ["/sessions/start", "/events", "/drains/ndjson"] {
        // A key without the scope doesn't use its organization's rate.
        let reader = seed.key(other.id, OrgType::Agent, &[schemas::identity::Scope::TelemetryRead]).await;
        for _ in 0..10 {
            assert_eq!(gateway.post(&reader, path, &json!({})).await.status, 403, "{path}");
        }
    }
    let mut statuses = Vec::new();
    for _ in 0..40 {
        // Each key has a burst of four requests, and the organization one of eight.
        let key = seed.key(busy.id, OrgType::Agent, &[schemas::identity::Scope::TelemetryWrite]).await;
        statuses.push(gateway.post(&key, "/sessions/start", &json!({})).await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(gateway.post(&other.key, "/sessions/start", &json!({})).await.status, 201);
}
