//! `docs/metrics.md` matches the metrics in the code, and processes expose exactly those.

use super::{file, read};
use crate::demo::{Demo, retrieval};
use service_kit::metric_definitions::{Kind, Metric, common};
use service_kit::testing::eventually;
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "docs/metrics.md";

/// Returns the metrics of each process.
pub(super) fn tables() -> Vec<(&'static str, &'static [Metric])> {
    vec![
        ("Every process", common::METRICS),
        ("ingest-gateway", ingest_gateway::METRICS),
        ("stream-workers", stream_workers::METRICS),
        ("webhook-deliverer (`telemetry stream-workers deliver`)", stream_workers::deliver::METRICS),
        ("query-api", query_api::METRICS),
    ]
}

fn all() -> impl Iterator<Item = &'static Metric> {
    tables().into_iter().flat_map(|(_, measures)| measures)
}

/// Text above the tables: common properties and sums.
const PREFACE: &str = "\
# Metrics

Generated from the code by `UPDATE_DOCS=1 cargo test -p end-to-end --test it docs_metrics`; a test fails if it is outdated or incomplete. Each
process exports its metrics on `TELEMETRY_METRICS_LISTEN`, separate from its service; `telemetry all` exports all of them. identity-api exports only the
metrics that every process has. No label value comes from a client. Counters start at 0. Histograms are in seconds.

## Reconciling

The active worker exports sums over all workers, including those that crashed:

    records on the log up to the stored offsets = worker_processed_records + worker_missing_records
    their events = worker_processed_events: stored + rejected

*Stored* includes repeats, which don't change any figure. *Rejected* are the events of dead letters, if they could be counted. *Missing* are offsets that the log deleted before they
were read. `telemetry stream-workers processed` shows the same figures by partition. Replays don't count.

Other counters start at 0 in each process. While no process crashes, this holds over all gateways and workers of one log, in events:

    gateway_events_accepted_total + gateway_events_acknowledged_late_total
        = worker_events_stored_total + worker_events_rejected_total
        + gateway_spill_pending_events + events on the log that are not yet stored

An event that was acknowledged late is on the log twice: directly and through the spill. After a crash, counters are missing or count a record twice; reads stay exact. The alert
`EventsUnaccounted` fires if the two sides differ by more than one percent.

`dependency_up` shows the result of `/ready`. A gateway is ready without Kafka while its spill accepts records, so `gateway_log_breaker_open` shows whether Kafka is unavailable.
";

fn markdown() -> String {
    let mut text = PREFACE.to_owned();
    for (of, measures) in tables() {
        text += &format!("\n## {of}\n\n| name | type | unit | meaning | labels |\n|---|---|---|---|---|\n");
        for Metric { name, kind, unit, help, labels } in measures {
            let labels: Vec<String> = labels.iter().map(|by| format!("`{}`: {}", by.label, by.description)).collect();
            text += &format!("| `{name}` | {} | {unit} | {help} | {} |\n", kind.as_str(), labels.join("; "));
        }
    }
    text
}

#[test]
fn docs_metrics_md_matches_the_code() {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file(LIST), markdown()).unwrap();
    }
    assert!(read(LIST) == markdown(), "{LIST} is outdated: UPDATE_DOCS=1 cargo test -p end-to-end --test it docs_metrics");
}

#[test]
fn metrics_follow_prometheus_conventions() {
    let mut names = BTreeSet::new();
    for Metric { name, kind, unit, help, labels } in all() {
        assert!(names.insert(*name), "{name} is listed twice");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
        assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}: counters, and only counters, must end with _total");
        let base = name.trim_end_matches("_total");
        for measured in ["seconds", "bytes"] {
            assert_eq!(*unit == measured, base.ends_with(&format!("_{measured}")), "{name} is in {unit}");
        }
        let foreign = ["_ms", "_millis", "_milliseconds", "_minutes", "_kb", "_mb", "_count", "_sum", "_bucket", "_percent"];
        assert!(!foreign.iter().any(|end| base.ends_with(end)), "{name}: use base units, and no suffix that Prometheus reserves");
        assert!(!unit.is_empty() && help.len() > 12 && !help.contains('|') && !help.contains('\n'), "{name}: {help:?}");
        assert!(
            labels.iter().all(|by| !by.description.is_empty() && !["le", "job", "instance", "service"].contains(&by.label)),
            "{name}"
        );
    }
}

/// Returns the type, help and label names of every metric family that a process exposes, by name.
fn families(text: &str) -> BTreeMap<String, (String, String, BTreeSet<String>)> {
    let mut families: BTreeMap<String, (String, String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().1 = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if let Some((series, _)) = line.rsplit_once(' ') {
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let name = base.filter(|base| families.contains_key(*base)).unwrap_or(name).to_owned();
            let named = labels.split("=\"").filter_map(|part| part.rsplit(['{', ',', '"']).next());
            let named = named.filter(|label| !label.is_empty() && *label != "}" && *label != "le").map(str::to_owned);
            families.entry(name).or_default().2.extend(named);
        }
    }
    families
}

/// Returns metrics that a process exposes but doesn't list, and listed ones that are missing. Metrics of every process exist from the first
/// request on.
pub(crate) fn faults_of_process(process: &str, text: &str) -> Vec<String> {
    let tables = tables();
    let own: BTreeSet<&str> = tables
        .iter()
        .filter(|(of, _)| of.starts_with(process))
        .flat_map(|(_, measures)| measures.iter().map(|measure| measure.name))
        .collect();
    let common: BTreeSet<&str> = common::METRICS.iter().map(|measure| measure.name).collect();
    let shown = families(text);
    let strangers = shown.keys().filter(|name| !own.contains(name.as_str()) && !common.contains(name.as_str()));
    let absent = own.iter().filter(|name| !shown.contains_key(**name));
    strangers.map(|name| format!("{process} shows {name}")).chain(absent.map(|name| format!("{process} lacks {name}"))).collect()
}

#[tokio::test]
async fn processes_expose_exactly_the_listed_metrics() {
    let demo = Demo::start().await;
    // Metrics for a route or dependency exist once it has been used.
    assert_eq!(demo.report(demo.env("NETWORK_KEY"), &retrieval("edge", "one")).await.status, 201);
    let scrape = || async { demo.client.get(demo.env("METRICS_URL")).send().await.unwrap().text().await.unwrap() };
    let last_ones =
        ["dependency_up{", "worker_event_age_seconds_count", "worker_processed_events{", "webhook_deliveries_pending"];
    eventually("every part of the process exposes metrics", || async {
        let text = scrape().await;
        last_ones.iter().all(|name| text.contains(name)).then_some(())
    })
    .await;
    // Scrape again, because the previous scrape may have contained only a part of the last metrics.
    let shown = families(&scrape().await);
    let listed: BTreeMap<String, (String, String, BTreeSet<String>)> = all()
        .map(|measure| {
            let labels = measure.labels.iter().map(|by| by.label.to_owned()).collect();
            (measure.name.to_owned(), (measure.kind.as_str().to_owned(), measure.help.to_owned(), labels))
        })
        .collect();
    let unknown: Vec<_> = shown.keys().filter(|name| !listed.contains_key(*name)).collect();
    let absent: Vec<_> = listed.keys().filter(|name| !shown.contains_key(*name)).collect();
    assert!(unknown.is_empty() && absent.is_empty(), "not listed: {unknown:?}; not exposed: {absent:?}");
    for (name, is) in &shown {
        assert_eq!(is, &listed[name], "{name} differs from the list");
    }
}
