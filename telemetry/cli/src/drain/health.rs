//! `telemetry drain health`: what a drain received, by hour (docs/api/identity.md#health-of-a-drain).

use crate::context::Context;
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{Column, column, visible};
use crate::terminal::print_message;
use schemas::identity::HEALTH_HOURS;
use serde_json::Value;

const COLUMNS: [Column; 9] = [
    column("hour", "/hour"),
    column("lines", "/lines"),
    column("AI requests", "/kept"),
    column("human requests", "/people"),
    column("skipped", "/dropped"),
    column("not served", "/refused"),
    column("unreadable", "/bad"),
    column("bytes", "/bytes"),
    column("lag ms", "/lag_ms"),
];
const CSV_COLUMNS: [Column; 9] = [
    column("hour", "/hour"),
    column("lines", "/lines"),
    column("kept", "/kept"),
    column("people", "/people"),
    column("dropped", "/dropped"),
    column("refused", "/refused"),
    column("bad", "/bad"),
    column("bytes", "/bytes"),
    column("lag ms", "/lag_ms"),
];

/// Prints the hours with lines in tables and CSV, and the whole response in JSON.
pub(super) fn print(context: &Context, health: &Value) -> Result<(), Failure> {
    if matches!(context.options.output, Format::Json | Format::Ndjson) {
        return context.output().object(health);
    }
    let hours = health["hours"].as_array().into_iter().flatten();
    let rows: Vec<Value> = hours.filter(|hour| hour["coverage"] == true).cloned().collect();
    context.output().list_as(health, &rows, &COLUMNS, &CSV_COLUMNS)?;
    match health["last_batch_at"].as_str() {
        Some(at) => {
            print_message(&format!(
                "Last {HEALTH_HOURS} hours; hours without lines are not listed. Last lines received at {at}."
            ));
        }
        None => print_message("This drain hasn't received any lines yet."),
    }
    let bad = health["bad_lines"].as_array().into_iter().flatten();
    bad.for_each(|line| {
        let text = |member: &str| visible(line[member].as_str().unwrap_or_default());
        print_message(&format!("Unreadable line at {}, {}: {}", text("seen_at"), text("reason"), text("excerpt")));
    });
    Ok(())
}

pub(crate) fn state(health: &Value) -> &'static str {
    let lines = |name: &str| health[name].as_u64().unwrap_or_default();
    match (health["last_batch_at"].is_string(), lines("lines"), lines("bad")) {
        (false, ..) => "waiting for lines",
        (true, 0, _) => "silent for 48 hours",
        (true, all, bad) if all == bad => "unreadable",
        (true, _, 0) => "receiving",
        (true, ..) => "receiving, some lines unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn derives_the_state_from_the_last_48_hours() {
        let of = |at: Value, lines: u64, bad: u64| state(&json!({"last_batch_at": at, "lines": lines, "bad": bad}));
        assert_eq!(of(json!(null), 0, 0), "waiting for lines");
        assert_eq!(of(json!("t"), 0, 0), "silent for 48 hours");
        assert_eq!(of(json!("t"), 2, 2), "unreadable");
        assert_eq!(of(json!("t"), 2, 1), "receiving, some lines unreadable");
        assert_eq!(of(json!("t"), 2, 0), "receiving");
    }
}
