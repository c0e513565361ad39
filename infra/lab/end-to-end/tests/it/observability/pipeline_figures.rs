//! What operators are shown of the pipeline is what the services measure, and its limits are those of the alerts.

use super::metrics_list::tables;
use super::rule_names;
use crate::demo::{Demo, retrieval};
use identity_api::pipeline::{FIGURES, Limit};
use serde_json::Value;
use service_kit::testing::eventually;
use std::collections::BTreeMap;

#[test]
fn every_figure_of_the_pipeline_is_a_metric_of_its_process_with_its_unit() {
    for figure in FIGURES {
        let table = tables().into_iter().find(|(process, _)| process.starts_with(figure.process));
        let (_, measures) = table.unwrap_or_else(|| panic!("no process is called {}", figure.process));
        let names = |name: &str| measures.iter().find(|measure| measure.name == name);
        let measure = names(figure.metric).unwrap_or_else(|| panic!("{} has no {}", figure.process, figure.metric));
        assert_eq!(figure.unit, measure.unit, "{}", figure.metric);
        if let Some(Limit::ShareOf(whole, _)) = figure.alert.map(|alert| alert.limit) {
            assert!(names(whole).is_some(), "{whole}");
        }
    }
}

#[test]
fn every_limit_of_the_pipeline_is_the_one_of_its_alert() {
    let rules = rule_names::text();
    let rule = |name: &str| {
        let rule = rules.split("- alert: ").find(|rule| rule.lines().next() == Some(name));
        let rule = rule.unwrap_or_else(|| panic!("no alert is called {name}"));
        rule.split("for: ").next().unwrap().split_ascii_whitespace().collect::<Vec<_>>().join(" ")
    };
    for figure in FIGURES {
        let Some(alert) = figure.alert else { continue };
        let (metric, text) = (figure.metric, rule(alert.name));
        let meant = match alert.limit {
            Limit::Above(0.0) => vec![format!("{metric} > 0"), format!("{metric} == 1"), format!("{metric}) == 1")],
            Limit::Above(limit) => vec![format!("{metric} > {limit}"), format!("{metric}) > {limit}")],
            Limit::ShareOf(whole, share) => vec![format!("{metric} / {whole} > {share}")],
            Limit::Growth => vec![format!("increase({metric}[")],
        };
        assert!(meant.iter().any(|meant| text.contains(meant)), "{metric}: {meant:?} is not in {text}");
    }
}

async fn metrics(demo: &Demo) -> BTreeMap<String, f64> {
    let text = demo.client.get(demo.env("METRICS_URL")).send().await.unwrap().text().await.unwrap();
    let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
    samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[tokio::test]
async fn operators_are_shown_the_figures_of_the_running_processes() {
    let demo = Demo::start().await;
    let sent = demo.post(demo.env("AGENT_KEY"), &retrieval("agent", "3f0c2a36-5a61-4f6b-8f4e-52f3a4f0d00a")).await;
    assert_eq!(sent.status, 201);
    demo.counts(1).await;
    let asked = || async {
        let request = demo.client.get(demo.url("/api/v1/identity/operator/pipeline")).bearer_auth(demo.env("OPERATOR_SESSION"));
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["targets"][0].clone()
    };
    eventually("what operators are shown is what the metrics say", || async {
        let (before, target, after) = (metrics(&demo).await, asked().await, metrics(&demo).await);
        assert_eq!(target["address"], demo.env("METRICS_URL"));
        let processes = ["ingest-gateway", "stream-workers", "webhook-deliverer", "query-api"].map(Value::from);
        let is_whole = target["processes"].as_array()? == &processes;
        let figures = target["figures"].as_array()?;
        let is_same = figures.iter().all(|figure| {
            let name = figure["metric"].as_str().unwrap();
            let (before, after) = (before.get(name), after.get(name));
            // what is told apart by labels is summed; what moves meanwhile is looked at again
            before.is_none() || before == figure["value"].as_f64().as_ref() || after == figure["value"].as_f64().as_ref()
        });
        let has_work = figures.iter().any(|figure| figure["metric"] == "worker_active" && figure["value"].as_f64() > Some(0.0));
        let reaches = target["dependencies"].as_object()?.values().all(|is_up| *is_up == true);
        (is_whole && is_same && has_work && reaches && figures.len() == FIGURES.len()).then_some(())
    })
    .await;
}
