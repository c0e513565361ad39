//! `telemetry drain health`: the hours of a drain in rows (docs/api/identity.md#health-of-a-drain).
//!
//! Must not show an hour without a line as zeroes: of such an hour nothing is known.

use crate::context::Context;
use crate::failure::Failure;
use crate::options::Format;
use crate::output::{Column, column, visible};
use crate::talk::say;
use schemas::identity::HEALTH_HOURS;
use serde_json::{Value, json};

const COLUMNS: [Column; 9] = [
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

/// Prints the answer of the service: its hours with a line in a table and in CSV, the whole of it in JSON.
pub(super) fn print(context: &Context, health: &Value) -> Result<(), Failure> {
    if matches!(context.options.output, Format::Json | Format::Ndjson) {
        return context.output().object(health);
    }
    let hours = health["hours"].as_array().into_iter().flatten();
    let rows: Vec<Value> = hours.filter(|hour| hour["coverage"] == true).map(row).collect();
    context.output().list(health, &rows, &COLUMNS)?;
    match health["last_batch_at"].as_str() {
        Some(at) => say(&format!("the last {HEALTH_HOURS} hours; those without a row had no line; last batch {at}")),
        None => say("nothing has come yet"),
    }
    let bad = health["bad_lines"].as_array().into_iter().flatten();
    bad.for_each(|line| {
        let text = |member: &str| visible(line[member].as_str().unwrap_or_default());
        say(&format!("bad: {} {}: {}", text("seen_at"), text("reason"), text("excerpt")));
    });
    Ok(())
}

/// An hour with its refused lines by status as one text.
fn row(hour: &Value) -> Value {
    let refused = hour["refused"].as_array().into_iter().flatten();
    let refused: Vec<String> = refused.map(|of| format!("{} {}", of["status"], of["count"])).collect();
    let mut row = hour.clone();
    row["refused"] = json!(refused);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_lines_of_an_hour_stand_in_one_cell() {
        let hour = json!({"hour": "h", "coverage": true, "lines": 3, "refused": [{"status": 403, "count": 2}, {"status": 304, "count": 1}]});
        assert_eq!(row(&hour)["refused"], json!(["403 2", "304 1"]));
    }
}
