//! Tests of hourly coverage.

use super::{BOT, FIXTURES, PERSON, body, line, send_log};
use crate::harness::Gateway;
use serde_json::{Value, json};
use service_kit::testing::eventually;
use sqlx::PgPool;

/// Returns every row as JSON, by hour.
async fn rows(pool: &PgPool, table: &str) -> Vec<Value> {
    let statement = format!("SELECT to_jsonb(t)::text FROM {table} t ORDER BY 1");
    let texts: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_all(pool).await.unwrap();
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[tokio::test]
async fn counts_coverage_of_repeated_bodies_once() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().owner_of("www.example.com").await;
    let (_, _, lines) = FIXTURES[0];
    for _ in 0..3 {
        assert_eq!(send_log(&gateway, "cloudflare", &org.key, lines).await.status, 200);
    }
    let rows_of = |table: &'static str| rows(&gateway.stores.pool, table);
    // The unreadable line has no time, so it counts in the current hour.
    let (hours, bad) = (rows_of("drain_hours").await, rows_of("drain_bad_lines").await);
    let of_log: Vec<&Value> = hours.iter().filter(|row| row["hour"] == "2026-11-01T10:00:00+00:00").collect();
    assert_eq!(of_log.len(), 1, "{hours:?}");
    let row = of_log[0];
    assert_eq!(
        (&row["organization_id"], &row["provider"], &row["drain_id"]),
        (&json!(org.id), &json!("cloudflare"), &Value::Null)
    );
    assert_eq!((&row["lines"], &row["kept"], &row["people"], &row["bad"]), (&json!(5), &json!(1), &json!(1), &json!(0)));
    assert_eq!(row["dropped"], json!({"asset": 1, "method": 1}), "and one line returned no content");
    assert!(row["bytes"].as_i64().unwrap() > 1_000 && row["lag_ms"].as_i64().unwrap() > 0, "{row}");
    assert!(
        !bad.is_empty()
            && bad.iter().all(|line| line["reason"] == "not_json" && line["excerpt"] == "{\"aaaaaaAaaaaaaAaaa\":".to_lowercase()),
        "{bad:?}"
    );
}

#[tokio::test]
async fn body_resent_with_a_host_counts_again() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().owner_of("a.test").await.key;
    let log = [BOT, PERSON].map(|user_agent| {
        format!("203.0.113.9 - - [01/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 9 \"-\" \"{user_agent}\"\n")
    });
    let log = log.concat();
    // First another host, then the right one, then the same body again.
    for (provider, lines, kept) in [("combined", 2, 0), ("combined?host=a.test", 4, 1), ("combined?host=a.test", 4, 1)] {
        assert_eq!(send_log(&gateway, provider, &key, log.clone()).await.status, 200, "{provider}");
        let [row] = <[Value; 1]>::try_from(rows(&gateway.stores.pool, "drain_hours").await).unwrap();
        assert_eq!((&row["lines"], &row["kept"], &row["bad"]), (&json!(lines), &json!(kept), &json!(1)), "{provider}");
    }
}

/// The digest of a body doesn't contain user agents.
#[tokio::test]
async fn counts_equal_bodies_from_other_drains_separately() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().owner_of("a.test").await.key;
    for user_agent in ["GPTBot/1.2", "Firefox/99", "GPTBot/1.2"] {
        let line = line("a.test", "/", user_agent, "", "r-1");
        assert_eq!(send_log(&gateway, "cloudflare", &key, line).await.status, 200);
    }
    let pool = &gateway.stores.pool;
    let dated: Vec<(i64, i64)> = sqlx::query_as("SELECT kept, people FROM drain_hours").fetch_all(pool).await.unwrap();
    assert_eq!(dated, [(1, 1)]);
}

#[tokio::test]
async fn hours_sum_bodies_and_keep_ten_unreadable_lines() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().owner_of("a.test").await.key;
    let at = |hour: &str, ray: &str| line("a.test", "/", PERSON, "", ray).replace("2026-11-01T10", hour);
    let third = [at("2026-11-01T11", "r-5"), "y\n".repeat(25)].join("\n");
    let first = [at("2026-11-01T10", "r-1"), at("2026-11-01T11", "r-2"), at("2026-11-01T11", "r-3")].join("\n");
    let second = [at("2026-11-01T11", "r-4"), "x\n".repeat(25)].join("\n");
    for lines in [first, second, third] {
        assert_eq!(send_log(&gateway, "cloudflare", &key, lines).await.status, 200);
    }
    let question =
        "SELECT to_char(hour AT TIME ZONE 'UTC', 'HH24'), people FROM drain_hours WHERE hour < '2026-11-02' ORDER BY 1";
    let hours: Vec<(String, i64)> = sqlx::query_as(question).fetch_all(&gateway.stores.pool).await.unwrap();
    let hours: Vec<(&str, i64)> = hours.iter().map(|(hour, people)| (hour.as_str(), *people)).collect();
    assert_eq!(hours, [("10", 1), ("11", 4)]);
    assert_eq!(rows(&gateway.stores.pool, "drain_bad_lines").await.len(), 10);
}

#[tokio::test]
async fn coverage_waits_for_postgresql_but_events_do_not() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().owner_of("www.example.com").await;
    let pool = &gateway.stores.pool;
    assert_eq!(send_log(&gateway, "cloudflare", &org.key, line("www.example.com", "/", BOT, "", "r-0")).await.status, 200);
    sqlx::query("ALTER TABLE drain_hours RENAME TO drain_hours_away").execute(pool).await.unwrap();
    for (provider, _, lines) in FIXTURES {
        assert_eq!(send_log(&gateway, provider, &org.key, body(provider, lines)).await.status, 200, "{provider}");
    }
    sqlx::query("ALTER TABLE drain_hours_away RENAME TO drain_hours").execute(pool).await.unwrap();
    eventually("all of it is covered", || async {
        let kept: Option<i64> = sqlx::query_scalar("SELECT sum(kept)::bigint FROM drain_hours").fetch_one(pool).await.unwrap();
        (kept == i64::try_from(1 + FIXTURES.len()).ok()).then_some(())
    })
    .await;
}
