//! Checks that metrics, their documentation, alert rules and dashboards are consistent. References to renamed metrics fail these tests.

mod dashboards;
mod grafana_user;
pub(crate) mod metrics_list;
mod promql;
mod rule_names;
pub(crate) mod rules;

use std::path::PathBuf;

/// Returns a repository file's path.
pub(crate) fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
