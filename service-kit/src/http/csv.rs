//! Lists as CSV: one record per item, one cell per member.
//!
//! A column is named after a member; for a nested member, both names are separated by a period. `object.*` contains the object's members
//! that have no column of their own.

use super::sanitize_text;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Marks UTF-8 at the beginning of a file.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";
const OTHERS: &str = ".*";

/// An item, with its members as JSON.
pub type Members<'a> = BTreeMap<&'a str, &'a RawValue>;

/// Returns a column's heading, without periods.
pub fn heading(column: &str) -> String {
    column.replace(OTHERS, ".other").replace('.', "_")
}

/// Returns an item's cells, without JSON and safe for spreadsheets. Missing members are empty.
pub fn cells(item: &Members<'_>, columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| sanitize_text::for_spreadsheet(&text(item, column, columns))).collect()
}

fn text(item: &Members<'_>, column: &str, columns: &[&str]) -> String {
    let (name, inner) = column.split_once('.').unwrap_or((column, ""));
    let Some(value) = item.get(name) else { return String::new() };
    if inner.is_empty() && !value.get().starts_with(['[', '{']) {
        // Numbers keep all digits.
        return serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().replace("null", ""));
    }
    let mut value: Value = serde_json::from_str(value.get()).unwrap_or_default();
    match (inner, value.as_object_mut()) {
        ("", _) => flat(&value),
        ("*", Some(members)) => {
            members.retain(|member, _| !columns.contains(&format!("{name}.{member}").as_str()));
            flat(&value)
        }
        _ => flat(&value[inner]),
    }
}

/// Formats a value as text: items of a list separated by commas, members of an object by semicolons.
fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            members.iter().map(|(name, value)| format!("{name}: {}", flat(value))).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

/// Returns one line with its line ending.
pub fn record(cells: impl Iterator<Item = String>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells.collect::<Vec<_>>()).expect("writing to memory cannot fail");
    writer.into_inner().expect("writing to memory cannot fail")
}

/// Sums of some columns of a file, which is read in parts.
pub struct Totals<'a> {
    summed: &'a [&'a str],
    /// The sum of each column; `None` if it isn't summed.
    sums: Vec<Option<u128>>,
}

impl<'a> Totals<'a> {
    /// Sums the columns with these headings.
    pub fn new(summed: &'a [&'a str]) -> Self {
        Self { summed, sums: Vec::new() }
    }

    /// Adds whole lines. The first ones begin with the headings.
    pub fn add(&mut self, lines: &[u8]) {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(lines);
        for line in reader.records().filter_map(Result::ok) {
            if self.sums.is_empty() {
                self.sums = line.iter().map(|heading| self.summed.contains(&heading).then_some(0)).collect();
                continue;
            }
            for (sum, cell) in self.sums.iter_mut().zip(&line) {
                *sum = sum.map(|sum| sum + cell.parse::<u128>().unwrap_or_default());
            }
        }
    }

    /// Returns the line with the sums, or `None` if no column is summed.
    pub fn line(&self) -> Option<Vec<u8>> {
        let cell = |(at, sum): (usize, &Option<u128>)| match sum {
            Some(sum) => sum.to_string(),
            None if at == 0 => "Total".to_owned(),
            None => String::new(),
        };
        let has_sums = self.sums.iter().any(Option::is_some);
        has_sums.then(|| record(self.sums.iter().enumerate().map(cell)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_sum_the_chosen_columns() {
        let mut totals = Totals::new(&["events", "missing"]);
        totals.add("\u{feff}url,events,sessions\n\"a,\n\",7,1\n".as_bytes());
        totals.add(b"b,18446744073709551615,2\nc,,3\n");
        assert_eq!(totals.line().unwrap(), b"Total,18446744073709551622,\n");
        let mut none = Totals::new(&["events"]);
        none.add(b"url,sessions\na,1\n");
        assert_eq!(none.line(), None);
    }

    #[test]
    fn cells_are_never_formulas() {
        let json = r#"{"a": "a,\"b\"\n", "n": 12345678901234567890, "m": -5, "f": "x;=cmd", "o": {"f": "=cmd"}}"#;
        let columns = ["a", "n", "m", "f", "o.f"];
        let text = record(cells(&serde_json::from_str(json).unwrap(), &columns).into_iter());
        assert_eq!(String::from_utf8(text).unwrap(), "\"a,\"\"b\"\"\n\",12345678901234567890,-5,x;'=cmd,'=cmd\n");
    }

    #[test]
    fn cells_do_not_contain_json() {
        let json = r#"{"scopes": ["a:b", "c"], "by": {"kind": "user", "id": null, "more": {"x": 1.5}}, "none": null,
            "dropped": [{"count": 2, "reason": "asset"}], "yes": true, "big": {"n": 0.1}}"#;
        let item: Members<'_> = serde_json::from_str(json).unwrap();
        for (column, shown) in [
            ("scopes", "a:b, c"),
            ("by.kind", "user"),
            ("by.id", ""),
            ("by.missing", ""),
            ("by.*", "id: ; more: x: 1.5"),
            ("dropped", "count: 2; reason: asset"),
            ("yes", "true"),
            ("none", ""),
            ("none.at", ""),
            ("missing", ""),
        ] {
            assert_eq!(cells(&item, &["by.kind", column])[1], shown, "{column}");
        }
        assert_eq!(["by.kind", "by.*", "a_b"].map(heading), ["by_kind", "by_other", "a_b"]);
    }
}
