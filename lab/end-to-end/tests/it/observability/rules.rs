//! Prometheus' rules: valid for promtool, complete, and with existing metrics only.

use super::promql::{faults_of, scraped};
use super::rule_names::all;
pub(crate) use super::rule_names::{alerts_in_the_rules, recorded_names, text};
use super::{file, read};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Returns Prometheus and promtool; downloads them if they are missing.
pub(crate) fn programs() -> [PathBuf; 2] {
    local::test_programs::prometheus().unwrap_or_else(|error| panic!("{error:#}"))
}

/// Returns the alerts with a time window, directly or through a recorded series. They fire until the window ends.
pub(crate) fn alerts_of_a_window() -> BTreeSet<String> {
    let (text, recorded) = (text(), recorded_names());
    let rules = text.split("- alert: ").skip(1).filter_map(|rule| rule.split_once("for: ").map(|(head, _)| head));
    let looks_back = |rule: &&str| rule.contains('[') || recorded.iter().any(|name| rule.contains(name));
    rules.filter(looks_back).filter_map(|rule| rule.lines().next().map(str::to_owned)).collect()
}

/// Returns the expressions: the lines that are indented more than `expr: |-`.
fn expressions() -> Vec<String> {
    let (text, mut found) = (text(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "expr: |-" {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let mut expression = String::new();
        while let Some(next) = lines.next_if(|next| next.len() - next.trim_start().len() > indent) {
            expression += next;
            expression.push('\n');
        }
        found.push(expression);
    }
    found
}

fn promtool(arguments: &[&str]) {
    let folder = file("infra/observability/prometheus");
    let [_, promtool] = programs();
    let output = Command::new(promtool).args(arguments).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {}:\n{said}", arguments.join(" "));
}

#[test]
fn promtool_accepts_rules_and_configuration() {
    promtool(&["check", "rules", "rules.yml"]);
    promtool(&["check", "config", "prometheus.yml"]);
}

#[test]
fn every_alert_has_a_firing_and_a_silent_test_case() {
    promtool(&["test", "rules", "rules_test.yml"]);
    let cases = read("infra/observability/prometheus/rules_test.yml");
    let cases: Vec<&str> = cases.split("\n  - name: ").skip(1).collect();
    for alert in alerts_in_the_rules() {
        for (what, expected) in [("fires", "exp_samples: [{ labels: '{}', value: 1 }]"), ("stays silent", "exp_samples: []")] {
            let case = cases.iter().find(|case| case.lines().next() == Some(&format!("{alert} {what}")));
            let case = case.unwrap_or_else(|| panic!("rules_test.yml has no case `{alert} {what}`"));
            let asked = format!("expr: count(ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}})\n");
            assert!(case.contains(&asked) && case.contains(expected), "{alert} {what}:\n{case}");
        }
    }
}

#[test]
fn every_alert_has_a_runbook() {
    let explained = read("docs/alerts.md");
    let headings: BTreeSet<&str> = explained.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = alerts_in_the_rules();
    assert_eq!(headings, alerts.iter().map(String::as_str).collect(), "the alerts in docs/alerts.md differ from the rules");
    let rules = text();
    let rules: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    for rule in rules {
        let name = rule.lines().next().unwrap_or_default();
        assert!(rule.contains(&format!("runbook_url: docs/alerts.md#{}\n", name.to_lowercase())), "{rule}");
        for needed in ["for: ", "severity: ", "summary: '", "description: '"] {
            assert!(rule.contains(needed), "{name} lacks {needed}");
        }
    }
}

#[test]
fn rules_use_existing_metrics_and_labels() {
    let (expressions, rules) = (expressions(), all("alert").len() + all("record").len());
    assert_eq!(expressions.len(), rules, "an expression was not found");
    let faults: Vec<String> = expressions.iter().flat_map(|expression| faults_of(expression)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn prometheus_scrapes_every_compose_service() {
    let (compose, config) = (read("docker-compose.yml"), read("infra/observability/prometheus/prometheus.yml"));
    for service in ["ingest-gateway", "stream-workers", "webhook-deliverer", "query-api", "identity-api", "console", "analysts"] {
        assert!(compose.contains(&format!("\n  {service}:\n")), "docker-compose.yml does not start {service}");
        assert!(scraped().contains(service), "prometheus.yml does not scrape {service}");
    }
    let (scaled, second) = (read("docker-compose.scaled.yml"), read("infra/observability/scaled/targets.yml"));
    let started: Vec<&str> = scaled.lines().filter_map(|line| line.trim().strip_suffix("-2:")).collect();
    for service in started.into_iter().filter(|service| *service != "kafka") {
        assert!(second.contains(&format!("- {service}-2:9464\n")), "the second {service} is not scraped");
    }
    let named = "      - source_labels: [__meta_dns_name]\n        regex: (.+)\n        target_label: service\n";
    assert!(config.contains(named), "targets found by DNS need a service label");
    assert!(compose.contains("./infra/observability/prometheus:/etc/prometheus:ro"), "the rules are not mounted");
    assert!(config.contains("rule_files:\n  - rules.yml\n"), "the rules are not loaded");
}
