//! A11: floods of unknown API keys, and their effect on known keys.

use crate::harness::{Gateway, retrieval, with};
use crate::postgres_outages::gateway_and_database;
use futures::future::join_all;
use ingest_gateway::Durability;
use reqwest::header::RETRY_AFTER;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::secrets::PlainApiKey;
use serde_json::{Value, json};
use service_kit::testing::{TestStores, eventually};
use sqlx::{Connection, PgConnection, PgExecutor, PgPool};
use std::time::{Duration, Instant};

/// Requests per round. At most 600 unknown keys per minute are looked up.
const AT_ONCE: usize = 50;
const ROUNDS: usize = 400;
const REPEATS: usize = 300;
/// Time for which an unknown key is cached.
const UNKNOWN_FOR: Duration = Duration::from_millis(800);

fn batch(id: &str) -> Value {
    json!({"events": [with(retrieval("https://a.test/x"), json!({"id": id}))]})
}

/// Returns the number of key lookups that PostgreSQL has counted so far.
async fn look_ups(database: impl PgExecutor<'_>) -> i64 {
    let counted = "SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'api_keys'";
    sqlx::query_scalar(counted).fetch_one(database).await.expect("PostgreSQL returns its counts")
}

/// Returns the number of all lookups. Ends other connections first, because they report their counts at the latest then.
async fn all_look_ups(stores: &TestStores) -> i64 {
    let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity \
               WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let mut own = PgConnection::connect(&stores.postgres.database_url).await.expect("the database responds");
    let have_ended: Vec<bool> = sqlx::query_scalar(end).fetch_all(&mut own).await.expect("the connections are ended");
    assert!(have_ended.iter().all(|has_ended| *has_ended));
    look_ups(&mut own).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_floods_of_unknown_keys_are_rate_limited() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, database) = gateway_and_database(folder.path()).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    assert_eq!(gateway.report(&agent.key, &batch("before")).await.status, 201);
    let (mut unknown, mut limited, mut unanswered) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let keys: Vec<_> = (0..AT_ONCE).map(|_| PlainApiKey::generate(OrgType::Agent)).collect();
        let body = batch("never");
        for answer in join_all(keys.iter().map(|key| gateway.report(key.reveal(), &body))).await {
            match answer.status {
                401 => unknown += 1,
                429 => limited += usize::from(answer.headers.contains_key(RETRY_AFTER)),
                // On a busy machine, PostgreSQL may respond too late.
                503 => unanswered += 1,
                other => panic!("{other}: {}", answer.body),
            }
        }
        if limited >= 4 * AT_ONCE {
            break;
        }
    }
    assert!(unknown >= 600 && limited >= 4 * AT_ONCE, "{unknown} got 401, {limited} got 429");
    let asked = eventually("PostgreSQL has counted", || async {
        Some(look_ups(&gateway.stores.pool).await).filter(|asked| *asked >= 500)
    })
    .await;
    assert!(asked <= unknown + unanswered + 20, "{asked} lookups for {unknown} responses");

    assert_eq!(gateway.report(&agent.key, &batch("meanwhile")).await.status, 201, "a known key is not limited");
    database.pause();
    for id in ["away-1", "away-2", "away-3"] {
        let written = gateway.report(&agent.key, &batch(id)).await;
        assert_eq!(written.status, 201, "unknown keys did not evict it from the cache: {}", written.body);
    }
    database.resume();
}

/// A key that is created after it was rejected works within a second, as fast as a revocation takes effect.
#[tokio::test(flavor = "multi_thread")]
async fn a11_caches_unknown_keys_for_less_than_a_second() {
    let stores = TestStores::with_topics().await;
    let before = all_look_ups(&stores).await;
    let gateway = Gateway::start_on(stores, Durability::default()).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let key = PlainApiKey::generate(OrgType::Agent);
    let began = Instant::now();
    for _ in 0..REPEATS {
        assert_eq!(gateway.report(key.reveal(), &batch("early")).await.status, 401);
    }
    insert(&gateway.stores.pool, agent.id, &key).await;
    eventually("it works", || async { (gateway.report(key.reveal(), &batch("late")).await.status == 201).then_some(()) }).await;
    let may_ask = 2 + began.elapsed().as_millis() / UNKNOWN_FOR.as_millis();
    let asked = all_look_ups(&gateway.stores).await - before;
    assert!((2..=i64::try_from(may_ask).unwrap()).contains(&asked), "{asked} lookups, at most {may_ask} expected");
}

async fn insert(pool: &PgPool, org: OrgId, key: &PlainApiKey) {
    let statement =
        "INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) VALUES ($1, 'late', $2, $3, '{telemetry:write}')";
    let insert = sqlx::query(statement).bind(org.0).bind(key.visible_prefix()).bind(key.hash().as_bytes().as_slice());
    insert.execute(pool).await.expect("the key is inserted");
}
