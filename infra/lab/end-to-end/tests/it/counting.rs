//! C4 and C5, from the log to the answer: order, repeats, delays of months and full replays change no byte of a read;
//! one retrieval seen by any number of observers is one.
//!
//! `C4_CASES=1000` and `C5_CASES=1000` are what a release is checked with.

use crate::pipeline::Pipeline;
use clap::Parser;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use schemas::reads::Summary;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{Seed, random_seed, size};
use stream_workers::{Cli, Command};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PARTITIONS: i32 = 6;
const ROLES: [&str; 4] = ["agent", "edge", "origin", "index"];
/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;
const MONTHS_MS: i64 = 90 * 86_400_000;
const READS: [&str; 3] = ["/content-owners/summary", "/content-owners/events?limit=1000", "/content-owners/urls?limit=1000"];

fn record(org: u128, received_at_us: i64, events: &[Value]) -> Value {
    json!({"v": 1, "org": Uuid::from_u128(org), "received_at_us": received_at_us, "kind": "events", "events": events})
}

/// One report: few keys and organisations, so that most repeat another, accepted and happened months apart.
pub(crate) fn random_record(random: &mut StdRng) -> Value {
    let received_at_us = (NEW_YEAR_MS + random.random_range(0..MONTHS_MS)) * 1_000 + random.random_range(0..1_000);
    let events: Vec<Value> = (0..random.random_range(1..5))
        .map(|_| {
            let key: u128 = random.random_range(0..20);
            let role = *ROLES.choose(random).unwrap();
            let kind = if key.is_multiple_of(2) {
                "content_retrieved"
            } else {
                ["content_cited", "content_engaged"][usize::from(key > 10)]
            };
            let mut event = json!({
                "own_key": format!("{key:032x}"), "correlation_key": key.is_multiple_of(2).then(|| format!("{key:032x}")),
                "type": kind,
                "at_ms": NEW_YEAR_MS + random.random_range(-MONTHS_MS..MONTHS_MS), "source_role": role,
                "site": if key.is_multiple_of(3) { "com.example" } else { "com.example.www" },
                "content_url": format!("https://example.com/{}", key % 5), "content_telemetry_id": Uuid::from_u128(key),
                "data": {"n": random.random_range(0..1_000)},
            });
            if role == "agent" {
                event["session_id"] = json!(Uuid::from_u128(random.random_range(1..6)));
                event["agent_id"] = json!(format!("agent-{}", random.random_range(0..3)));
            }
            event
        })
        .collect();
    record(random.random_range(1..4), received_at_us, &events)
}

async fn everything(pipeline: &Pipeline, key: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for path in READS {
        answers.push(pipeline.read(key, path).await);
    }
    answers
}

pub(crate) async fn put(pipeline: &Pipeline, records: &[(i32, String)]) -> Vec<String> {
    pipeline.log.put_all(records.iter().map(|(partition, record)| (*partition, record.as_bytes()))).await
}

