//! Requests for parts of a list, and the parts of responses that are checked.

use crate::workload::TYPES;
use schemas::paged_responses::{FunnelItem, UrlMetric};
use schemas::summary_responses::TypeCount;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Selects a page of any list.
pub(super) struct PageRequest<'a> {
    pub(super) offset: u64,
    pub(super) limit: u64,
    pub(super) only: &'a str,
}

/// The parts of a session's document that are checked.
#[derive(Deserialize)]
pub(super) struct Document {
    #[serde(flatten)]
    of_the_standard: DocumentEvents,
    #[serde(default)]
    extensions: DocumentEvents,
}

#[derive(Default, Deserialize)]
struct DocumentEvents {
    #[serde(default)]
    events: Vec<DocumentEvent>,
}

#[derive(Deserialize)]
struct DocumentEvent {
    id: String,
}

impl Document {
    /// Returns the ids of all events, including those in `extensions`.
    pub(super) fn ids(&self) -> Vec<&str> {
        self.of_the_standard.events.iter().chain(&self.extensions.events).map(|event| event.id.as_str()).collect()
    }
}

impl PageRequest<'_> {
    pub(super) fn query_path(&self, path: &str) -> String {
        format!("{path}limit={}&offset={}{}", self.limit, self.offset, self.only)
    }
}

/// Returns the funnel's steps in the order of [`TYPES`].
pub(super) fn steps_of(item: &FunnelItem) -> [u64; TYPES.len()] {
    [item.retrieved, item.grounded, item.cited, item.presented, item.engaged]
}

pub(super) fn as_url(item: &FunnelItem) -> Option<UrlMetric> {
    let of_type = |(event_type, count): (&&str, u64)| TypeCount { event_type: (*event_type).to_owned(), count, other: false };
    Some(UrlMetric {
        content_url: item.content_url.clone()?,
        platform_id: None,
        platform_name: None,
        agent_id: None,
        bot: None,
        total_events: steps_of(item).into_iter().sum(),
        unique_sessions: 0,
        event_types: TYPES.iter().zip(steps_of(item)).map(of_type).collect(),
        fetched: item.fetched,
        failed: item.failed,
        revalidated: item.revalidated,
        grounded: item.grounded,
        cited: item.cited,
        presented: item.presented,
        engagements: item.engagements,
        visits: item.visits,
        last_seen: String::new(),
    })
}

pub(super) fn lines<T: DeserializeOwned>(body: &[u8]) -> Option<Vec<T>> {
    body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_slice(line).ok()).collect()
}
