//! Command output: one JSON document, or a table for people.

use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;
use service_kit::command_output::{OutputFormat, print_json};
use service_kit::http::{ApiError, sanitize_text};
use std::io::Write;

pub(super) struct CommandOutput {
    body: Value,
    columns: &'static [&'static str],
}

impl CommandOutput {
    pub(super) fn list<T: Serialize>(body: &[T], columns: &'static [&'static str]) -> Result<Self, ApiError> {
        Ok(Self { body: serde_json::to_value(body).map_err(ApiError::internal)?, columns })
    }

    pub(super) fn one(body: impl Serialize) -> Result<Self, ApiError> {
        Ok(Self { body: serde_json::to_value(body).map_err(ApiError::internal)?, columns: &[] })
    }

    pub(super) fn print(self, form: OutputFormat) -> anyhow::Result<()> {
        match form {
            OutputFormat::Json => print_json(&self.body),
            OutputFormat::Table => Ok(writeln!(std::io::stdout(), "{}", self.table())?),
        }
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        match &self.body {
            Value::Array(rows) => {
                table.set_header(self.columns.iter().map(|column| column.to_uppercase()));
                for row in rows {
                    table.add_row(self.columns.iter().map(|column| shown(&row[*column])));
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    table.add_row([name.clone(), shown(value)]);
                }
            }
            other => return shown(other),
        }
        // The table style starts every row with a space.
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => sanitize_text::for_terminal(text),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().map(shown).collect::<Vec<_>>().join("\n"),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name} {}", shown(value))).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replaces_control_characters_in_tables() {
        for acting in ['\u{1b}', '\u{7}', '\u{7f}', '\u{9b}', '\u{85}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{2028}']
        {
            let item = json!({"name": format!("a{acting}b"), "list": [{"name": acting}], "names": [acting]});
            let tables = [
                CommandOutput::list(&[&item], &["name", "list", "names"]).unwrap().table(),
                CommandOutput::one(&item).unwrap().table(),
                CommandOutput::one(acting).unwrap().table(),
            ];
            for table in tables {
                assert!(table.contains('\u{fffd}') && !table.contains(acting), "{table:?}");
            }
        }
    }

    #[test]
    fn x12_stored_text_cannot_control_a_terminal() {
        let rows = [json!({"name": "a\u{1b}[2Jb\u{202e}\nc", "scopes": ["x", "y"], "gone": null})];
        let table = CommandOutput::list(&rows, &["name", "scopes", "gone"]).unwrap().table();
        assert!(table.contains("a\u{fffd}[2Jb\u{fffd}\u{fffd}c") && table.contains("x, y"), "{table}");
        assert_eq!(table.lines().count(), 2, "a header and a row: {table}");
        let one = CommandOutput::one(&rows[0]).unwrap().table();
        assert_eq!(one.lines().count(), 3, "{one}");
        let nested = CommandOutput::one(json!({"members": [{"email": "a\u{7}"}, {"email": "b"}], "none": []})).unwrap().table();
        assert_eq!(nested.lines().count(), 3, "one line per object: {nested}");
        assert!(nested.contains("email a\u{fffd}") && !nested.contains('"'), "{nested}");
    }
}
