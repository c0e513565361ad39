//! The names in a PromQL expression: which metrics it asks for, by which labels. Enough of the language for our own rules
//! and dashboards; whether they are valid is promtool's to say.

use super::metrics_list::tables;
use super::rules::recorded_names;
use service_kit::measures::{Kind, Measure};
use std::collections::{BTreeMap, BTreeSet};

/// Labels that Prometheus puts on everything it scrapes.
const OF_TARGETS: [&str; 3] = ["job", "instance", "service"];
const WORDS: [&str; 9] = ["by", "on", "without", "ignoring", "and", "or", "unless", "group_left", "bool"];

/// What can be asked for, and its labels.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let labels = |measure: &Measure, more: &[&str]| {
        let own = measure.labels.iter().map(|by| by.label);
        own.chain(OF_TARGETS).chain(more.iter().copied()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let mut known = BTreeMap::from([("up".to_owned(), OF_TARGETS.map(str::to_owned).into())]);
    let of_alerts = OF_TARGETS.into_iter().chain(["alertname", "alertstate", "severity"]);
    known.insert("ALERTS".to_owned(), of_alerts.map(str::to_owned).collect());
    known.extend(recorded_names().into_iter().map(|name| (name, OF_TARGETS.map(str::to_owned).into())));
    for measure in tables().into_iter().flat_map(|(_, measures)| measures) {
        if measure.kind == Kind::Histogram {
            known.insert(format!("{}_bucket", measure.name), labels(measure, &["le"]));
            known.extend(["_sum", "_count"].map(|part| (format!("{}{part}", measure.name), labels(measure, &[]))));
        } else {
            known.insert(measure.name.to_owned(), labels(measure, &[]));
        }
    }
    known
}

/// Words, quoted texts and signs, without spaces.
fn tokens(expression: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), expression.trim_start());
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '$');
        let length = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

/// What an expression asks for that does not exist.
pub(super) fn faults_of(expression: &str) -> Vec<String> {
    let (known, tokens) = (known(), tokens(expression));
    let (mut faults, mut asked, mut grouped) = (Vec::new(), BTreeSet::new(), Vec::new());
    let (mut place, mut metric) = (0, None::<&String>);
    while place < tokens.len() {
        let (token, next) = (&tokens[place], tokens.get(place + 1).map_or("", String::as_str));
        let is_name = token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if is_name && WORDS.contains(&token.as_str()) {
            if next == "(" {
                let list = tokens[place + 2..].iter().take_while(|token| *token != ")").filter(|token| *token != ",");
                grouped.extend(list.clone());
                place += 2 + tokens[place + 2..].iter().take_while(|token| *token != ")").count();
            }
        } else if token == "{" {
            let inside: Vec<&String> = tokens[place + 1..].iter().take_while(|token| *token != "}").collect();
            let named = inside.iter().enumerate().filter(|(at, _)| *at == 0 || inside[at - 1] == ",").map(|(_, label)| *label);
            let labels = metric.and_then(|metric| known.get(metric));
            for label in named {
                if labels.is_some_and(|labels| !labels.contains(label)) {
                    faults.push(format!("{} has no label {label}: {expression}", metric.map_or("", String::as_str)));
                }
            }
            place += inside.len() + 1;
        } else if is_name && !["(", "by", "without"].contains(&next) {
            metric = Some(token);
            asked.insert(token);
            if !known.contains_key(token) {
                faults.push(format!("there is no metric {token}: {expression}"));
            }
        }
        place += 1;
    }
    for label in grouped {
        if !asked.iter().any(|metric| known.get(*metric).is_some_and(|labels| labels.contains(label))) {
            faults.push(format!("none of {asked:?} has a label {label}: {expression}"));
        }
    }
    if asked.is_empty() {
        faults.push(format!("asks for nothing: {expression}"));
    }
    faults
}

#[test]
fn what_does_not_exist_is_found_wherever_it_stands() {
    let faulty = |expression| faults_of(expression).len();
    let good =
        "sum by (route, le) (rate(http_request_duration_seconds_bucket{job=\"services\", route!~\"/health|/ready\"}[5m])) > 0.5";
    assert_eq!(faulty(good), 0, "{:?}", faults_of(good));
    assert_eq!(faulty("worker_lag_seconds > 30 and on () up == 1"), 0);
    for bad in [
        "worker_lag_minutes > 30",
        "http_request_duration_seconds > 1",
        "worker_lag_seconds{topic=\"a\"} > 30",
        "sum by (topic) (worker_lag_seconds)",
        "rate(http_requests_total{status=~\"5..\", statuz=\"1\"}[5m])",
        "1 + 1",
    ] {
        assert_eq!(faulty(bad), 1, "{bad}");
    }
}
