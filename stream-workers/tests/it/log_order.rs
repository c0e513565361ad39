//! C4, invariants 3 and 10: order, repeats and a replay from the beginning have no effect.

use crate::test_app::{NEW_YEAR_US, PARTITIONS, Workers, record};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use service_kit::testing::random_seed;

const RECORDS: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn replaying_the_log_does_not_change_rows() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut stream: Vec<Value> = (0..RECORDS).map(|n| random_record(n, &mut random)).collect();
    stream.shuffle(&mut random);

    let in_order = Workers::start().await;
    in_order.put(&stream.iter().map(|record| (0, record.clone())).collect::<Vec<_>>()).await;
    in_order.process_all().await;
    let expected = in_order.table().await;
    assert!(expected.len() > 50, "seed {seed}: the stream is too small");

    let shaken = Workers::start().await;
    let mut shuffled: Vec<(i32, Value)> = (0..3).flat_map(|_| &stream).map(|record| (0, record.clone())).collect();
    shuffled.shuffle(&mut random);
    for (partition, _) in &mut shuffled {
        *partition = random.random_range(0..PARTITIONS);
    }
    let worker = shaken.worker();
    let mut rest = shuffled.as_slice();
    while !rest.is_empty() {
        // Put them in portions, so that repeats occur within blocks and across them.
        let (now, later) = rest.split_at(random.random_range(1..=rest.len().min(200)));
        shaken.put(now).await;
        rest = later;
    }
    shaken.caught_up().await;
    worker.stop().await;
    assert_eq!(shaken.table().await, expected, "seed {seed}: permuted and three times");

    for table in ["events", "reports"] {
        shaken.clickhouse.query(&format!("OPTIMIZE TABLE {table} FINAL")).execute().await.unwrap();
    }
    assert_eq!(shaken.table().await, expected, "seed {seed}: after merging all parts");
    shaken.clickhouse.query("TRUNCATE TABLE progress").execute().await.unwrap();
    shaken.process_all().await;
    assert_eq!(shaken.table().await, expected, "seed {seed}: read again from the beginning");
}

/// Returns a record with few keys, roles and organizations, so that most records repeat others.
fn random_record(n: usize, random: &mut StdRng) -> Value {
    let received_at_us = NEW_YEAR_US + i64::try_from(n).unwrap();
    let events: Vec<Value> = (0..random.random_range(1..6))
        .map(|_| {
            let key: u128 = random.random_range(0..40);
            let role = ["agent", "edge", "origin", "index"][random.random_range(0..4)];
            json!({
                "own_key": format!("{key:032x}"), "correlation_key": key.is_multiple_of(2).then(|| format!("{key:032x}")),
                "type": "content_retrieved",
                "at_ms": NEW_YEAR_US / 1_000 + random.random_range(-86_400_000..86_400_000), "source_role": role,
                "site": (if key.is_multiple_of(3) { "com.example" } else { "com.example.www" }), "agent_id": format!("agent-{}", random.random_range(0..5)),
                "content_url": format!("https://example.com/{}", random.random_range(0..5)),
                "data": {"n": random.random_range(0..1_000)},
            })
        })
        .collect();
    record(random.random_range(1..4), received_at_us, &events)
}
