//! C4 and C5 through the whole pipeline: reordering, repeats, delays of months and full replays don't change a byte of any read, and a
//! fetch counts once, however many observers report it.
//!
//! Before a release, use `C4_CASES=1000` and `C5_CASES=1000`.

use crate::pipeline::Pipeline;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use schemas::summary_responses::Summary;
use serde_json::{Value, json};
use service_kit::testing::{Seed, SeededOrg, random_seed, size};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const PARTITIONS: i32 = 6;
const ROLES: [&str; 4] = ["agent", "edge", "origin", "index"];
/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;
const MONTHS_MS: i64 = 90 * 86_400_000;
const READS: [&str; 3] = ["/content-owners/summary", "/content-owners/events?limit=1000", "/content-owners/urls?limit=1000"];

/// Returns a report's deduplication key, which includes the organization.
fn own_key(org: u128, key: u128) -> String {
    format!("{org:02x}{key:030x}")
}

fn record(org: u128, received_at_us: i64, events: &[Value]) -> Value {
    json!({"v": 1, "org": Uuid::from_u128(org), "received_at_us": received_at_us, "kind": "events", "events": events})
}

/// Returns a random report. Few keys and organizations exist, so most reports repeat another one. Acceptance and event times are months
/// apart.
pub(crate) fn random_record(random: &mut StdRng) -> Value {
    let received_at_us = (NEW_YEAR_MS + random.random_range(0..MONTHS_MS)) * 1_000 + random.random_range(0..1_000);
    let org = random.random_range(1..4);
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
                "own_key": own_key(org, key), "correlation_key": key.is_multiple_of(2).then(|| format!("{key:032x}")),
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
    record(org, received_at_us, &events)
}

/// Returns the responses of all reads, without the owner's id, which differs between stores.
async fn all_reads(pipeline: &Pipeline, owner: &SeededOrg) -> Vec<String> {
    let mut answers = Vec::new();
    for path in READS {
        answers.push(pipeline.read(&owner.key, path).await.replace(&owner.id.to_string(), "owner"));
    }
    answers
}

pub(crate) async fn append_records(pipeline: &Pipeline, records: &[(i32, String)]) -> Vec<String> {
    pipeline.log.put_all(records.iter().map(|(partition, record)| (*partition, record.as_bytes()))).await
}

/// A pipeline with a worker.
struct RunningPipeline {
    pipeline: Pipeline,
    owner: SeededOrg,
    stop: CancellationToken,
    worker: JoinHandle<anyhow::Result<()>>,
}

impl RunningPipeline {
    async fn start() -> Self {
        let pipeline = Pipeline::start().await;
        let owner = Seed(&pipeline.stores.pool).owner_of("example.com").await;
        let stop = CancellationToken::new();
        let worker = pipeline.spawn_worker(&stop);
        Self { pipeline, owner, stop, worker }
    }

    async fn all_reads(&self) -> Vec<String> {
        all_reads(&self.pipeline, &self.owner).await
    }

    async fn stop(self) {
        self.stop.cancel();
        self.worker.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permuted_and_repeated_streams_give_the_same_reads() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    for case in 0..size("C4_CASES", 3) {
        let stream: Vec<String> = (0..random.random_range(10..40)).map(|_| random_record(&mut random).to_string()).collect();
        let straight = RunningPipeline::start().await;
        append_records(&straight.pipeline, &stream.iter().map(|record| (0, record.clone())).collect::<Vec<_>>()).await;
        straight.pipeline.caught_up().await;
        let expected = straight.all_reads().await;
        straight.stop().await;
        assert!(expected[1].len() > 1_000, "seed {seed} case {case}: the reads contain too little data");

        let shaken = RunningPipeline::start().await;
        let pipeline = &shaken.pipeline;
        let mut records: Vec<(i32, String)> =
            (0..3).flat_map(|_| stream.clone()).map(|record| (random.random_range(0..PARTITIONS), record)).collect();
        records.shuffle(&mut random);
        let mut rest = records.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(random.random_range(1..=rest.len()));
            append_records(pipeline, now).await;
            if random.random_bool(0.5) {
                // Repeats then occur both within a block and across blocks.
                pipeline.caught_up().await;
            }
            rest = later;
        }
        pipeline.caught_up().await;
        assert!(shaken.all_reads().await == expected, "seed {seed} case {case}: permuted and tripled");
        let (code, _, stderr) = pipeline.command(&["replay", "--expect-unchanged"]).await;
        assert_eq!(code, Some(0), "seed {seed} case {case}: {stderr}");
        assert!(shaken.all_reads().await == expected, "seed {seed} case {case}: replayed");
        for table in ["events", "reports"] {
            pipeline.clickhouse(&format!("OPTIMIZE TABLE {table} FINAL")).await;
        }
        assert!(shaken.all_reads().await == expected, "seed {seed} case {case}: merged");
        shaken.stop().await;
    }
}

/// Many concurrent fetches, each reported by random roles in random order, some reported twice, with months between them.
#[tokio::test(flavor = "multi_thread")]
async fn fetch_counts_once_in_total_and_once_per_role() {
    const AT_ONCE: usize = 25;
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let RunningPipeline { pipeline, owner, stop, worker } = RunningPipeline::start().await;
    let mut seen: Vec<[bool; ROLES.len()]> = Vec::new();
    for round in 0..size("C5_CASES", AT_ONCE).div_ceil(AT_ONCE) {
        // For each fetch, the roles that have not yet reported it. An organization can report in any role.
        let mut reports: Vec<Vec<usize>> =
            (0..AT_ONCE).map(|_| (0..random.random_range(1..8)).map(|_| random.random_range(0..ROLES.len())).collect()).collect();
        seen.extend([[false; ROLES.len()]; AT_ONCE]);
        while reports.iter().any(|reports| !reports.is_empty()) {
            let mut records = Vec::new();
            for (fetch, role) in reports.iter_mut().enumerate().filter_map(|(n, reports)| Some((n, reports.pop()?))) {
                seen[round * AT_ONCE + fetch][role] = true;
                let key = (round * AT_ONCE + fetch) as u128;
                let org = random.random_range(1..4);
                let event = json!({
                    "own_key": own_key(org, key), "correlation_key": format!("{key:032x}"),
                    "type": "content_retrieved", "source_role": ROLES[role],
                    "at_ms": NEW_YEAR_MS + random.random_range(-MONTHS_MS..MONTHS_MS), "site": "com.example",
                    "content_url": "https://example.com/", "content_telemetry_id": Uuid::from_u128(key),
                });
                let received_at_us = (NEW_YEAR_MS + random.random_range(0..MONTHS_MS)) * 1_000;
                records.push((random.random_range(0..PARTITIONS), record(org, received_at_us, &[event]).to_string()));
            }
            append_records(&pipeline, &records).await;
            pipeline.caught_up().await;
            let trace = format!("seed {seed} round {round} {seen:?}");
            let summary: Summary = serde_json::from_str(&pipeline.read(&owner.key, READS[0]).await).unwrap();
            assert_eq!(summary.total_events, seen.len() as u64, "{trace}");
            for (role, name) in ROLES.iter().enumerate() {
                let expected = seen.iter().filter(|seen| seen[role]).count() as u64;
                assert_eq!(crate::summary_poller::seen_by(&summary, name), expected, "{name}: {trace}");
            }
        }
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}
