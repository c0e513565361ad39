//! Prometheus' text format, as far as known figures need it.
//!
//! Must keep nothing that a text names itself: names and labels are compared with what is known, and forgotten.

use super::figures::{FIGURES, SPILL_QUOTA};
use service_kit::measures::common;
use std::collections::BTreeMap;

const DEPENDENCY_UP: &str = "dependency_up";

/// What one process said.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Known metrics; of several series, their sum.
    pub(super) values: BTreeMap<&'static str, f64>,
    pub(super) dependencies: BTreeMap<&'static str, bool>,
}

impl Reading {
    /// Of a text without anything that every process of ours shows, none.
    pub(super) fn of(text: &str) -> Option<Self> {
        let (mut reading, mut is_ours) = (Self::default(), false);
        for (name, labels, value) in text.lines().filter_map(sample) {
            is_ours |= common::MEASURES.iter().any(|measure| measure.name == name);
            reading.take(name, labels, value);
        }
        is_ours.then_some(reading)
    }

    /// The processes that it has figures of; several in the all-in-one.
    pub(super) fn processes(&self) -> Vec<&'static str> {
        let shown = FIGURES.iter().filter(|figure| self.values.contains_key(figure.metric));
        let mut processes: Vec<_> = shown.map(|figure| figure.process).collect();
        processes.dedup();
        processes
    }

    fn take(&mut self, name: &str, labels: &str, value: f64) {
        if name == DEPENDENCY_UP {
            let known =
                common::MEASURES.iter().filter(|measure| measure.name == DEPENDENCY_UP).flat_map(|measure| measure.labels);
            let named = known.flat_map(|by| by.values.iter().map(|value| (format!("{}=\"{value}\"", by.label), *value)));
            self.dependencies.extend(named.filter(|(label, _)| label == labels).map(|(_, dependency)| (dependency, value > 0.0)));
        }
        let known = FIGURES.iter().map(|figure| figure.metric).chain([SPILL_QUOTA]).find(|metric| *metric == name);
        if let Some(metric) = known {
            *self.values.entry(metric).or_default() += value;
        }
    }
}

/// The name, the labels and the value of a line; none of a comment, and of what is no number or below zero.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (series, rest) = match line.rsplit_once('}') {
        Some((series, rest)) => (series, rest),
        None => line.split_once(' ')?,
    };
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((name, labels, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_series_are_summed_and_what_is_not_known_is_not_there() {
        let text = "# TYPE lookups_stale_total counter\nlookups_stale_total 0\n\
            gateway_spill_set_aside_total{what=\"damaged\"} 2\ngateway_spill_set_aside_total{what=\"a }\"} 3 1700000000\n\
            worker_lag_seconds NaN\nworker_index_keys -1\nworker_active\nsurprise{a=\"b\"} 7\n\
            dependency_up{dependency=\"kafka\"} 0\ndependency_up{dependency=\"<b>\"} 1\n";
        let reading = Reading::of(text).unwrap();
        assert_eq!(reading.values, BTreeMap::from([("gateway_spill_set_aside_total", 5.0)]));
        assert_eq!(reading.dependencies, BTreeMap::from([("kafka", false)]));
        assert_eq!(reading.processes(), ["ingest-gateway"]);
        assert!(Reading::of("<html>worker_lag_seconds 3</html>\nworker_lag_seconds 3\n").is_none(), "no process of ours");
    }
}
