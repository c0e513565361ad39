//! For operators: how the pipeline fares, as its processes say now.

use super::Behind;
use crate::State;
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::numbers::{Bytes, Count, Millis, Time};
use crate::session::SignedIn;
use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

const PIPELINE: &str = "/api/v1/identity/operator/pipeline";

#[derive(Deserialize)]
struct Pipeline {
    asked_at: Time,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    address: String,
    is_reachable: bool,
    problem: Option<Problem>,
    dependencies: BTreeMap<String, bool>,
    figures: Vec<Figure>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Problem {
    NoConnection,
    NoAnswerInTime,
    BadStatus,
    TooLarge,
    NotMetrics,
}

#[derive(Deserialize)]
struct Figure {
    metric: String,
    process: String,
    says: String,
    unit: String,
    value: Option<f64>,
    limit: Option<f64>,
    is_over: Option<bool>,
    alert: Option<String>,
}

/// A figure in its unit.
enum Shown {
    Size(Bytes),
    Lasting(Millis),
    Number(Count),
}

impl HtmlSafe for Shown {}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Size(size) => size.fmt(f),
            Self::Lasting(millis) => millis.fmt(f),
            Self::Number(count) => count.fmt(f),
        }
    }
}

/// The figures of one process behind an address.
struct Process<'a> {
    name: &'a str,
    figures: Vec<&'a Figure>,
}

impl Process<'_> {
    /// Whether its figures are of webhooks, which have a page of their own.
    fn delivers_webhooks(&self) -> bool {
        self.figures.iter().any(|figure| figure.metric.starts_with("webhook_"))
    }
}

/// The share of a pipeline's figures that is worth a sentence.
#[derive(Default)]
struct Standing {
    away: usize,
    over: usize,
    lacking: usize,
    /// Counters that wake somebody up when they grow, and are not zero.
    grown: usize,
}

#[derive(Template)]
#[template(path = "pipeline.html")]
pub(crate) struct PipelinePage {
    frame: Frame,
    pipeline: Pipeline,
    behind: Behind,
}

/// `GET /console/operator/pipeline`
pub(crate) async fn show(Shared(state): Shared<Arc<State>>, person: SignedIn) -> Result<Page<PipelinePage>, Failure> {
    let pipeline = person.api.get(PIPELINE, &Vec::new()).await?;
    let behind = Behind::of_operator(&state, "pipeline", PIPELINE, "");
    Ok(Page(PipelinePage { frame: person.frame("Pipeline"), pipeline, behind }))
}

impl Problem {
    fn told(self) -> &'static str {
        match self {
            Self::NoConnection => "Connection failed. Check that the process runs at this address.",
            Self::NoAnswerInTime => "No complete response within two seconds.",
            Self::BadStatus => "The status code isn\u{2019}t 200.",
            Self::TooLarge => "The response is too large.",
            Self::NotMetrics => "The response doesn\u{2019}t contain metrics of this service.",
        }
    }
}

impl Target {
    fn processes(&self) -> Vec<Process<'_>> {
        let chunks = self.figures.chunk_by(|one, next| one.process == next.process);
        chunks.filter_map(|own| Some(Process { name: &own.first()?.process, figures: own.iter().collect() })).collect()
    }

    fn reason(&self) -> &'static str {
        self.problem.map_or("Unreachable.", Problem::told)
    }
}

impl Figure {
    fn shown(&self, value: f64) -> Shown {
        match self.unit.as_str() {
            "bytes" => Shown::Size(Bytes(whole(value))),
            "seconds" => Shown::Lasting(Millis(whole(value * 1_000.0))),
            _ => Shown::Number(Count(whole(value))),
        }
    }

    fn value_shown(&self) -> Option<Shown> {
        self.value.map(|value| self.shown(value))
    }

    fn limit_shown(&self) -> Option<Shown> {
        self.limit.map(|limit| self.shown(limit))
    }

    fn is_over_limit(&self) -> bool {
        self.is_over == Some(true)
    }

    fn has_grown(&self) -> bool {
        self.alert.is_some() && self.metric.ends_with("_total") && self.value.is_some_and(|value| value > 0.0)
    }
}

fn numbered(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

impl Pipeline {
    fn standing(&self) -> Standing {
        let figures = || self.targets.iter().flat_map(|target| &target.figures);
        Standing {
            away: self.targets.iter().filter(|target| !target.is_reachable).count(),
            over: figures().filter(|figure| figure.is_over_limit()).count(),
            lacking: self.targets.iter().filter(|target| target.dependencies.values().any(|is_up| !is_up)).count(),
            grown: figures().filter(|figure| figure.has_grown()).count(),
        }
    }

    fn is_well(&self) -> bool {
        let Standing { away, over, lacking, .. } = self.standing();
        away == 0 && over == 0 && lacking == 0
    }

    /// One sentence for all.
    fn told(&self) -> String {
        let Standing { away, over, lacking, grown } = self.standing();
        let all = numbered(self.targets.len(), "address", "addresses");
        let answer = match away {
            0 => format!("{all} reachable"),
            _ => format!("{away} of {all} unreachable"),
        };
        let over = match over {
            0 => "no metric over its limit".to_owned(),
            _ => format!("{} over the limit", numbered(over, "metric", "metrics")),
        };
        let mut told = format!("{answer}; {over}");
        if lacking > 0 {
            told += &format!("; {} with an unreachable dependency", numbered(lacking, "address", "addresses"));
        }
        if grown > 0 {
            told += &format!("; {} increased since the process started", numbered(grown, "alert counter", "alert counters"));
        }
        told + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn summary_counts_unreachable_over_limit_and_increased() {
        let figure = |metric: &str, value: Option<f64>, is_over: Option<bool>| json!({"metric": metric, "process": "p", "says": "", "unit": "seconds", "value": value, "limit": 1.0, "is_over": is_over, "alert": "A"});
        let target = |is_reachable: bool, is_up: bool, figures: serde_json::Value| json!({"address": "a", "is_reachable": is_reachable, "problem": null, "dependencies": {"kafka": is_up}, "figures": figures});
        let told = |targets: serde_json::Value| {
            let pipeline: Pipeline =
                serde_json::from_value(json!({"asked_at": "2026-11-01T10:00:00Z", "targets": targets})).unwrap();
            (pipeline.is_well(), pipeline.told())
        };
        let well = target(true, true, json!([figure("a", Some(0.5), Some(false)), figure("b", None, None)]));
        assert_eq!(told(json!([well])), (true, "1 address reachable; no metric over its limit.".to_owned()));
        let bad = target(true, false, json!([figure("a", Some(2.0), Some(true)), figure("b_total", Some(2.0), None)]));
        let (is_well, said) = told(json!([bad, target(false, true, json!([]))]));
        assert!(
            !is_well
                && said
                    == "1 of 2 addresses unreachable; 1 metric over the limit; 1 address with an unreachable dependency; 1 alert counter increased since the process started.",
            "{said}"
        );
    }
}
