//! Names in Prometheus' rule file.

use super::read;
use std::collections::BTreeSet;

const RULES: &str = "infra/observability/prometheus/rules.yml";

pub(crate) fn text() -> String {
    read(RULES)
}

/// Returns the values of a key in the rules, such as `alert`.
pub(super) fn all(key: &str) -> BTreeSet<String> {
    let key = format!("{key}: ");
    text().lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix(&key).map(str::to_owned)).collect()
}

pub(crate) fn alerts_in_the_rules() -> BTreeSet<String> {
    all("alert")
}

pub(crate) fn recorded_names() -> BTreeSet<String> {
    all("record")
}
