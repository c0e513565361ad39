//! Creates statements as described in docs/api/statements.md. Knows all reports at once, and doesn't share code with the crate.

use crate::files::{Files, sha256};
use crate::months::{CLOSED_MS, HOUR_MS, Month, SINCE_MS, UNTIL_MS};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ROLES: [&str; 5] = ["agent", "edge", "origin", "index", ""];

type Event<'a> = Vec<&'a Value>;
/// Figures by host, content, license and path.
type Figures = BTreeMap<[String; 4], i64>;

/// Returns both revisions of a month.
pub(crate) fn statements(month: &Month) -> [Files; 2] {
    let first = statement(month, 0, None);
    let second = statement(month, 1, Some(&first));
    [first, second]
}

fn statement(month: &Month, revision: usize, first: Option<&Files>) -> Files {
    let rows = first_copies(month, CLOSED_MS[revision]);
    let events = events(&rows);
    let counted: Vec<&Event<'_>> = events.iter().filter(|event| belongs(month, event)).collect();
    let groups: BTreeSet<String> = counted.iter().flat_map(|event| event.iter().map(|row| group(row))).collect();
    let mut kept: Vec<&Value> = rows.iter().copied().filter(|row| groups.contains(&group(row))).collect();
    kept.sort_by_key(|row| (group(row), acceptance(row)));
    let mut hours = month.hours.clone();
    hours.sort_by_key(|hour| (number(hour, "at_ms"), text(hour, "host").to_owned()));
    hours.dedup();
    let evidence: String = hours.iter().chain(kept.iter().copied()).map(|row| format!("{row}\n")).collect();
    let (figures, totals) = figures(month, &counted);
    let earlier: Vec<String> = first.map(|first| first.statement.to_string()).into_iter().collect();
    let previous = earlier.first().map(|text| sha256(text));
    let corrections = first.map(|first| {
        let late = kept.iter().filter(|row| number(row, "accepted_us") >= CLOSED_MS[0] * 1_000).count();
        let former = first.statement["evidence"]["reports"].as_i64().unwrap();
        let other = i64::try_from(kept.len()).unwrap() - former - i64::try_from(late).unwrap();
        json!({"late_reports": late, "other_reports": other, "revises": previous, "changes": changes(first, &figures)})
    });
    let closed = if revision == 0 { "2026-11-03T00:00:00Z" } else { "2026-11-05T00:00:00Z" };
    let statement = json!({
        "document_type": "statement", "version": 1, "counting_rules": 1,
        "service": "https://telemetry.example", "owner": {"id": "o1", "name": "Example News"}, "operator": month.operator,
        "hosts": ["example.com", "shop.example.org"], "by": month.by, "period": "2026-10", "closed": closed,
        "number": revision + 1, "revision": revision + 1, "previous": previous, "corrections": corrections,
        "evidence": {"hours": hours.len(), "reports": kept.len(), "sha256": sha256(&evidence)},
        "lines": lines(&figures), "totals": nested(totals.iter().map(|(path, figure)| (path.as_str(), *figure))),
    });
    let mut statement = statement;
    statement["totals"]["hours"] = json!((UNTIL_MS - SINCE_MS) / HOUR_MS);
    Files::new(statement, evidence, earlier)
}

fn text<'a>(row: &'a Value, member: &str) -> &'a str {
    row[member].as_str().unwrap_or_default()
}

fn number(row: &Value, member: &str) -> i64 {
    row[member].as_i64().unwrap_or_default()
}

fn acceptance(row: &Value) -> (i64, i64, String) {
    (number(row, "accepted_us"), number(row, "place"), text(row, "identity").to_owned())
}

fn group(row: &Value) -> String {
    row["group"].as_str().unwrap_or_else(|| text(row, "identity")).to_owned()
}

