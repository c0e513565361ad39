//! What operators see of the pipeline's health: what the services' own metrics say now (docs/api/identity.md#operators).

mod exposition;
mod figures;
mod targets;

pub use figures::{Alert, FIGURES, Figure, Limit};
pub(crate) use targets::Targets;
pub use targets::{MetricsTarget, PipelineSettings};

use super::Operator;
use crate::State;
use axum::Json;
use axum::extract::State as Shared;
use chrono::{DateTime, Utc};
use exposition::Reading;
use futures::future::join_all;
use serde::Serialize;
use service_kit::http::ApiError;
use std::collections::BTreeMap;
use std::sync::Arc;
use targets::Problem;

/// The pipeline as its processes describe it.
#[derive(Serialize)]
pub(crate) struct Pipeline {
    #[serde(serialize_with = "schemas::instant::serialize")]
    asked_at: DateTime<Utc>,
    /// In the order of the setting.
    targets: Vec<Target>,
}

/// One address, and what it said.
#[derive(Serialize)]
struct Target {
    address: String,
    is_reachable: bool,
    problem: Option<Problem>,
    processes: Vec<&'static str>,
    dependencies: BTreeMap<&'static str, bool>,
    figures: Vec<Value>,
}

/// One figure; what is not known is null.
#[derive(Serialize)]
struct Value {
    metric: &'static str,
    process: &'static str,
    says: &'static str,
    unit: &'static str,
    value: Option<f64>,
    limit: Option<f64>,
    is_over: Option<bool>,
    alert: Option<&'static str>,
}

/// `GET /api/v1/identity/operator/pipeline`
pub(crate) async fn show_pipeline(Shared(state): Shared<Arc<State>>, Operator(_): Operator) -> Result<Json<Pipeline>, ApiError> {
    let processes = state.targets.processes().await;
    let asked = processes.iter().map(async |target| told(target, state.targets.ask(target).await));
    let targets = join_all(asked).await;
    Ok(Json(Pipeline { asked_at: state.now(), targets }))
}

fn told(target: &MetricsTarget, answer: Result<Reading, Problem>) -> Target {
    let address = target.to_string();
    match answer {
        Ok(reading) => Target {
            address,
            is_reachable: true,
            problem: None,
            processes: reading.processes(),
            figures: values(&reading),
            dependencies: reading.dependencies,
        },
        Err(problem) => Target {
            address,
            is_reachable: false,
            problem: Some(problem),
            processes: Vec::new(),
            dependencies: BTreeMap::new(),
            figures: Vec::new(),
        },
    }
}

/// The figures of the processes that the reading is of.
fn values(reading: &Reading) -> Vec<Value> {
    let processes = reading.processes();
    let own = FIGURES.iter().filter(|figure| processes.contains(&figure.process));
    own.map(|figure| {
        let value = reading.values.get(figure.metric).copied();
        let limit = figure.alert.and_then(|alert| alert.limit.of(&reading.values));
        Value {
            metric: figure.metric,
            process: figure.process,
            says: figure.says,
            unit: figure.unit,
            value,
            limit,
            is_over: value.zip(limit).map(|(value, limit)| value > limit),
            alert: figure.alert.map(|alert| alert.name),
        }
    })
    .collect()
}
