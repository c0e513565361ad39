//! Polls the summary and checks every response.

use schemas::summary_responses::Summary;
use service_kit::testing::{client, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A task that polls until it is stopped.
pub(crate) struct SummaryPoller {
    polls: Arc<AtomicUsize>,
    stop: CancellationToken,
    task: JoinHandle<Option<Summary>>,
}

impl SummaryPoller {
    /// Polls `url` with `key`. Checks that no count exceeds `most` or decreases, and that all counts agree.
    pub(crate) fn start(url: String, key: String, most: u64) -> Self {
        let (polls, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let (counted, stopped) = (Arc::clone(&polls), stop.clone());
        let task = tokio::spawn(async move {
            let client = client();
            let mut before = None;
            while !stopped.is_cancelled() {
                let answer = client.get(&url).header("x-api-key", &key).send().await.expect("the summary is unavailable");
                assert_eq!(answer.status(), 200, "the summary failed");
                let summary: Summary = answer.json().await.expect("invalid summary");
                check(&summary, before.as_ref(), most);
                before = Some(summary);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            before
        });
        Self { polls, stop, task }
    }

    /// Waits for this many polls that begin after the call.
    pub(crate) async fn wait_for_polls(&self, polls: usize) {
        let enough = self.polls.load(Ordering::Relaxed) + polls + 1;
        eventually("the summary is polled", || async {
            (self.polls.load(Ordering::Relaxed) >= enough || self.task.is_finished()).then_some(())
        })
        .await;
    }

    /// Stops polling, and returns the last response.
    pub(crate) async fn finish(self) -> Summary {
        self.wait_for_polls(1).await;
        self.stop.cancel();
        self.task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).expect("no poll")
    }
}

fn check(summary: &Summary, before: Option<&Summary>, most: u64) {
    let by_type: u64 = summary.events_by_type.iter().map(|of| of.count).sum();
    assert_eq!(by_type, summary.total_events, "events_by_type does not add up to total_events: {summary:?}");
    assert!(summary.total_events <= most, "more than were reported: {summary:?}");
    assert!(summary.events_by_source.iter().all(|of| of.count <= summary.total_events), "a role saw more: {summary:?}");
    let Some(before) = before else { return };
    assert!(summary.total_events >= before.total_events, "a count decreased: {before:?} {summary:?}");
    for was in &before.events_by_source {
        assert!(seen_by(summary, &was.source_role) >= was.count, "a count decreased: {before:?} {summary:?}");
    }
}

/// Returns how many events a role saw.
pub(crate) fn seen_by(summary: &Summary, role: &str) -> u64 {
    summary.events_by_source.iter().find(|of| of.source_role == role).map_or(0, |of| of.count)
}
