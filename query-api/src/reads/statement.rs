//! A statement from a `.sql` file with its parameters and tables.

use crate::parameters::event_filter::EventFilter;
use clickhouse::Client;
use clickhouse::query::Query;
use std::borrow::Cow;
use std::fmt::Write as _;
use uuid::Uuid;

/// Comments that a filter's conditions replace, and the files with the conditions.
const FILTERS: [(&str, &str); 2] = [
    ("-- filters.sql", include_str!("../../sql/filters.sql")),
    ("-- filters_lines.sql", include_str!("../../sql/filters_lines.sql")),
];

/// A file's text, values by name, and tables. Only filter conditions are added to the text; tests/it/statement_files.rs compares what
/// ClickHouse receives with the files.
pub(super) struct Statement {
    text: Cow<'static, str>,
    parameters: Vec<(&'static str, Value)>,
    tables: Vec<Table>,
}

/// A temporary table for a list of any length, because ClickHouse limits a parameter to 128 KiB.
struct Table {
    name: &'static str,
    /// Names and types of its columns.
    structure: &'static str,
    /// Query parameters, in TabSeparated format.
    rows: String,
}

/// A value in the format of ClickHouse parameters and table rows.
pub(super) struct Value(String);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        let mut written = String::with_capacity(text.len());
        escape(text, &mut written);
        Self(written)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::from(u64::from(is))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

/// A list of up to 128 KiB as a parameter. Use a table for longer ones.
impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        let quoted: Vec<String> = texts.into_iter().map(|text| format!("'{}'", Self::from(text).0)).collect();
        Self(format!("[{}]", quoted.join(",")))
    }
}

/// A list of up to 128 KiB as a parameter. Use a table for longer ones.
impl From<Vec<i64>> for Value {
    fn from(numbers: Vec<i64>) -> Self {
        let written: Vec<String> = numbers.iter().map(i64::to_string).collect();
        Self(format!("[{}]", written.join(",")))
    }
}

/// Appends text, escaped for TabSeparated and quoted strings.
fn escape(text: &str, to: &mut String) {
    for character in text.chars() {
        if matches!(character, '\\' | '\'' | '`' | '\t' | '\n') {
            to.push('\\');
        }
        to.push(character);
    }
}

impl Statement {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text: text.into(), parameters: Vec::new(), tables: Vec::new() }
    }

    /// Sets the `name` parameter. ClickHouse ignores parameters that the statement doesn't use.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// Adds a filter's conditions.
    pub(super) fn filtered(mut self, filter: &EventFilter) -> Self {
        for (name, value) in filter.values() {
            self = self.with(name, value);
        }
        let names: Vec<&str> = filter.values().map(|(name, _)| name).collect();
        for (comment, file) in FILTERS {
            if !names.is_empty() && self.text.contains(comment) {
                let conditions: Vec<&str> = names.iter().filter_map(|name| condition(file, name)).collect();
                self.text = self.text.replace(comment, &format!("AND {}", conditions.join("\nAND "))).into();
            }
        }
        self
    }

    /// Adds a table with these columns if the statement uses it.
    pub(super) fn with_table<const COLUMNS: usize>(
        mut self,
        name: &'static str,
        structure: &'static str,
        rows: impl IntoIterator<Item = [Value; COLUMNS]>,
    ) -> Self {
        if self.text.contains(name) {
            let mut written = String::new();
            for row in rows {
                written.push_str(&row.map(|Value(value)| value).join("\t"));
                written.push('\n');
            }
            self.tables.push(Table { name, structure, rows: written });
        }
        self
    }

    pub(super) fn query(self, client: &Client) -> Query {
        // Random, so values never contain it.
        let boundary = Uuid::new_v4().simple().to_string();
        let client = client.clone().with_header("Content-Type", format!("multipart/form-data; boundary={boundary}"));
        // Without this setting, ClickHouse treats a first row that equals the column names as a header.
        let query = client.query_raw(&self.form(&boundary)).with_setting("input_format_tsv_detect_header", "0");
        self.tables.iter().fold(query, |query, table| query.with_setting(format!("{}_structure", table.name), table.structure))
    }

    /// Returns the request body as a form, because the ClickHouse client can't send tables with a query.
    fn form(&self, boundary: &str) -> String {
        let mut form = String::new();
        let mut field = |disposition: &str, content: &str| {
            _ = write!(form, "--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n");
        };
        field("name=\"query\"", &self.text);
        for (name, Value(value)) in &self.parameters {
            field(&format!("name=\"param_{name}\""), value);
        }
        for Table { name, rows, .. } in &self.tables {
            field(&format!("name=\"{name}\"; filename=\"{name}\""), rows);
        }
        _ = write!(form, "--{boundary}--\r\n");
        form
    }
}

