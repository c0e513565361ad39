//! The gateway's and worker's counters add up: accepted events are stored, rejected, or still in the spill.

use crate::pipeline::process;
use local::test_servers::{Kafka, Postgres};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::settings::{KafkaSettings, PostgresSettings};
use service_kit::testing::{Seed, TestLog, TestProcess, TestStores, client, eventually, free_address};
use service_kit::{databases, kafka};
use std::path::Path;
use tokio::task::spawn_blocking;

/// A process and the address of its metrics.
struct ProcessWithMetrics {
    process: TestProcess,
    url: String,
    metrics: String,
}

impl ProcessWithMetrics {
    async fn start(name: &str, stores: &TestStores, spill: &Path, more: &[(&'static str, &str)]) -> Self {
        let (listen, metrics) = (free_address().to_string(), free_address().to_string());
        let mut environment = vec![
            ("TELEMETRY_LISTEN", listen.clone()),
            ("TELEMETRY_METRICS_LISTEN", metrics.clone()),
            ("DATABASE_URL", stores.postgres.database_url.clone()),
            ("KAFKA_BROKERS", stores.kafka.kafka_brokers.clone()),
            ("TELEMETRY_TOPIC", stores.kafka.topic.clone()),
            ("TELEMETRY_REJECTED_TOPIC", stores.kafka.rejected_topic.clone()),
        ];
        if name == "ingest-gateway" {
            environment.push(("TELEMETRY_SPILL_DIR", spill.display().to_string()));
        }
        environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let mut process = process(name, &[], &environment);
        process.wait_until_ok(&format!("http://{listen}/health")).await;
        Self { process, url: format!("http://{listen}"), metrics: format!("http://{metrics}/metrics") }
    }

    /// Returns the value of a series, or 0 if it does not exist yet.
    async fn series(&self, name: &str) -> f64 {
        let text = client().get(&self.metrics).send().await.unwrap().text().await.unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0.0)
    }
}

fn seen(id: usize) -> Value {
    json!({"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge", "id": format!("e{id}"),
        "content_url": "https://www.example.com/page"})
}

fn clicked(id: usize) -> Value {
    json!({"type": "content_engaged", "timestamp": "2026-11-01T10:00:00Z", "ctx_token": "ctx_never", "id": format!("e{id}"),
        "content_url": "https://www.example.com/page"})
}

/// Returns both sides of the equation, and the terms of the right one.
async fn sides(gateway: &ProcessWithMetrics, worker: &ProcessWithMetrics) -> (f64, f64, Vec<f64>) {
    let mut parts = Vec::new();
    for name in ["worker_events_stored_total", "worker_events_rejected_total"] {
        parts.push(worker.series(name).await);
    }
    parts.push(gateway.series("gateway_spill_pending_events").await);
    (gateway.series("gateway_events_accepted_total").await, parts.iter().sum(), parts)
}

async fn assert_adds_up(gateway: &ProcessWithMetrics, worker: &ProcessWithMetrics, accepted: f64, expected: [f64; 3]) {
    let what = format!("{accepted} accepted, and what was acknowledged late, = stored, rejected, spilled {expected:?}");
    eventually(&what, || async {
        // Records that the log accepted after the gateway had spilled them exist twice.
        let late = gateway.series("gateway_events_acknowledged_late_total").await;
        let (left, right, parts) = sides(gateway, worker).await;
        let [stored, rejected, spilled] = expected;
        (left == accepted && left + late == right && parts == [stored + late, rejected, spilled]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_for_every_accepted_event() {
    let folder = tempfile::tempdir().unwrap();
    let (at, beside_it) = (folder.path().to_owned(), folder.path().join("database"));
    std::fs::create_dir(&beside_it).unwrap();
    let (mut broker, database) =
        spawn_blocking(move || (Kafka::start(&at).unwrap(), Postgres::start(&beside_it).unwrap())).await.unwrap();
    let fresh = TestStores::fresh().await;
    let kafka = KafkaSettings { kafka_brokers: broker.address(), ..fresh.kafka.clone() };
    kafka::create_topics(&kafka).await.unwrap();
    let postgres = PostgresSettings { database_url: database.url() };
    let pool = databases::postgres(&postgres).unwrap();
    databases::migrate_postgres(&pool).await.unwrap();
    let stores = TestStores { kafka, postgres, pool, ..fresh };
    let key = Seed(&stores.pool).org("shop", OrgType::Platform).await.key;

    let spill = folder.path().join("spill");
    let gateway = ProcessWithMetrics::start("ingest-gateway", &stores, &spill, &[]).await;
    let clickhouse = &stores.clickhouse;
    let settings = [
        ("CLICKHOUSE_URL", clickhouse.clickhouse_url.as_str()),
        ("TELEMETRY_CLICKHOUSE_DATABASE", &clickhouse.clickhouse_database),
        ("TELEMETRY_TAKEOVER_AFTER_MS", "1000"),
    ];
    let worker = ProcessWithMetrics::start("stream-workers", &stores, &spill, &settings).await;
    let post = async |events: Vec<Value>| {
        let request = client().post(format!("{}/events", gateway.url)).header("content-type", "application/json");
        request.header("x-api-key", &key).body(json!({"events": events}).to_string()).send().await.unwrap().status()
    };
    assert_eq!(post((0..10).map(seen).collect()).await, 201);
    assert_eq!(post((0..4).map(seen).collect()).await, 201);
    assert_adds_up(&gateway, &worker, 14.0, [14.0, 0.0, 0.0]).await;

    // While PostgreSQL is down, the gateway accepts an unknown token without checking it, and the other events in the request too.
    database.pause();
    assert_eq!(post(vec![clicked(20), seen(21), seen(22)]).await, 201);
    database.resume();
    assert_adds_up(&gateway, &worker, 17.0, [14.0, 3.0, 0.0]).await;

    broker.kill_9();
    for n in 0..5 {
        assert_eq!(post(vec![seen(30 + 2 * n), seen(31 + 2 * n)]).await, 201);
    }
    assert_adds_up(&gateway, &worker, 27.0, [14.0, 3.0, 10.0]).await;
    let mut broker = spawn_blocking(move || broker.restart().map(|()| broker)).await.unwrap().unwrap();
    assert_adds_up(&gateway, &worker, 27.0, [24.0, 3.0, 0.0]).await;

    let text = client().get(&worker.metrics).send().await.unwrap().text().await.unwrap();
    for name in ["worker_events_rejected_total", "worker_lag_seconds", "worker_event_age_seconds", "worker_active"] {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help text");
    }
    let ages: f64 = worker.series("worker_event_age_seconds_count").await;
    assert_eq!(ages, worker.series("worker_events_stored_total").await, "stored events without an age");

    // Kill the gateway and the broker while the spill contains events, and replace the worker. The new gateway counts the old
    // one's spilled events, even before the broker is back.
    TestLog::connect(&stores.kafka).caught_up(&stores.clickhouse).await;
    broker.kill_9();
    assert_eq!(post(vec![seen(50), seen(51), seen(52)]).await, 201);
    eventually("events are spilled", || async { (gateway.series("gateway_spill_pending_events").await == 3.0).then_some(()) })
        .await;
    let (mut killed, mut replaced) = (gateway, worker);
    killed.process.kill_9().await;
    assert_eq!(replaced.process.terminate().await, Some(0));
    let gateway = ProcessWithMetrics::start("ingest-gateway", &stores, &spill, &[]).await;
    eventually("the new gateway has counted its spill", || async {
        (gateway.series("gateway_spill_pending_events").await == 3.0).then_some(())
    })
    .await;
    let _broker = spawn_blocking(move || broker.restart().map(|()| broker)).await.unwrap().unwrap();
    let mut worker = ProcessWithMetrics::start("stream-workers", &stores, &spill, &settings).await;
    eventually("the killed gateway's events are stored, and the spill is empty", || async {
        let late = gateway.series("gateway_events_acknowledged_late_total").await;
        let (accepted, right, parts) = sides(&gateway, &worker).await;
        (accepted == 0.0 && right == 3.0 + late && parts[2] == 0.0).then_some(())
    })
    .await;
    assert_eq!(worker.process.terminate().await, Some(0));
}