fn first_copies(month: &Month, closed_ms: i64) -> Vec<&Value> {
    let mut rows: Vec<&Value> = month.accepted.iter().filter(|row| number(row, "accepted_us") < closed_ms * 1_000).collect();
    rows.sort_by_key(|row| acceptance(row));
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert(text(row, "identity")));
    rows
}

fn events<'a>(rows: &[&'a Value]) -> Vec<Event<'a>> {
    let mut events: Vec<(Option<&str>, Event<'_>)> = Vec::new();
    let observer = |row: &Value| [text(row, "organization"), text(row, "role"), text(row, "drain")].map(str::to_owned);
    for row in rows {
        let shared = row["group"].as_str();
        let found = events.iter_mut().find(|(key, _)| key.is_some() && *key == shared);
        match found {
            Some((_, event)) if event.len() < 32 && event.iter().all(|other| observer(other) != observer(row)) => event.push(row),
            Some(_) => events.push((None, vec![row])),
            None => events.push((shared, vec![row])),
        }
    }
    events.into_iter().map(|(_, event)| event).collect()
}

fn precedence(row: &Value) -> usize {
    ROLES.iter().position(|role| *role == text(row, "role")).unwrap()
}

fn representing<'a>(event: &Event<'a>) -> &'a Value {
    let best = event.iter().map(|row| precedence(row)).min().unwrap();
    event.iter().find(|row| precedence(row) == best).unwrap()
}

fn is_claim(row: &Value) -> bool {
    text(row, "role") == "agent" || (text(row, "role").is_empty() && row["session"].is_string())
}

/// Returns the report that determines bot and status: by owner, then by content, then by role, then by acceptance.
fn deciding<'a>(event: &Event<'a>) -> Option<&'a Value> {
    for is_owner in [true, false] {
        for says in 0..3 {
            for role in 0..5 {
                let found = event.iter().find(|row| {
                    let said = match (text(row, "bot"), row["status"].as_i64()) {
                        (_, None) => 9,
                        ("", Some(0)) => 2,
                        ("", Some(_)) => 1,
                        _ => 0,
                    };
                    row["owner"] == json!(is_owner) && said == says && precedence(row) == role
                });
                if let Some(row) = found {
                    return Some(row);
                }
            }
        }
    }
    None
}

fn belongs(month: &Month, event: &Event<'_>) -> bool {
    if text(event[0], "row") == "line" {
        let is_operators = month.operator.is_null() || month.operator == event[0]["operator"];
        return is_operators && (SINCE_MS..UNTIL_MS).contains(&number(event[0], "at_ms"));
    }
    let late = |row: &Value| number(row, "accepted_us") - number(row, "at_ms") * 1_000;
    let timely = event.iter().find(|row| late(row) <= 24 * HOUR_MS * 1_000 && late(row) >= -HOUR_MS * 1_000);
    let at_ms = number(timely.unwrap_or(&event[0]), "at_ms");
    let shown = representing(event);
    let operator = if is_claim(shown) && !text(shown, "operator").is_empty() {
        text(shown, "operator")
    } else {
        deciding(event).map_or("", |row| text(row, "operator"))
    };
    (SINCE_MS..UNTIL_MS).contains(&at_ms) && (month.operator.is_null() || month.operator == json!(operator))
}

fn measure(event: &Event<'_>) -> String {
    let shown = representing(event);
    if text(shown, "row") == "line" {
        return if number(shown, "status") == 304 { "revalidation" } else { "failed_fetch" }.to_owned();
    }
    let mut status = deciding(event).map_or(0, |row| number(row, "status"));
    let is_owners = |row: &Value| row["owner"] == json!(true);
    if event.iter().any(|row| is_owners(row)) && !deciding(event).is_none_or(is_owners) && !(200..=299).contains(&status) {
        status = 0;
    }
    match (text(shown, "type"), status) {
        ("content_retrieved", 304) => "revalidation",
        ("content_retrieved", 0 | 200..=299) => "fetch",
        ("content_retrieved", _) => "failed_fetch",
        ("content_grounded", _) => "grounding",
        ("content_cited", _) => "citation",
        ("content_presented", _) => "presentation",
        ("content_engaged", _) if shown["click"] == json!(true) => "visit",
        ("content_engaged", _) => "engagement",
        (other, _) => other,
    }
    .to_owned()
}

