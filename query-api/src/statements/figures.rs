//! Figures of a statement's lines and totals. Members are in canonical order (RFC 8785).

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A measure's events by evidence tier. `signed` is part of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tiers {
    pub(crate) claimed: u64,
    pub(crate) corroborated: u64,
    pub(crate) observed: u64,
    pub(crate) signed: u64,
    pub(crate) unknown: u64,
}

/// Metrics of COUNTER.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counter {
    #[serde(rename = "AI_Responses_Generated")]
    pub(crate) responses: u64,
    #[serde(rename = "Total_AI_Investigations")]
    pub(crate) investigations: u64,
    #[serde(rename = "Total_AI_Requests")]
    pub(crate) requests: u64,
    #[serde(rename = "Unique_AI_Investigations")]
    pub(crate) unique_investigations: u64,
    #[serde(rename = "Unique_AI_Requests")]
    pub(crate) unique_requests: u64,
}

/// Name of a measure. Sorted like a member of canonical JSON: by UTF-16.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Measure(pub(crate) String);

impl Ord for Measure {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.encode_utf16().cmp(other.0.encode_utf16())
    }
}

impl PartialOrd for Measure {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(crate) type Events = BTreeMap<Measure, Tiers>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) content: String,
    pub(crate) counter: Counter,
    pub(crate) covered_hours: u64,
    pub(crate) events: Events,
    pub(crate) host: String,
    pub(crate) license: String,
    pub(crate) sessions: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) counter: Counter,
    pub(crate) covered_hours: u64,
    pub(crate) events: Events,
    pub(crate) hours: u64,
    pub(crate) sessions: u64,
}

impl Tiers {
    pub(crate) fn by_name(&self) -> [(&'static str, u64); 5] {
        let Self { claimed, corroborated, observed, signed, unknown } = *self;
        [("claimed", claimed), ("corroborated", corroborated), ("observed", observed), ("signed", signed), ("unknown", unknown)]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.claimed += other.claimed;
        self.corroborated += other.corroborated;
        self.observed += other.observed;
        self.signed += other.signed;
        self.unknown += other.unknown;
    }
}

impl Counter {
    /// Returns the metrics in canonical order.
    pub(crate) fn by_name(&self) -> [(&'static str, u64); 5] {
        [
            ("AI_Responses_Generated", self.responses),
            ("Total_AI_Investigations", self.investigations),
            ("Total_AI_Requests", self.requests),
            ("Unique_AI_Investigations", self.unique_investigations),
            ("Unique_AI_Requests", self.unique_requests),
        ]
    }
}

impl Line {
    /// Returns host, content and license, by which lines are sorted.
    pub(crate) fn key(&self) -> (&str, &str, &str) {
        (&self.host, &self.content, &self.license)
    }

    /// Returns each figure with its path, such as `events.fetch.claimed`.
    pub(crate) fn by_path(&self) -> BTreeMap<String, u64> {
        let counter = self.counter.by_name().into_iter().map(|(name, figure)| (format!("counter.{name}"), figure));
        let tiers = self.events.iter().flat_map(|(Measure(measure), tiers)| {
            tiers.by_name().map(|(tier, events)| (format!("events.{measure}.{tier}"), events))
        });
        let others = [("covered_hours".to_owned(), self.covered_hours), ("sessions".to_owned(), self.sessions)];
        counter.chain(tiers).chain(others).collect()
    }
}

impl Totals {
    /// Adds the figures that add up over lines.
    pub(crate) fn add(&mut self, line: &Line) {
        for (measure, tiers) in &line.events {
            self.events.entry(measure.clone()).or_default().add(tiers);
        }
        self.counter.investigations += line.counter.investigations;
        self.counter.requests += line.counter.requests;
        self.counter.unique_investigations += line.counter.unique_investigations;
        self.counter.unique_requests += line.counter.unique_requests;
    }
}
