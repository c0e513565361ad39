//! `telemetry all` is killed or stopped and started again on the same stores.

use crate::demo::{Demo, retrieval};
use service_kit::stores;
use service_kit::testing::{TestLog, eventually};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_service_comes_back_with_its_keys_and_its_counts() {
    let mut demo = Demo::start().await;
    for role in ["agent", "edge"] {
        let key = if role == "agent" { "AGENT_KEY" } else { "NETWORK_KEY" };
        assert_eq!(demo.post(demo.env(key), &retrieval(role, "one")).await.status, 201);
    }
    demo.counts(1).await;
    // Accepted, and perhaps not yet stored when the process dies.
    assert_eq!(demo.post(demo.env("AGENT_KEY"), &retrieval("agent", "two")).await.status, 201);
    let before = demo.env.clone();
    demo.process.kill_9().await;

    let demo = demo.start_again().await;
    for (name, value) in &before {
        if !["BASE_URL", "INGEST_URL", "METRICS_URL"].contains(&name.as_str()) {
            assert_eq!(demo.env(name), value, "{name} is kept");
        }
    }
    demo.counts(2).await;
    TestLog::connect(&demo.stores.kafka).caught_up(&demo.stores.clickhouse).await;
    assert_eq!(demo.total_events().await, Some(2));
}

/// That the exit code is 0 also says that it took less than ten seconds: a slower drain gives up with another code.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_loses_nothing_that_was_accepted() {
    let mut demo = Demo::start().await;
    let accepted = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..4).map(|sender| tokio::spawn(send(sender, target(&demo), Arc::clone(&accepted)))).collect();
    eventually("there is some load", || async { (accepted.load(Ordering::Relaxed) >= 50).then_some(()) }).await;
    assert_eq!(demo.process.terminate().await, Some(0), "it said:\n{}", demo.process.stderr());
    let mut ids = BTreeSet::new();
    for sender in senders {
        ids.extend(sender.await.unwrap());
    }

    let demo = demo.start_again().await;
    TestLog::connect(&demo.stores.kafka).caught_up(&demo.stores.clickhouse).await;
    let clickhouse = stores::clickhouse(&demo.stores.clickhouse).unwrap();
    let visible: Vec<String> = clickhouse.query("SELECT content_telemetry_id FROM reports FINAL").fetch_all().await.unwrap();
    let stored: BTreeSet<String> = visible.iter().cloned().collect();
    let lost: Vec<_> = ids.difference(&stored).collect();
    assert!(lost.is_empty(), "accepted and lost: {lost:?}");
    assert_eq!(demo.total_events().await, Some(u64::try_from(stored.len()).unwrap()), "each is counted once");
    assert_eq!(visible.len(), stored.len(), "each is stored once");
}

fn target(demo: &Demo) -> (reqwest::Client, String, String) {
    (demo.client.clone(), demo.url("/events"), demo.env("AGENT_KEY").to_owned())
}

/// Reports one event after the other until the service is gone; returns the ids of those that were accepted.
async fn send(sender: usize, (client, url, key): (reqwest::Client, String, String), accepted: Arc<AtomicUsize>) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0.. {
        let id = format!("sender-{sender}-{number}");
        let request = client.post(&url).header("x-api-key", &key).header("content-type", "application/json");
        let Ok(response) = request.body(retrieval("agent", &id).to_string()).send().await else { break };
        if response.status() == 201 {
            accepted.fetch_add(1, Ordering::Relaxed);
            ids.push(id);
        }
    }
    ids
}
