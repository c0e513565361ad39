//! Kills or stops `telemetry all`, and restarts it with the same stores.

use crate::demo::{Demo, DemoApp, retrieval, total_events, wait_for_events};
use service_kit::databases;
use service_kit::testing::eventually;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn killed_service_keeps_keys_and_events() {
    let mut demo = Demo::start().await;
    for role in ["agent", "edge"] {
        let key = if role == "agent" { "AGENT_KEY" } else { "NETWORK_KEY" };
        assert_eq!(demo.report(demo.env(key), &retrieval(role, "one")).await.status, 201);
    }
    wait_for_events(&demo, 1).await;
    // Accepted, but possibly not stored yet when the process is killed.
    assert_eq!(demo.report(demo.env("AGENT_KEY"), &retrieval("agent", "two")).await.status, 201);
    let before = demo.env.clone();
    demo.process.kill_9().await;

    let demo = Demo::start_again(demo).await;
    for (name, value) in &before {
        if !["BASE_URL", "INGEST_URL", "METRICS_URL"].contains(&name.as_str()) {
            assert_eq!(demo.env(name), value, "{name} changed");
        }
    }
    wait_for_events(&demo, 2).await;
}

/// Exit code 0 also means that the shutdown took less than ten seconds, because a longer one exits with another code.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_under_load_does_not_lose_accepted_events() {
    let mut demo = Demo::start().await;
    let accepted = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..4).map(|sender| tokio::spawn(send(sender, target(&demo), Arc::clone(&accepted)))).collect();
    eventually("there is some load", || async { (accepted.load(Ordering::Relaxed) >= 50).then_some(()) }).await;
    assert_eq!(demo.process.terminate().await, Some(0), "stderr:\n{}", demo.process.stderr());
    let mut ids = BTreeSet::new();
    for sender in senders {
        ids.extend(sender.await.unwrap());
    }

    let demo = Demo::start_again(demo).await;
    demo.caught_up().await;
    let clickhouse = databases::clickhouse(&demo.stores.clickhouse).unwrap();
    let visible: Vec<String> = clickhouse.query("SELECT content_telemetry_id FROM reports FINAL").fetch_all().await.unwrap();
    let stored: BTreeSet<String> = visible.iter().cloned().collect();
    let lost: Vec<_> = ids.difference(&stored).collect();
    assert!(lost.is_empty(), "accepted and lost: {lost:?}");
    assert_eq!(total_events(&demo).await, u64::try_from(stored.len()).unwrap(), "events must count once");
    assert_eq!(visible.len(), stored.len(), "events must be stored once");
}

fn target(demo: &DemoApp) -> (reqwest::Client, String, String) {
    (demo.client.clone(), demo.url("/events"), demo.env("AGENT_KEY").to_owned())
}

/// Reports events until the service is gone. Returns the ids of the accepted events.
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
