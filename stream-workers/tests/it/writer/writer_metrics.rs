//! A writer's metrics before its first block, and after it was replaced.

use super::WriterFixture;
use crate::metrics;
use crate::test_app::{NEW_YEAR_US, event, record};
use service_kit::testing::free_address;

const RECORDS: u128 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn index_metrics_follow_the_active_writer() {
    let (mut world, metrics) = (WriterFixture::new().await, free_address().to_string());
    let records: Vec<_> = (0..RECORDS).map(|key| (0, record(1, NEW_YEAR_US, &[event(key)]))).collect();
    world.put(&records).await;
    let mut former = world.writer();
    world.is_stored().await;
    former.kill_9().await;
    let writer = world.writer_with([("TELEMETRY_METRICS_LISTEN", metrics.clone())]);
    // This writer has stored nothing yet.
    metrics::wait_for_lines(&metrics, &["worker_active 1", "worker_index_keys 3", "worker_parts_of_month 1"]).await;
    writer.pause();
    let _successor = world.writer();
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(RECORDS)]))]).await;
    world.is_stored().await;
    writer.resume();
    let figures = ["lag_seconds", "index_keys", "index_bytes", "parts_of_month", "duplicate_keys", "active"];
    metrics::wait_for_lines(&metrics, &figures.map(|figure| format!("worker_{figure} 0"))).await;
}
