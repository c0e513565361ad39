//! Results on standard output: tables for people, JSON, JSON lines and CSV for programs (docs/cli.md#output).
//!
//! Writes only data, without characters that control a terminal or run in a spreadsheet (`service_kit::http::sanitize_text`).

use crate::failure::{Failure, reason};
use crate::labels::{capitalized, org_type};
use crate::options::Format;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};
use service_kit::http::sanitize_text;
use std::io::{self, Write};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    content: Content,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    /// The value at this JSON pointer.
    Value(&'static str),
    /// Text computed from the item.
    Computed(fn(&Value) -> String),
}

/// A column with the value at a JSON pointer.
pub(crate) const fn column(title: &'static str, pointer: &'static str) -> Column {
    Column { title, content: Content::Value(pointer) }
}

/// Returns a column with a computed value.
pub(crate) const fn computed_column(title: &'static str, of: fn(&Value) -> String) -> Column {
    Column { title, content: Content::Computed(of) }
}

impl Column {
    fn value(self, item: &Value) -> Value {
        match self.content {
            Content::Value(pointer) => item.pointer(pointer).cloned().unwrap_or_default(),
            Content::Computed(of) => Value::String(of(item)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    /// Prints a list. `whole` is the response that contains it, used for JSON.
    pub(crate) fn list(self, whole: &Value, items: &[Value], columns: &[Column]) -> Result<(), Failure> {
        self.list_as(whole, items, columns, columns)
    }

    /// Like `list`, with different columns in CSV.
    pub(crate) fn list_as(
        self,
        whole: &Value,
        items: &[Value],
        columns: &[Column],
        csv_columns: &[Column],
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => json(whole),
            Format::Ndjson => items.iter().try_for_each(json_line),
            Format::Csv => write(&csv(items, csv_columns)?),
            Format::Table => write(table(items, columns).as_bytes()),
        }
    }

    /// Prints an object; as a table, with the given rows.
    pub(crate) fn object_as(self, object: &Value, facts: &[(&'static str, String)]) -> Result<(), Failure> {
        if self.format == Format::Table { write(rows(facts).as_bytes()) } else { self.object(object) }
    }

    /// Prints an object; as a table or CSV, with a row per member.
    pub(crate) fn object(self, object: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Json => json(object),
            Format::Ndjson => json_line(object),
            Format::Csv => write(&csv(&members(object), &MEMBER)?),
            Format::Table => write(rows(&facts(object)).as_bytes()),
        }
    }

    /// Prints the header of a streamed list; only CSV has one.
    pub(crate) fn header(self, columns: &[Column]) -> Result<(), Failure> {
        if self.format == Format::Csv { write(&csv(&[], columns)?) } else { Ok(()) }
    }

    /// Prints one item of a streamed list; as a table, without a header.
    pub(crate) fn line(self, item: &Value, columns: &[Column], csv_columns: &[Column]) -> Result<(), Failure> {
        match self.format {
            Format::Json | Format::Ndjson => json_line(item),
            Format::Csv => {
                let whole = csv(std::slice::from_ref(item), csv_columns)?;
                let header = whole.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                write(&whole[header..])
            }
            Format::Table => {
                let cells: Vec<String> = columns.iter().map(|column| cell_text(item, *column)).collect();
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

pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Failed(format!("standard output: {}", reason(&error))),
    })
}

pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Failed(error.to_string()))?;
    write(format!("{}\n", sanitize_text::json_for_terminal(&text)).as_bytes())
}

fn json_line(value: &Value) -> Result<(), Failure> {
    write(format!("{}\n", sanitize_text::json_for_terminal(&value.to_string())).as_bytes())
}

/// Prints the service's response as it arrives.
#[derive(Debug, Default)]
pub(crate) struct PassThrough {
    is_csv: bool,
    /// The start of an incomplete character.
    rest: Vec<u8>,
}

impl PassThrough {
    /// Prints CSV unchanged; the service has already escaped its cells.
    pub(crate) fn csv() -> Self {
        Self { is_csv: true, ..Self::default() }
    }

    /// Prints a part; escapes terminal control characters in JSON.
    pub(crate) fn write(&mut self, part: &[u8]) -> Result<(), Failure> {
        if self.is_csv {
            return write(part);
        }
        let text = self.whole_characters(part)?;
        write(sanitize_text::json_for_terminal(&text).as_bytes())
    }

    fn whole_characters(&mut self, part: &[u8]) -> Result<String, Failure> {
        self.rest.extend_from_slice(part);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(Failure::Failed("the service returned invalid UTF-8".to_owned())),
        };
        let rest = self.rest.split_off(whole);
        let text = std::mem::replace(&mut self.rest, rest);
        String::from_utf8(text).map_err(|_| Failure::Failed("the service returned invalid UTF-8".to_owned()))
    }
}

/// Returns columns below their titles, with numbers aligned right.
pub(crate) fn table(items: &[Value], columns: &[Column]) -> String {
    let mut table = plain_table();
    table.set_header(columns.iter().map(|column| column.title.to_uppercase()));
    for item in items {
        table.add_row(columns.iter().map(|column| cell_text(item, *column)));
    }
    for (index, column) in columns.iter().enumerate() {
        let is_number = |item: &Value| column.value(item).is_number();
        if let Some(column) = table.column_mut(index).filter(|_| items.iter().any(is_number)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    without_trailing_blanks(&table)
}

/// Returns one row per fact, with its label.
pub(crate) fn rows<T: AsRef<str>>(facts: &[(T, String)]) -> String {
    let mut table = plain_table();
    for (label, value) in facts {
        table.add_row([visible(label.as_ref()), visible(value)]);
    }
    without_trailing_blanks(&table)
}

/// Returns the members of an object that have a value, with labels: secrets and names first, IDs last.
fn facts(object: &Value) -> Vec<(String, String)> {
    let mut members: Vec<(&String, &Value)> = object.as_object().into_iter().flatten().collect();
    members.sort_by_key(|(name, _)| match name.as_str() {
        "key" | "secret" => 0,
        "name" | "domain" | "url" | "email" | "org_name" => 1,
        "id" => 4,
        name if name.ends_with("_id") => 3,
        _ => 2,
    });
    let fact = |(name, value): (&String, &Value)| match name.as_str() {
        "org_type" => (label(name), org_type(&text(value)).to_owned()),
        name => (label(name), cell(value)),
    };
    members.into_iter().map(fact).filter(|(_, value)| !value.is_empty()).collect()
}

/// Returns the label of an API member: `last_used_at` is "Last used at", `organization_id` is "Organization ID".
fn label(name: &str) -> String {
    let words = name.split('_').map(|word| match word {
        "id" => "ID",
        "url" => "URL",
        "org" => "organization",
        word => word,
    });
    capitalized(&words.collect::<Vec<_>>().join(" "))
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
        let cells = columns.iter().map(|column| sanitize_text::for_spreadsheet(&text(&column.value(item))));
        writer.write_record(cells).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| Failure::Failed(error.to_string()))
}

fn cell_text(item: &Value, column: Column) -> String {
    visible(&cell(&column.value(item)))
}

/// Returns a value as the text of a table cell, without JSON.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Number(ratio) if ratio.is_f64() => format!("{:?}", (ratio.as_f64().unwrap_or_default() * 100.0).round() / 100.0),
        Value::Object(members) => describe_object(members),
        Value::Array(values) if values.iter().any(|value| value.is_object() || value.is_array()) => {
            counts(values).unwrap_or_else(|| values.iter().map(cell).collect::<Vec<_>>().join("; "))
        }
        value => text(value),
    }
}