/// Reads these records of the log again, by the code behind `telemetry stream-workers replay`.
async fn replay(pipeline: &Pipeline, origins: &[String]) {
    let mut first = std::collections::BTreeMap::new();
    for origin in origins {
        let mut parts = origin.rsplit('/').map(|number| number.parse::<i64>().unwrap_or(0));
        let (offset, partition) = (parts.next().unwrap(), parts.next().unwrap());
        let known: &mut i64 = first.entry(partition).or_insert(offset);
        *known = offset.min(*known);
    }
    let from = first.iter().map(|(partition, offset)| format!("{partition}:{offset}")).collect::<Vec<_>>().join(",");
    let settings = pipeline.worker();
    let arguments = ["--clickhouse-url", &settings.clickhouse.clickhouse_url, "--kafka-brokers", &settings.kafka.kafka_brokers];
    let more = ["--database-url", &settings.postgres.database_url, "replay", "--expect-unchanged", "--from", &from];
    let cli = Cli::parse_from(["stream-workers"].into_iter().chain(arguments).chain(more));
    let Some(Command::Replay(options)) = cli.command else { panic!("{cli:?}") };
    stream_workers::replay(&settings, &options, Clock::System).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_permuted_tripled_delayed_and_replayed_reads_byte_for_byte_the_same() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let pipeline = Pipeline::start().await;
    let owner = Seed(&pipeline.stores.pool).owner_of("example.com").await;
    let stop = CancellationToken::new();
    let worker = pipeline.work(&stop);
    for case in 0..size("C4_CASES", 3) {
        let stream: Vec<String> = (0..random.random_range(10..40)).map(|_| random_record(&mut random).to_string()).collect();
        pipeline.empty().await;
        put(&pipeline, &stream.iter().map(|record| (0, record.clone())).collect::<Vec<_>>()).await;
        pipeline.caught_up().await;
        let expected = everything(&pipeline, &owner.key).await;
        assert!(expected[1].len() > 1_000, "seed {seed} case {case}: the reads hold hardly anything");

        pipeline.empty().await;
        let mut shaken: Vec<(i32, String)> =
            (0..3).flat_map(|_| stream.clone()).map(|record| (random.random_range(0..PARTITIONS), record)).collect();
        shaken.shuffle(&mut random);
        let (mut rest, mut origins) = (shaken.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(random.random_range(1..=rest.len()));
            origins.extend(put(&pipeline, now).await);
            if random.random_bool(0.5) {
                // So that repeats meet across blocks as well as within one.
                pipeline.caught_up().await;
            }
            rest = later;
        }
        pipeline.caught_up().await;
        assert!(everything(&pipeline, &owner.key).await == expected, "seed {seed} case {case}: permuted and tripled");
        replay(&pipeline, &origins).await;
        assert!(everything(&pipeline, &owner.key).await == expected, "seed {seed} case {case}: replayed");
        pipeline.clickhouse("OPTIMIZE TABLE observations FINAL").await;
        assert!(everything(&pipeline, &owner.key).await == expected, "seed {seed} case {case}: merged");
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}

/// Many retrievals at once, each seen by some roles in an order of its own, some of them twice, months apart.
#[tokio::test(flavor = "multi_thread")]
async fn one_retrieval_seen_by_any_roles_in_any_order_is_one_and_each_role_has_seen_it_once() {
    const AT_ONCE: usize = 25;
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let pipeline = Pipeline::start().await;
    let owner = Seed(&pipeline.stores.pool).owner_of("example.com").await;
    let stop = CancellationToken::new();
    let worker = pipeline.work(&stop);
    for round in 0..size("C5_CASES", AT_ONCE).div_ceil(AT_ONCE) {
        pipeline.empty().await;
        // By retrieval, the roles that are still to report it; an organisation reports in any of them.
        let mut reports: Vec<Vec<usize>> =
            (0..AT_ONCE).map(|_| (0..random.random_range(1..8)).map(|_| random.random_range(0..ROLES.len())).collect()).collect();
        let mut seen = vec![[false; ROLES.len()]; AT_ONCE];
        while reports.iter().any(|reports| !reports.is_empty()) {
            let mut records = Vec::new();
            for (retrieval, role) in reports.iter_mut().enumerate().filter_map(|(n, reports)| Some((n, reports.pop()?))) {
                seen[retrieval][role] = true;
                let key = (round * AT_ONCE + retrieval) as u128;
                let event = json!({
                    "own_key": format!("{key:032x}"), "correlation_key": format!("{key:032x}"),
                    "type": "content_retrieved", "source_role": ROLES[role],
                    "at_ms": NEW_YEAR_MS + random.random_range(-MONTHS_MS..MONTHS_MS), "site": "com.example",
                    "content_url": "https://example.com/", "content_telemetry_id": Uuid::from_u128(key),
                });
                let received_at_us = (NEW_YEAR_MS + random.random_range(0..MONTHS_MS)) * 1_000;
                let org = random.random_range(1..4);
                records.push((random.random_range(0..PARTITIONS), record(org, received_at_us, &[event]).to_string()));
            }
            put(&pipeline, &records).await;
            pipeline.caught_up().await;
            let trace = format!("seed {seed} round {round} {seen:?}");
            let summary: Summary = serde_json::from_str(&pipeline.read(&owner.key, READS[0]).await).unwrap();
            assert_eq!(summary.total_events, AT_ONCE as u64, "{trace}");
            for (role, name) in ROLES.iter().enumerate() {
                let expected = seen.iter().filter(|seen| seen[role]).count() as u64;
                assert_eq!(crate::watch::seen_by(&summary, name), expected, "{name}: {trace}");
            }
        }
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}