fn tier(event: &Event<'_>) -> &'static str {
    if text(event[0], "row") == "line" {
        return "observed";
    }
    let claims: Vec<&str> = event.iter().filter(|row| is_claim(row)).map(|row| text(row, "organization")).collect();
    let is_server = |row: &Value| ["edge", "origin"].contains(&text(row, "role"));
    let seen = event.iter().any(|row| is_server(row) && !claims.contains(&text(row, "organization")));
    match (claims.is_empty(), seen) {
        (false, true) => "corroborated",
        (false, false) => "claimed",
        (true, true) => "observed",
        (true, false) => "unknown",
    }
}

fn line_of(month: &Month, event: &Event<'_>) -> [String; 3] {
    let shown = representing(event);
    let (host, url) = (text(shown, "host"), text(shown, "url"));
    let path = url.splitn(4, '/').nth(3).filter(|_| !url.contains("?a=")).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap();
    let content = match (url, month.by) {
        ("", _) => text(shown, "content_id").to_owned(),
        (_, "url") => url.to_owned(),
        _ if path.contains('/') => format!("https://{host}/{}/*", path.split('/').next().unwrap()),
        _ => format!("https://{host}/"),
    };
    [host.to_owned(), content, text(shown, "license").to_owned()]
}

/// Returns the figures of lines and totals. A line's events are counted again for each figure.
fn figures(month: &Month, events: &[&Event<'_>]) -> (Figures, BTreeMap<String, i64>) {
    let mut lines: BTreeMap<[String; 3], Vec<&Event<'_>>> = BTreeMap::new();
    events.iter().for_each(|event| lines.entry(line_of(month, event)).or_default().push(event));
    let (mut figures, mut totals) = (Figures::new(), BTreeMap::new());
    for (key, events) in &lines {
        for (path, figure) in counts(events) {
            *totals.entry(path.clone()).or_default() += figure;
            let [host, content, license] = key.clone();
            figures.insert([host, content, license, path], figure);
        }
        let hours = month.hours.iter().filter(|hour| {
            let above = text(hour, "host");
            key[0] == above || key[0].ends_with(&format!(".{above}"))
        });
        let [host, content, license] = key.clone();
        figures.insert([host, content, license, "covered_hours".to_owned()], distinct_hours(hours));
    }
    let of_all = counts(events);
    for path in ["sessions", "counter.AI_Responses_Generated"] {
        totals.insert(path.to_owned(), of_all[path]);
    }
    for (path, _) in of_all.iter().filter(|(path, _)| path.starts_with("counter.")) {
        totals.entry(path.clone()).or_default();
    }
    totals.insert("covered_hours".to_owned(), distinct_hours(month.hours.iter()));
    (figures, totals)
}

fn distinct_hours<'a>(hours: impl Iterator<Item = &'a Value>) -> i64 {
    i64::try_from(hours.map(|hour| number(hour, "at_ms")).collect::<BTreeSet<_>>().len()).unwrap()
}

/// Returns the figures of these events by path.
fn counts(events: &[&Event<'_>]) -> BTreeMap<String, i64> {
    let size = |set: BTreeSet<String>| i64::try_from(set.len()).unwrap();
    let mut counts = BTreeMap::new();
    for event in events {
        for tier in ["claimed", "corroborated", "observed", "unknown", "signed"] {
            counts.entry(format!("events.{}.{tier}", measure(event))).or_default();
        }
        *counts.get_mut(&format!("events.{}.{}", measure(event), tier(event))).unwrap() += 1;
        if event.iter().any(|row| text(row, "signature") == "valid") {
            *counts.get_mut(&format!("events.{}.signed", measure(event))).unwrap() += 1;
        }
    }
    let sessions = events.iter().flat_map(|event| event.iter().filter_map(|row| row["session"].as_str().map(str::to_owned)));
    counts.insert("sessions".to_owned(), size(sessions.collect()));
    let of = |measures: &[&str]| -> Vec<&Value> {
        events.iter().filter(|event| measures.contains(&measure(event).as_str())).map(|event| representing(event)).collect()
    };
    let session = |row: &&Value| row["session"].as_str().unwrap_or_else(|| text(row, "identity")).to_owned();
    let responses = of(&["grounding", "citation"]).into_iter().filter_map(|row| row["response"].as_str().map(str::to_owned));
    counts.insert("counter.AI_Responses_Generated".to_owned(), size(responses.collect()));
    for (metric, measures) in [("AI_Requests", &["fetch"][..]), ("AI_Investigations", &["grounding", "citation"])] {
        let rows = of(measures);
        counts.insert(format!("counter.Total_{metric}"), i64::try_from(rows.len()).unwrap());
        counts.insert(format!("counter.Unique_{metric}"), size(rows.iter().map(session).collect()));
    }
    counts
}

fn nested<'a>(figures: impl Iterator<Item = (&'a str, i64)>) -> Value {
    let mut value = json!({"events": {}});
    for (path, figure) in figures {
        match (path.strip_prefix("events."), path.strip_prefix("counter.")) {
            (Some(rest), _) => {
                let (measure, tier) = rest.rsplit_once('.').unwrap();
                value["events"][measure][tier] = json!(figure);
            }
            (_, Some(metric)) => value["counter"][metric] = json!(figure),
            _ => value[path] = json!(figure),
        }
    }
    value
}

