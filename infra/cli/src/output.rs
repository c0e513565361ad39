//! Answers on standard output: tables for people, JSON, JSON lines and CSV for programs (docs/cli.md#output).
//!
//! Must write data and nothing else, and no control character of it to a terminal in a table.

use crate::failure::{Failure, reason};
use crate::options::Format;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};
use std::io::{self, Write};

/// A column of a table and of CSV: its title, and where its value stands in an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    pointer: &'static str,
}

/// A column.
pub(crate) const fn column(title: &'static str, pointer: &'static str) -> Column {
    Column { title, pointer }
}

/// Where answers go, in one form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    /// Prints a list; `whole` is the answer it stood in, for JSON.
    pub(crate) fn list(self, whole: &Value, items: &[Value], columns: &[Column]) -> Result<(), Failure> {
        match self.format {
            Format::Json => json(whole),
            Format::Ndjson => items.iter().try_for_each(|item| write(format!("{item}\n").as_bytes())),
            Format::Csv => write(&csv(items, columns)?),
            Format::Table => write(table(items, columns).as_bytes()),
        }
    }

    /// Prints one thing: in a table, and in CSV, a row for each member.
    pub(crate) fn object(self, object: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Json => json(object),
            Format::Ndjson => write(format!("{object}\n").as_bytes()),
            Format::Csv => write(&csv(&members(object), &MEMBER)?),
            Format::Table => write(pairs(object).as_bytes()),
        }
    }

    /// Prints what goes before the lines of a list: in CSV its header.
    pub(crate) fn header(self, columns: &[Column]) -> Result<(), Failure> {
        if self.format == Format::Csv { write(&csv(&[], columns)?) } else { Ok(()) }
    }

    /// Prints a line of a list that has no end: JSON lines for programs, columns without a header for people.
    pub(crate) fn line(self, item: &Value, columns: &[Column]) -> Result<(), Failure> {
        match self.format {
            Format::Json | Format::Ndjson => write(format!("{item}\n").as_bytes()),
            Format::Csv => {
                let whole = csv(std::slice::from_ref(item), columns)?;
                let header = whole.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                write(&whole[header..])
            }
            Format::Table => {
                let cells: Vec<String> = columns.iter().map(|column| shown(item, *column)).collect();
                write(format!("{}\n", cells.join("  ")).as_bytes())
            }
        }
    }
}

const MEMBER: [Column; 2] = [column("member", "/member"), column("value", "/value")];

fn members(object: &Value) -> Vec<Value> {
    let empty = Map::new();
    let all = object.as_object().unwrap_or(&empty);
    all.iter().map(|(name, value)| serde_json::json!({"member": name, "value": text(value)})).collect()
}

/// Writes to standard output.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Failed(format!("standard output: {}", reason(&error))),
    })
}

/// One JSON document.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Failed(error.to_string()))?;
    write(format!("{text}\n").as_bytes())
}

/// Columns under their titles; numbers stand at the right.
fn table(items: &[Value], columns: &[Column]) -> String {
    let mut table = plain_table();
    table.set_header(columns.iter().map(|column| column.title.to_uppercase()));
    for item in items {
        table.add_row(columns.iter().map(|column| shown(item, *column)));
    }
    for (index, column) in columns.iter().enumerate() {
        let is_number = |item: &Value| item.pointer(column.pointer).is_some_and(Value::is_number);
        if let Some(column) = table.column_mut(index).filter(|_| items.iter().any(is_number)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    without_trailing_blanks(&table)
}

/// A member a line.
fn pairs(object: &Value) -> String {
    let mut table = plain_table();
    for member in members(object) {
        table.add_row(MEMBER.iter().map(|column| shown(&member, *column)));
    }
    without_trailing_blanks(&table)
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn without_trailing_blanks(table: &Table) -> String {
    let lines = table.to_string();
    lines.lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line).trim_end())).collect()
}

fn csv(items: &[Value], columns: &[Column]) -> Result<Vec<u8>, Failure> {
    let failed = |error: csv::Error| Failure::Failed(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| column.title)).map_err(failed)?;
    for item in items {
        let cells = columns.iter().map(|column| inert(item.pointer(column.pointer).unwrap_or(&Value::Null)));
        writer.write_record(cells).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| Failure::Failed(error.to_string()))
}

/// A text that a spreadsheet would run as a formula is preceded by an apostrophe, as in the service's own CSV.
fn inert(value: &Value) -> String {
    let plain = text(value);
    if value.is_string() && plain.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{plain}") } else { plain }
}

fn shown(item: &Value, column: Column) -> String {
    match item.pointer(column.pointer).unwrap_or(&Value::Null) {
        Value::Number(ratio) if ratio.is_f64() => format!("{:?}", (ratio.as_f64().unwrap_or_default() * 100.0).round() / 100.0),
        value => visible(&text(value)),
    }
}

/// A value in one cell.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().all(|value| !value.is_object() && !value.is_array()) => {
            values.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        Value::Array(values) => counts(values).unwrap_or_else(|| value.to_string()),
        other => other.to_string(),
    }
}

/// Names with a count each, where a list holds nothing else.
fn counts(values: &[Value]) -> Option<String> {
    let of = |value: &Value| {
        let members: Vec<&Value> = value.as_object()?.values().collect();
        match members.as_slice() {
            [Value::String(name), Value::Number(count)] | [Value::Number(count), Value::String(name)] => {
                Some(format!("{name} {count}"))
            }
            _ => None,
        }
    };
    Some(values.iter().map(of).collect::<Option<Vec<_>>>()?.join(", "))
}

/// The same text with nothing in it that steers a terminal.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 2] = [column("name", "/name"), column("count", "/in/count")];

    #[test]
    fn a_table_has_titles_and_numbers_at_the_right() {
        let items = [json!({"name": "a", "in": {"count": 5}}), json!({"name": "bcd", "in": {"count": 1234}})];
        assert_eq!(table(&items, &COLUMNS), "NAME  COUNT\na         5\nbcd    1234\n");
        let numbers = [json!({"name": 5}), json!({"name": 1234})];
        assert_eq!(table(&numbers, &COLUMNS[..1]), "NAME\n   5\n1234\n");
    }

    #[test]
    fn what_steers_a_terminal_is_not_shown() {
        let item = json!({"name": "\u{1b}[2Jx\u{9b}\n", "in": {}});
        assert!(table(&[item], &COLUMNS).contains("\u{fffd}[2Jx\u{fffd}\u{fffd}"));
    }

    #[test]
    fn a_formula_is_a_text_in_csv_and_a_negative_number_stays_one() {
        let items = [json!({"name": "=1+1", "in": {"count": -1}}), json!({"name": "a,b"})];
        assert_eq!(csv(&items, &COLUMNS).unwrap(), b"name,count\n'=1+1,-1\n\"a,b\",\n");
    }

    #[test]
    fn lists_of_texts_stand_in_one_cell_and_what_is_nested_stays_json() {
        assert_eq!(text(&json!(["a", 1, true])), "a, 1, true");
        assert_eq!(text(&json!([{"a": 1}])), "[{\"a\":1}]");
        assert_eq!(text(&json!([{"count": 2, "type": "a"}, {"count": 1, "type": "b"}])), "a 2, b 1");
    }
}
