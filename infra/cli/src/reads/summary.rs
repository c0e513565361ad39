//! `summary`: one row for each figure, with the names that lead to it.

use super::{Window, as_document};
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{Column, column, text};
use clap::Args;
use serde_json::{Value, json};

const FIGURE: [Column; 2] = [column("figure", "/figure"), column("value", "/value")];

/// A summary.
#[derive(Args, Clone, Debug)]
pub struct Summary {
    #[command(flatten)]
    window: Window,
    /// What the organisation reported itself as an agent or a platform
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
}

pub(crate) async fn summary(context: &Context, what: &Summary) -> Result<(), Failure> {
    let path = if what.agent { "/agent/summary" } else { "/content-owners/summary" };
    let (client, parameters) = (context.client(Asker::Either)?, what.window.parameters(context));
    if matches!(context.options.output, Format::Json | Format::Ndjson) {
        return as_document(&client, path, &parameters).await;
    }
    let answer = client.get(path, &parameters).await?;
    context.output().list(&answer, &figures("", &answer), &FIGURE)
}

/// Every figure of an answer, with the names that lead to it.
fn figures(path: &str, value: &Value) -> Vec<Value> {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    match value {
        Value::Object(members) => {
            let names: Vec<&str> = members.values().filter_map(Value::as_str).collect();
            // within a list the texts of an item are its name, and its numbers the figures
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
        // hours, not figures: `telemetry coverage` lists them
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
    fn every_figure_of_a_summary_is_a_row_with_the_names_that_lead_to_it() {
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
}
