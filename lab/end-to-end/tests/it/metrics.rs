//! The Prometheus endpoint exposes no text from callers (threat I9).

use crate::demo::{Demo, DemoApp};
use serde_json::{Value, json};
use service_kit::testing::eventually;
use std::collections::BTreeSet;

/// Returns every series with its name and labels.
async fn series(demo: &DemoApp) -> BTreeSet<String> {
    let text = demo.client.get(demo.env("METRICS_URL")).send().await.unwrap().text().await.unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

fn batch(first: usize) -> Value {
    let event = |n: usize| {
        json!({"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge", "id": format!("e{n}"),
            "content_url": format!("https://host-{n}.test/page-{n}")})
    };
    json!({"agent_id": format!("agent-{first}"), "events": (first..first + 1_000).map(event).collect::<Vec<_>>()})
}

#[tokio::test]
async fn i9_domains_do_not_add_metric_series() {
    let demo = Demo::start().await;
    for number in 0..2 {
        assert_eq!(demo.report(demo.env("NETWORK_KEY"), &batch(number * 1_000)).await.status, 201);
    }
    let answer = demo.client.get(demo.url("/resolve?domain=warm.test")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let before = eventually("the worker has measured all that it does", || async {
        let shown = series(&demo).await;
        shown.iter().any(|name| name.starts_with("worker_event_age_seconds_bucket")).then_some(shown)
    })
    .await;
    assert!(before.iter().any(|name| name.contains("accepted")), "{before:?}");
    for number in 2..12 {
        assert_eq!(demo.report(demo.env("NETWORK_KEY"), &batch(number * 1_000)).await.status, 201);
    }
    let planted: Vec<String> =
        series(&demo).await.into_iter().filter(|name| name.contains("host-") || name.contains("agent-")).collect();
    assert!(planted.is_empty(), "{planted:?}");
    // Series that are measured for the first time may be added in between.
    let grown = series(&demo).await.len() - before.len();
    assert!(grown < 60, "{grown} new series for 10,000 new domains");
    let on_the_service = demo.client.get(demo.url("/metrics")).send().await.unwrap();
    assert_eq!(on_the_service.status(), 404, "metrics must have a separate listener");
}
