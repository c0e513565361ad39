//! `summary`: totals in tables, all figures in JSON and CSV.

use super::{Filters, Window, print_document};
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::labels::{capitalized, coverage, event_type, position, reporter};
use crate::options::Format;
use crate::output::{Column, column, rows, table, text, write};
use clap::Args;
use serde_json::{Value, json};

const FIGURE: [Column; 2] = [column("figure", "/figure"), column("value", "/value")];
const TOTALS: [Column; 3] = [column("", "/name"), column("events", "/events"), column("sessions", "/sessions")];
const NAMED_DOMAINS: usize = 5;

/// A summary.
#[derive(Args, Clone, Debug)]
pub struct Summary {
    #[command(flatten)]
    window: Window,
    /// Read your own reports, as an agent or platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from", "Filters"])]
    agent: bool,
    #[command(flatten)]
    filters: Filters,
}

pub(crate) async fn summary(context: &Context, what: &Summary) -> Result<(), Failure> {
    let path = if what.agent { "/agent/summary" } else { "/content-owners/summary" };
    let (client, parameters) =
        (context.client(CredentialKind::KeyOrPerson)?, [what.window.parameters(context), what.filters.parameters()].concat());
    match context.options.output {
        Format::Json | Format::Ndjson => print_document(&client, path, &parameters).await,
        Format::Csv => {
            let answer = client.get(path, &parameters).await?;
            context.output().list(&answer, &figures("", &answer), &FIGURE)
        }
        Format::Table => write(totals(&client.get(path, &parameters).await?).as_bytes()),
    }
}

