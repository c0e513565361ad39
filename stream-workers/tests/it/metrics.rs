//! Reads a process's Prometheus metrics as text.

use service_kit::testing::{client, eventually};
use std::str::FromStr;

/// Returns all metrics; `None` if the process doesn't respond.
pub(crate) async fn text(address: &str) -> Option<String> {
    client().get(format!("http://{address}/metrics")).send().await.ok()?.text().await.ok()
}

/// Returns a series by name and labels; `None` if the process doesn't respond or doesn't have it.
pub(crate) async fn series<T: FromStr>(address: &str, name: &str) -> Option<T> {
    text(address).await?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits until the metrics contain all of these lines.
pub(crate) async fn wait_for_lines(address: &str, expected: &[impl AsRef<str>]) {
    let lines: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    eventually(&format!("the metrics contain {lines:?}"), || async {
        let text = text(address).await?;
        lines.iter().all(|line| text.lines().any(|found| found == *line)).then_some(())
    })
    .await;
}
