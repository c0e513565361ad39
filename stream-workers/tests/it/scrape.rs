//! What a process tells Prometheus, read as text.
//!
//! Must not judge: what a figure has to be is the test's.

use service_kit::testing::{client, eventually};
use std::str::FromStr;

/// All that it says; nothing while it does not answer.
pub(crate) async fn text(address: &str) -> Option<String> {
    client().get(format!("http://{address}/metrics")).send().await.ok()?.text().await.ok()
}

/// A series by its name and labels; nothing while it does not answer, or has none of it.
pub(crate) async fn series<T: FromStr>(address: &str, name: &str) -> Option<T> {
    text(address).await?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Waits until it says each of these lines.
pub(crate) async fn says(address: &str, expected: &[impl AsRef<str>]) {
    let lines: Vec<&str> = expected.iter().map(AsRef::as_ref).collect();
    eventually(&format!("the metrics say {lines:?}"), || async {
        let text = text(address).await?;
        lines.iter().all(|line| text.lines().any(|found| found == *line)).then_some(())
    })
    .await;
}
