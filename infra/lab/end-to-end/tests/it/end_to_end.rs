//! C5 and invariant 3 through the front door: one retrieval, three observers, any order.

use crate::demo::{Demo, retrieval};
use crate::watch::{Watch, seen_by};
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use service_kit::testing::{TestLog, eventually, random_seed};

#[tokio::test(flavor = "multi_thread")]
async fn counting_does_not_depend_on_luck() {
    let demo = Demo::start().await;
    let seed = random_seed();
    let mut reports: Vec<_> = [("edge", "NETWORK_KEY"), ("origin", "OWNER_KEY"), ("agent", "AGENT_KEY")]
        .into_iter()
        .flat_map(|report| [report; 2])
        .collect();
    reports.shuffle(&mut StdRng::seed_from_u64(seed));

    let owner = demo.env("OWNER_KEY").to_owned();
    let watch = Watch::start(demo.url("/content-owners/summary"), owner.clone(), 1);
    watch.sees(1).await;
    for (role, key) in &reports {
        let accepted = demo.post(demo.env(key), &retrieval(role, "3f0c2a36-5a61-4f6b-8f4e-52f3a4f0d001")).await;
        assert_eq!(accepted.status, 201, "{role}: {}", accepted.body);
        watch.sees(1).await;
    }
    eventually("every role is counted", || async {
        let body = demo.get(&owner, "/content-owners/summary").await.body;
        (body["events_by_source"].as_array()?.len() == 3).then_some(())
    })
    .await;
    TestLog::connect(&demo.stores.kafka).caught_up(&demo.stores.clickhouse).await;
    watch.sees(20).await;

    let summary = watch.finish().await;
    assert_eq!(summary.total_events, 1, "seed {seed}: {summary:?}");
    for (role, _) in reports {
        assert_eq!(seen_by(&summary, role), 1, "seed {seed}: {summary:?}");
    }
    assert_eq!((summary.total_sessions, summary.agents.len()), (1, 1), "seed {seed}: {summary:?}");
    let stranger = demo.get(demo.env("OTHER_OWNER_KEY"), "/content-owners/summary").await;
    assert_eq!(stranger.body["total_events"], 0, "another owner sees none of it");
}