fn lines(figures: &Figures) -> Vec<Value> {
    let mut lines: BTreeMap<[String; 3], Vec<(&str, i64)>> = BTreeMap::new();
    for ([host, content, license, path], figure) in figures {
        lines.entry([host, content, license].map(String::clone)).or_default().push((path, *figure));
    }
    let line = |([host, content, license], figures): ([String; 3], Vec<(&str, i64)>)| {
        let names = json!({"host": host, "content": content, "license": license});
        let mut line: Map<String, Value> = names.as_object().unwrap().clone();
        line.extend(nested(figures.into_iter()).as_object().unwrap().clone());
        Value::from(line)
    };
    lines.into_iter().map(line).collect()
}

fn flat(first: &Files) -> Figures {
    let mut figures = Figures::new();
    for line in first.statement["lines"].as_array().unwrap() {
        let mut add = |path: String, figure: &Value| {
            let [host, content, license] = ["host", "content", "license"].map(|name| text(line, name).to_owned());
            figures.insert([host, content, license, path], figure.as_i64().unwrap());
        };
        ["sessions", "covered_hours"].iter().for_each(|path| add((*path).to_owned(), &line[path]));
        line["counter"].as_object().unwrap().iter().for_each(|(metric, figure)| add(format!("counter.{metric}"), figure));
        for (measure, tiers) in line["events"].as_object().unwrap() {
            tiers.as_object().unwrap().iter().for_each(|(tier, figure)| add(format!("events.{measure}.{tier}"), figure));
        }
    }
    figures
}

fn changes(first: &Files, after: &Figures) -> Vec<Value> {
    let before = flat(first);
    let keys: BTreeSet<&[String; 4]> = before.keys().chain(after.keys()).collect();
    let figure = |figures: &Figures, key: &[String; 4]| figures.get(key).copied().unwrap_or(0);
    let changed = keys.into_iter().filter(|key| figure(&before, key) != figure(after, key));
    let change = |key: &[String; 4]| {
        let [host, content, license, path] = key;
        json!({"host": host, "content": content, "license": license, "figure": path,
            "before": figure(&before, key), "after": figure(after, key)})
    };
    changed.map(change).collect()
}
