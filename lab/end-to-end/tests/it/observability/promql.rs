//! Finds unknown metrics, labels and values in PromQL expressions. Parses just enough of the language for our rules and
//! dashboards; promtool validates the syntax.

use super::metrics_list::tables;
use super::read;
use super::rule_names::{alerts_in_the_rules, recorded_names};
use service_kit::metric_definitions::{Kind, Metric};
use std::collections::{BTreeMap, BTreeSet};

/// Labels and their possible values. The set is empty if the values can't be listed.
type Labels = BTreeMap<String, BTreeSet<String>>;

const WORDS: [&str; 10] = ["by", "on", "without", "ignoring", "and", "or", "unless", "group_left", "bool", "offset"];

/// Returns the services that Prometheus scrapes by name or by DNS.
pub(super) fn scraped() -> BTreeSet<String> {
    let config = read("infra/observability/prometheus/prometheus.yml");
    let items = || config.lines().filter_map(|line| line.trim_start().strip_prefix("- "));
    let one = items().filter_map(|item| item.strip_suffix(":9464"));
    let all = items().filter_map(|item| item.strip_prefix("names: [")?.strip_suffix(']')).flat_map(|names| names.split(", "));
    one.chain(all).map(str::to_owned).collect()
}

/// Returns the labels that Prometheus' configuration adds to all targets.
fn of_targets() -> Labels {
    let config = read("infra/observability/prometheus/prometheus.yml");
    let items = || config.lines().filter_map(|line| line.trim_start().strip_prefix("- "));
    let jobs = items().filter_map(|item| item.strip_prefix("job_name: ")).map(str::to_owned).collect();
    Labels::from([("job".to_owned(), jobs), ("service".to_owned(), scraped()), ("instance".to_owned(), BTreeSet::new())])
}

fn of_alerts() -> Labels {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut labels = of_targets();
    labels.insert("alertname".to_owned(), alerts_in_the_rules());
    labels.insert("alertstate".to_owned(), words(&["pending", "firing"]));
    labels.insert("severity".to_owned(), words(&["critical", "warning"]));
    labels
}

/// Returns the existing metrics and recorded series, with their labels.
fn known() -> BTreeMap<String, Labels> {
    let labels = |measure: &Metric, more: &[&str]| {
        let own = measure.labels.iter().map(|by| (by.label, by.values)).chain(more.iter().map(|label| (*label, &[][..])));
        let own = own.map(|(label, values)| (label.to_owned(), values.iter().map(|value| (*value).to_owned()).collect()));
        own.chain(of_targets()).collect::<Labels>()
    };
    let mut known = BTreeMap::from([("up".to_owned(), of_targets()), ("ALERTS".to_owned(), of_alerts())]);
    known.extend(recorded_names().into_iter().map(|name| (name, of_targets())));
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

/// Splits an expression into words, quoted strings and operators.
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

/// Returns a matcher's values that the label can't have. In patterns, only words between `|` are checked; Grafana's variables are ignored.
fn unknown_values<'a>(matcher: &'a [&String], values: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let (signs, text) = matcher.split_at(matcher.len() - 1);
    let text = text[0].trim_matches('"');
    let is_pattern = signs.iter().any(|sign| *sign == "~");
    let is_plain = !text.contains('$') && (!is_pattern || text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-|".contains(&b)));
    let asked = if is_pattern { text.split('|').collect() } else { vec![text] };
    asked.into_iter().filter(move |value| is_plain && !values.is_empty() && !values.contains(*value))
}

/// Returns the errors in an expression.
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
            let (of, labels) = (metric.map_or("", String::as_str), metric.and_then(|metric| known.get(metric)));
            for matcher in inside.split(|token| *token == ",").filter(|matcher| !matcher.is_empty()) {
                match labels.map(|labels| labels.get(matcher[0])) {
                    Some(None) => faults.push(format!("{of} has no label {}: {expression}", matcher[0])),
                    Some(Some(values)) => faults.extend(
                        unknown_values(matcher, values)
                            .map(|value| format!("{} of {of} is never {value}: {expression}", matcher[0])),
                    ),
                    None => {}
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
        if !asked.iter().any(|metric| known.get(*metric).is_some_and(|labels| labels.contains_key(label))) {
            faults.push(format!("none of {asked:?} has a label {label}: {expression}"));
        }
    }
    if asked.is_empty() {
        faults.push(format!("asks for nothing: {expression}"));
    }
    faults
}

#[test]
fn finds_unknown_names_anywhere() {
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
        "webhook_attempts_total{outcome=~\"timeout|nonsense\"}",
        "ALERTS{alertname=\"NoSuchAlert\"}",
        "1 + 1",
    ] {
        assert_eq!(faulty(bad), 1, "{bad}");
    }
}