/// Describes an object in a table cell by its name, or by its members.
fn describe_object(members: &Map<String, Value>) -> String {
    let text_of = |member: &str| members.get(member).and_then(Value::as_str);
    if let Some(kind) = text_of("kind") {
        return text_of("name").map_or_else(|| kind.to_owned(), |name| format!("{name} ({kind})"));
    }
    match (text_of("domain"), members.get("verified"), text_of("outcome"), text_of("at")) {
        (Some(domain), Some(Value::Bool(true)), ..) => format!("{domain} (verified)"),
        (Some(domain), Some(Value::Bool(false)), ..) => format!("{domain} (not verified)"),
        (_, _, Some(outcome), Some(at)) => match members.get("status_code").and_then(Value::as_u64) {
            Some(code) => format!("{outcome} with status code {code} at {at}"),
            None => format!("{outcome} at {at}"),
        },
        _ => {
            let known = members.iter().filter(|(name, value)| !value.is_null() && *name != "organization_id");
            known.map(|(name, value)| format!("{} {}", name.replace('_', " "), cell(value))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns a value as the text of a CSV cell, with nested values as JSON.
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

/// Returns a list of names with counts as text, or `None` for other lists.
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

pub(crate) fn visible(text: &str) -> String {
    sanitize_text::for_terminal(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const COLUMNS: [Column; 2] = [column("name", "/name"), column("count", "/in/count")];

    #[test]
    fn aligns_numbers_right() {
        let items = [json!({"name": "a", "in": {"count": 5}}), json!({"name": "bcd", "in": {"count": 1234}})];
        assert_eq!(table(&items, &COLUMNS), "NAME  COUNT\na         5\nbcd    1234\n");
        let numbers = [json!({"name": 5}), json!({"name": 1234})];
        assert_eq!(table(&numbers, &COLUMNS[..1]), "NAME\n   5\n1234\n");
    }

    #[test]
    fn x32_tables_replace_terminal_controls() {
        let item = json!({"name": "\u{1b}[2Jx\u{9b}\n\u{202e}y", "in": {}});
        assert!(table(&[item], &COLUMNS).contains("\u{fffd}[2Jx\u{fffd}\u{fffd}\u{fffd}y"));
    }

    #[test]
    fn csv_has_no_formulas_after_any_separator() {
        let items = [json!({"name": "x;=cmd"}), json!({"name": "y\n=cmd"}), json!({"name": "\u{1b}]0;=z\u{7}"})];
        let expected = "name,count\nx;'=cmd,\n\"y\n'=cmd\",\n\u{fffd}]0;'=z\u{fffd},\n";
        assert_eq!(String::from_utf8(csv(&items, &COLUMNS).unwrap()).unwrap(), expected);
    }

    #[test]
    fn escapes_characters_split_across_chunks() {
        let mut passed_on = PassThrough::default();
        let (whole, mut printed) = ("{\"a\": \"é\u{9b}\u{202e}\"}", String::new());
        for byte in whole.as_bytes() {
            printed += &sanitize_text::json_for_terminal(&passed_on.whole_characters(&[*byte]).unwrap());
        }
        assert_eq!(printed, "{\"a\": \"é\\u009b\\u202e\"}");
        assert!(passed_on.whole_characters(&[0xff]).is_err());
    }

    #[test]
    fn csv_escapes_formulas_but_not_numbers() {
        let items = [json!({"name": "=1+1", "in": {"count": -1}}), json!({"name": "a,b"})];
        assert_eq!(csv(&items, &COLUMNS).unwrap(), b"name,count\n'=1+1,-1\n\"a,b\",\n");
    }

    #[test]
    fn csv_cells_join_strings_and_keep_nested_json() {
        assert_eq!(text(&json!(["a", 1, true])), "a, 1, true");
        assert_eq!(text(&json!([{"a": 1}])), "[{\"a\":1}]");
        assert_eq!(text(&json!([{"count": 2, "type": "a"}, {"count": 1, "type": "b"}])), "a 2, b 1");
    }

    #[test]
    fn table_cells_do_not_contain_json() {
        assert_eq!(cell(&json!(true)), "yes");
        assert_eq!(cell(&json!(0.456)), "0.46");
        assert_eq!(cell(&json!([{"status": 403, "at": null}, {"status": 404, "at": "x"}])), "status 403; at x, status 404");
        let attempt = json!({"at": "t", "outcome": "rejected", "status_code": 401, "duration_ms": 7});
        assert_eq!(cell(&attempt), "rejected with status code 401 at t");
        let key = json!({"created_by": {"kind": "key", "name": "demo"}, "id": 1, "key": "k", "name": "n", "organization_id": 2, "at": null});
        let expected =
            "Key              k\nName             n\nCreated by       demo (key)\nOrganization ID  2\nID               1\n";
        assert_eq!(rows(&facts(&key)), expected);
    }
}
