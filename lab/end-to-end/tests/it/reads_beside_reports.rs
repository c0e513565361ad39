//! R18: expensive reads don't slow down reports.

use crate::demo::{Demo, retrieval, wait_for_events};
use futures::future::join_all;
use service_kit::testing::client;

#[tokio::test(flavor = "multi_thread")]
async fn r18_reports_succeed_during_expensive_reads() {
    let demo = Demo::start_with(&[("TELEMETRY_READS_PER_KEY", "4".to_owned())]).await;
    for number in 0..20 {
        let batch = retrieval("edge", &format!("before-{number}"));
        assert_eq!(demo.report(demo.env("NETWORK_KEY"), &batch).await.status, 201);
    }
    wait_for_events(&demo, 20).await;
    let (http, url) = (client(), demo.url("/content-owners/events?since=2026-01-01&until=2026-12-31&limit=1000"));
    let reads = join_all((0..100).map(async |_| {
        let read = http.get(&url).header("x-api-key", demo.env("OWNER_KEY")).send().await.unwrap();
        (read.status().as_u16(), read.headers().contains_key("retry-after"))
    }));
    let reports = async {
        for number in 0..20 {
            let batch = retrieval("edge", &format!("meanwhile-{number}"));
            assert_eq!(demo.report(demo.env("NETWORK_KEY"), &batch).await.status, 201, "report {number}");
        }
    };
    let (reads, ()) = tokio::join!(reads, reports);
    // The stores may be overloaded on a busy machine. That response also has `Retry-After`.
    assert!(reads.iter().all(|read| matches!(read, (200, false) | (429 | 503, true))), "{reads:?}");
    assert!(reads.iter().any(|(status, _)| *status == 200), "{reads:?}");
    wait_for_events(&demo, 40).await;
}
