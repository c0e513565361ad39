//! One command fills an empty database from the log. Afterwards, every read returns the same bytes as before.

use crate::pipeline::{Pipeline, process};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{Seed, TestStores, free_address, random_seed};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const REQUESTS: usize = 60;

/// Returns a random event by an agent, an edge or an owner, on one of two hosts. Some events repeat others.
fn event(random: &mut StdRng, role: &str, session: Option<&str>) -> Value {
    let number: u32 = random.random_range(0..25);
    let url = format!("https://{}/page-{}", ["www.example.com", "other.test"].choose(random).unwrap(), number % 7);
    let at = format!("2026-{:02}-{:02}T10:00:{:02}Z", random.random_range(1..11), random.random_range(1..28), number % 60);
    let mut event = match role {
        "agent" if number.is_multiple_of(3) => {
            json!({"type": "content_cited", "data": {"citation_type": "paraphrase", "excerpt_tokens": number}})
        }
        "agent" if number.is_multiple_of(5) => json!({"type": "content_engaged", "id": format!("engaged-{number}")}),
        _ => json!({"type": "content_retrieved", "content_telemetry_id": Uuid::from_u128(u128::from(number))}),
    };
    if event["type"] == "content_retrieved" {
        event["source_role"] = json!(role);
    }
    event["content_url"] = json!(url);
    event["timestamp"] = json!(at);
    if let Some(session) = session {
        event["session_id"] = json!(session);
    }
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_identical_after_a_rebuild() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let pipeline = Pipeline::start().await;
    let orgs = Seed(&pipeline.stores.pool);
    let (owner, other) = (orgs.owner_of("example.com").await, orgs.owner_of("other.test").await);
    let (agent, network) = (orgs.org("agent", OrgType::Agent).await, orgs.org("network", OrgType::Platform).await);
    orgs.delegate(owner.id, network.id).await;
    let session = Uuid::from_u128(7).to_string();
    let bulk =
        json!({"session_id": session, "agent_id": "bot", "privacy_level": "full", "events": [event(&mut random, "agent", None)]});
    pipeline.post("/sessions/bulk", &agent.key, &bulk).await;
    for _ in 0..REQUESTS {
        let (role, key) = *[("agent", &agent.key), ("edge", &network.key)].choose(&mut random).unwrap();
        let session = (role == "agent").then_some(session.as_str());
        let events: Vec<Value> = (0..random.random_range(1..5)).map(|_| event(&mut random, role, session)).collect();
        pipeline.post("/events", key, &json!({"events": events})).await;
    }
    pipeline.run_worker_until_idle().await;

    let lists = ["summary", "events?limit=1000", "urls?limit=1000", "corroboration?limit=1000", "funnel?limit=1000"];
    let of_owners =
        [&owner.key, &other.key].into_iter().flat_map(|key| lists.map(|list| (key, format!("/content-owners/{list}"))));
    let of_reporters = [
        (&agent.key, "/agent/events?limit=1000".to_owned()),
        (&network.key, "/agent/events?limit=1000".to_owned()),
        (&network.key, format!("/content-owners/summary?delegated_from={}", owner.id)),
        (&agent.key, format!("/sessions/{session}/document")),
    ];
    let reads: Vec<_> = of_owners.chain(of_reporters).collect();
    let mut before = Vec::new();
    for (key, path) in &reads {
        before.push(pipeline.read(key, path).await);
    }
    assert!(before.iter().map(String::len).sum::<usize>() > 20_000, "seed {seed}: the reads contain too little data");

    let rebuilt = rebuilt(&pipeline, seed).await;
    for ((key, path), before) in reads.iter().zip(&before) {
        assert!(rebuilt.read(key, path).await == *before, "seed {seed}: {path} differs");
    }
    // A worker continues where the rebuild ended, and a replay changes nothing.
    let stop = CancellationToken::new();
    let worker = rebuilt.spawn_worker(&stop);
    let (code, _, stderr) = rebuilt.command(&["replay", "--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "seed {seed}: {stderr}");
    stop.cancel();
    worker.await.unwrap().unwrap();
    for ((key, path), before) in reads.iter().zip(&before) {
        assert!(rebuilt.read(key, path).await == *before, "seed {seed}: {path} differs after a replay");
    }
}

/// Returns the same pipeline with a database that `rebuild` has filled.
pub(crate) async fn rebuilt(pipeline: &Pipeline, seed: u64) -> Pipeline {
    let clickhouse_database = format!("{}_rebuilt", pipeline.stores.clickhouse.clickhouse_database);
    let clickhouse = ClickHouseSettings { clickhouse_database, ..pipeline.stores.clickhouse.clone() };
    let stores = TestStores { clickhouse, ..pipeline.stores.clone() };
    let own = [("TELEMETRY_LISTEN", free_address().to_string()), ("TELEMETRY_METRICS_LISTEN", free_address().to_string())];
    let environment: Vec<_> = own.into_iter().chain(stores.environment()).collect();
    let mut rebuild = process("stream-workers", &["rebuild"], &environment);
    assert_eq!(rebuild.exit_code().await, Some(0), "seed {seed}: {}", rebuild.stderr());
    Pipeline::start_on(stores).await
}
