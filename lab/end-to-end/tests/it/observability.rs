//! What watches the services holds together: metrics, their list, rules, alerts, dashboards. Nothing is named that is not
//! there, so a metric that is renamed fails the build.

mod dashboards;
mod grafana_user;
pub(crate) mod metrics_list;
mod promql;
mod rule_names;
pub(crate) mod rules;

use std::path::PathBuf;

/// A file of the repository.
pub(crate) fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