/// Returns the totals by type, reporter and agent, followed by their scope.
fn totals(answer: &Value) -> String {
    let total = |name: &str, of: &Value| json!({"name": name, "events": of["total_events"], "sessions": of["total_sessions"]});
    let by_type = |of: &Value| {
        let mut counts = of["events_by_type"].as_array().cloned().unwrap_or_default();
        counts.sort_by_key(|item| position(&text(&item["event_type"])));
        items(&json!(counts), |item| json!({"name": of_type(item), "events": item["count"]}))
    };
    let mut all = vec![total("Total", answer)];
    section(&mut all, "By type", by_type(answer));
    let by_reporter = |item: &Value| json!({"name": reporter_of(item), "events": item["count"], "sessions": item["sessions"]});
    section(&mut all, "By reporter", items(&answer["events_by_source"], by_reporter));
    let agents = answer["agents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let by_agent =
        |item: &Value| json!({"name": agent_of(item, agents), "events": item["event_count"], "sessions": item["session_count"]});
    section(&mut all, "By agent", items(&answer["agents"], by_agent));
    let clicks = &answer["clicks"];
    if clicks["total_events"].as_u64() > Some(0) {
        let own = [vec![total("Total", clicks)], by_type(clicks)].concat();
        section(&mut all, "Reported by others with your click tokens", own);
    }
    format!("{}\n{}", table(&all, &TOTALS), rows(&scope(answer)))
}

fn section(all: &mut Vec<Value>, heading: &str, rows: Vec<Value>) {
    if !rows.is_empty() {
        all.push(json!({"name": heading}));
        all.extend(rows.into_iter().map(|mut row| {
            row["name"] = json!(format!("  {}", text(&row["name"])));
            row
        }));
    }
}

fn items(list: &Value, row: impl Fn(&Value) -> Value) -> Vec<Value> {
    list.as_array().into_iter().flatten().map(row).collect()
}

fn of_type(item: &Value) -> String {
    capitalized(event_type(&text(&item["event_type"])).1)
}

fn reporter_of(item: &Value) -> String {
    reporter(&text(&item["source_role"])).to_owned()
}

/// Returns the agent's name, with its platform's ID if another platform uses the same name.
fn agent_of(item: &Value, all: &[Value]) -> String {
    let name = match item["agent_id"].as_str() {
        None | Some("") => "Unknown",
        Some(name) => name,
    };
    let same = all.iter().filter(|other| other["agent_id"] == item["agent_id"]).count();
    if same > 1 { format!("{name} ({})", text(&item["platform_id"])) } else { name.to_owned() }
}

/// Returns the period, the domains, the session outcomes and the hours with data.
fn scope(answer: &Value) -> Vec<(&'static str, String)> {
    let period = match (answer["period_start"].as_str(), answer["period_end"].as_str()) {
        (Some(start), Some(end)) if start == end => start.to_owned(),
        (Some(start), Some(end)) => format!("{start} to {end}"),
        (Some(start), None) => format!("since {start}"),
        (None, Some(end)) => format!("until {end}"),
        (None, None) => "all time".to_owned(),
    };
    let mut facts = vec![("Period", period)];
    if let Some(domains) = answer["domains"].as_array() {
        let named: Vec<String> = domains.iter().take(NAMED_DOMAINS).map(text).collect();
        let more = domains.len().saturating_sub(NAMED_DOMAINS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        facts.push(("Domains", if named.is_empty() { "none verified".to_owned() } else { named.join(", ") + &more }));
    }
    let outcomes = &answer["outcomes"];
    if outcomes["total"].as_u64() > Some(0) {
        let of = |list: &str, words: fn(&Value) -> String| {
            outcomes[list].as_array().into_iter().flatten().map(words).collect::<Vec<_>>().join(", ")
        };
        let by_type = of("by_type", |item| format!("{} {}", text(&item["count"]), text(&item["outcome_type"])));
        facts.push(("Session outcomes", format!("{} ({by_type})", text(&outcomes["total"]))));
        let value = of("by_currency", |item| format!("{} {}", text(&item["value_amount"]), text(&item["currency"])));
        if !value.is_empty() {
            facts.push(("Outcome value", format!("{value} (in minor units)")));
        }
    }
    if answer["coverage"].is_object() {
        facts.push(("Coverage", coverage(&answer["coverage"])));
    }
    facts
}

/// Returns every figure of a response with its path of member names.
fn figures(path: &str, value: &Value) -> Vec<Value> {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    match value {
        Value::Object(members) => {
            let names: Vec<&str> = members.values().filter_map(Value::as_str).collect();
            // In lists, an item's strings are its name, and its numbers are the figures.
            let is_item = !path.is_empty() && !names.is_empty();
            let numbers = members.values().filter(|value| value.is_number()).count();
            let of = |(member, value): (&String, &Value)| match (is_item, value.is_string()) {
                (true, true) => Vec::new(),
                (true, false) if numbers == 1 && value.is_number() => figures(&join(&names.join(" ")), value),
                (true, false) => figures(&join(&format!("{} {member}", names.join(" "))), value),
                (false, _) => figures(&join(member), value),
            };
            members.iter().flat_map(of).collect()
        }
        // `telemetry coverage` lists the hours.
        Value::Array(_) if path == "coverage spans" => Vec::new(),
        Value::Array(values) if values.iter().any(Value::is_object) => {
            values.iter().flat_map(|value| figures(path, value)).collect()
        }
        Value::Array(values) if values.is_empty() && path != "domains" => Vec::new(),
        value => vec![json!({"figure": path, "value": if value.is_array() { json!(text(value)) } else { value.clone() }})],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_row_for_every_figure() {
        let answer = json!({
            "organization_id": "o", "domains": ["a.example", "b.example"], "total_events": 3,
            "events_by_type": [{"event_type": "content_cited", "count": 2}],
            "agents": [{"agent_id": "x", "event_count": 3, "session_count": 1}],
            "clicks": {"total_events": 0, "events_by_type": []}, "period_start": null,
        });
        let rows = figures("", &answer);
        let rows: Vec<(String, String)> = rows.iter().map(|row| (text(&row["figure"]), text(&row["value"]))).collect();
        for expected in [
            ("domains", "a.example, b.example"),
            ("total_events", "3"),
            ("events_by_type content_cited", "2"),
            ("agents x event_count", "3"),
            ("clicks total_events", "0"),
        ] {
            assert!(rows.contains(&(expected.0.to_owned(), expected.1.to_owned())), "{expected:?} in {rows:?}");
        }
    }

    #[test]
    fn tables_start_with_totals_and_name_their_scope() {
        let answer = json!({
            "domains": ["a.example", "b", "c", "d", "e", "f", "g"], "total_events": 12, "total_sessions": 3,
            "events_by_type": [{"event_type": "checkout_completed", "count": 3}, {"event_type": "content_retrieved", "count": 9}],
            "events_by_source": [{"source_role": "origin", "count": 9, "sessions": 0}],
            "agents": [
                {"platform_id": "p", "agent_id": "x", "event_count": 2, "session_count": 1},
                {"platform_id": "q", "agent_id": "x", "event_count": 1, "session_count": 1},
                {"platform_id": "q", "agent_id": "", "event_count": 1, "session_count": 0},
            ],
            "clicks": {"total_events": 1, "total_sessions": 1, "events_by_type": [{"event_type": "content_engaged", "count": 1}]},
            "outcomes": {
                "total": 2, "by_type": [{"outcome_type": "conversion", "count": 2}],
                "by_currency": [{"currency": "EUR", "count": 2, "value_amount": 4999}],
            },
            "period_start": "2026-11-01", "period_end": null, "coverage": {"hours_covered": 2, "hours_uncovered": 22},
        });
        let expected = "                                           EVENTS  SESSIONS
Total                                          12         3
By type
  Fetches                                       9
  Purchases                                     3
By reporter
  Your server                                   9         0
By agent
  x (p)                                         2         1
  x (q)                                         1         1
  Unknown                                       1         0
Reported by others with your click tokens
  Total                                         1         1
  Engagements                                   1

Period            since 2026-11-01
Domains           a.example, b, c, d, e and 2 more
Session outcomes  2 (2 conversion)
Outcome value     4999 EUR (in minor units)
Coverage          Server logs cover 2 of 24 hours (8 %). 22 hours have no data and aren't counted as zero.
";
        assert_eq!(totals(&answer), expected);
    }
}
