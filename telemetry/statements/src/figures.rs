//! The figures of lines and totals.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A measure's events by evidence tier. `signed` is part of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tiers {
    pub(crate) claimed: i64,
    pub(crate) corroborated: i64,
    pub(crate) observed: i64,
    pub(crate) unknown: i64,
    pub(crate) signed: i64,
}

/// Metrics from COUNTER's best practice for generative and agentic AI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counter {
    #[serde(rename = "AI_Responses_Generated")]
    pub(crate) responses: i64,
    #[serde(rename = "Total_AI_Investigations")]
    pub(crate) investigations: i64,
    #[serde(rename = "Total_AI_Requests")]
    pub(crate) requests: i64,
    #[serde(rename = "Unique_AI_Investigations")]
    pub(crate) unique_investigations: i64,
    #[serde(rename = "Unique_AI_Requests")]
    pub(crate) unique_requests: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) counter: Counter,
    pub(crate) covered_hours: i64,
    pub(crate) events: BTreeMap<String, Tiers>,
    pub(crate) sessions: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) hours: i64,
}

impl Figures {
    /// Returns each figure by its path, such as `events.fetch.claimed`.
    pub(crate) fn by_path(&self) -> BTreeMap<String, i64> {
        let Counter { responses, investigations, requests, unique_investigations, unique_requests } = self.counter;
        let mut figures = BTreeMap::from([
            ("counter.AI_Responses_Generated".to_owned(), responses),
            ("counter.Total_AI_Investigations".to_owned(), investigations),
            ("counter.Total_AI_Requests".to_owned(), requests),
            ("counter.Unique_AI_Investigations".to_owned(), unique_investigations),
            ("counter.Unique_AI_Requests".to_owned(), unique_requests),
            ("covered_hours".to_owned(), self.covered_hours),
            ("sessions".to_owned(), self.sessions),
        ]);
        for (measure, tiers) in &self.events {
            let Tiers { claimed, corroborated, observed, unknown, signed } = *tiers;
            let tiers = [
                ("claimed", claimed),
                ("corroborated", corroborated),
                ("observed", observed),
                ("unknown", unknown),
                ("signed", signed),
            ];
            figures.extend(tiers.map(|(tier, events)| (format!("events.{measure}.{tier}"), events)));
        }
        figures
    }
}

impl Totals {
    pub(crate) fn by_path(&self) -> BTreeMap<String, i64> {
        let mut figures = self.figures.by_path();
        figures.insert("hours".to_owned(), self.hours);
        figures
    }
}