/// Returns the condition with this parameter, without AND.
fn condition<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    file.trim_end().split("\nAND ").skip(1).find(|condition| condition.contains(&format!("{{{name}:")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::event_filter;
    use service_kit::databases;
    use service_kit::testing::TestStores;

    /// Strings with all characters that must be escaped or that end a field, a row or a form.
    const TEXTS: [&str; 8] = ["", "'", "a\\'b", "\t\n\r\n", "\\N", "\r\n--x--\r\n", "`{a:String}`", "\u{e4}?"];

    #[derive(Debug, PartialEq, Eq, clickhouse::Row, serde::Deserialize)]
    struct Echo {
        text: String,
        texts: Vec<String>,
        numbers: Vec<i64>,
        is: u8,
        given: Vec<(String, i64)>,
        names: Vec<String>,
        listed: Vec<i64>,
    }

    #[test]
    fn every_statement_applies_each_filter_once() {
        for (_, file) in FILTERS {
            for name in event_filter::FILTERS {
                assert!(condition(file, name).is_some(), "{name}");
            }
            assert_eq!(file.matches("\nAND ").count(), event_filter::FILTERS.len(), "{file}");
        }
    }

    #[tokio::test]
    async fn values_round_trip_through_clickhouse() {
        const ECHO: &str = "SELECT {text:String} AS text, {texts:Array(String)} AS texts, {numbers:Array(Int64)} AS numbers, \
                            {is:UInt8} AS is, (SELECT groupArray((name, number)) FROM given_rows) AS given, \
                            (SELECT names FROM given_lists) AS names, \
                            (SELECT numbers FROM given_lists) AS listed";
        let client = databases::clickhouse(&TestStores::fresh().await.clickhouse).unwrap().with_setting("readonly", "1");
        let texts = TEXTS.map(str::to_owned).to_vec();
        let rows: Vec<(String, i64)> = TEXTS.iter().map(|text| (*text).to_owned()).zip(-4..).collect();
        for text in TEXTS {
            let statement = Statement::new(ECHO)
                .with("text", text)
                .with("texts", texts.clone())
                .with("numbers", vec![i64::MIN, 0, i64::MAX])
                .with("is", true)
                .with("unknown", "ignored")
                .with_table("given_rows", "name String, number Int64", rows.iter().map(|(n, i)| [n.as_str().into(), (*i).into()]))
                .with_table(
                    "given_lists",
                    "names Array(String), numbers Array(Int64)",
                    [[texts.clone().into(), vec![i64::MIN, 0, i64::MAX].into()]],
                )
                .with_table("unnamed_rows", "name String", [["a".into()]]);
            let echo: Echo = statement.query(&client).fetch_one().await.unwrap();
            let (texts, numbers) = (texts.clone(), vec![i64::MIN, 0, i64::MAX]);
            let (names, listed) = (texts.clone(), numbers.clone());
            assert_eq!(echo, Echo { text: text.to_owned(), texts, numbers, is: 1, given: rows.clone(), names, listed });
        }
    }

    #[tokio::test]
    async fn external_tables_can_be_empty_or_long() {
        const COUNT: &str = "SELECT count(), uniqExact(name) FROM given_rows";
        let client = databases::clickhouse(&TestStores::fresh().await.clickhouse).unwrap().with_setting("readonly", "1");
        for rows in [0, 1, 200_000_u64] {
            // The first name equals the column name.
            let name = |number| if number == 0 { "name".to_owned() } else { format!("com.example.host-{number}") };
            let names = (0..rows).map(|number| [name(number).into()]);
            let statement = Statement::new(COUNT).with_table("given_rows", "name String", names);
            let counted: (u64, u64) = statement.query(&client).fetch_one().await.unwrap();
            assert_eq!(counted, (rows, rows));
        }
    }
}
