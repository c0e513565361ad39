//! A statement of a `.sql` file with the values of its parameters.

use clickhouse::Client;
use clickhouse::query::Query;

/// ClickHouse accepts 128 KiB per parameter; a longer list is sent in parts of at most this many bytes.
const MAX_LIST_BYTES: usize = 100_000;

/// The text of a file, and values by name. The values are sent as server-side parameters, never as text.
pub(super) struct Statement {
    text: String,
    values: Vec<(String, Value)>,
}

/// A value of a parameter.
pub(super) enum Value {
    Text(String),
    Number(i64),
    Natural(u64),
    Texts(Vec<String>),
    Numbers(Vec<i64>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Natural(u64::from(is))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Natural(number)
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

impl From<Vec<i64>> for Value {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl Statement {
    /// A statement without values.
    pub(super) fn new(sql: &str) -> Self {
        Self { text: sql.to_owned(), values: Vec::new() }
    }

    /// Sets the parameter `name`. A parameter that the statement doesn't have is ignored.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        match value.into() {
            Value::Texts(texts) => self.list(name, texts, |text| text.len() + 3, Value::Texts),
            Value::Numbers(numbers) => self.list(name, numbers, |_| 21, Value::Numbers),
            value => self.values.push((name.to_owned(), value)),
        }
        self
    }

    /// Sets a list. If it is too long for one parameter, the text gets a concatenation of several in its place. ClickHouse doesn't
    /// fold constants of more than 1 MiB, and would search such a list for every row; a subquery becomes a set.
    fn list<T>(&mut self, name: &str, items: Vec<T>, bytes: impl Fn(&T) -> usize, value: impl Fn(Vec<T>) -> Value) {
        let mut parts = in_parts(items, bytes);
        if parts.len() == 1 {
            self.values.extend(parts.pop().map(|part| (name.to_owned(), value(part))));
            return;
        }
        let Some(kind) = self.kind_of(name) else { return };
        let placeholders: Vec<String> = (0..parts.len()).map(|n| format!("{{{name}_{n}:{kind}}}")).collect();
        let (whole, concatenated) = (format!("{{{name}:{kind}}}"), format!("arrayConcat({})", placeholders.join(", ")));
        let text = self.text.replace(&format!("IN {whole}"), &format!("IN (SELECT arrayJoin({concatenated}))"));
        self.text = text.replace(&whole, &concatenated);
        self.values.extend(parts.into_iter().enumerate().map(|(n, part)| (format!("{name}_{n}"), value(part))));
    }

    /// The type of a parameter, as the text names it.
    fn kind_of(&self, name: &str) -> Option<String> {
        let (_, rest) = self.text.split_once(&format!("{{{name}:"))?;
        rest.split_once('}').map(|(kind, _)| kind.to_owned())
    }

    /// A query that is ready to run.
    pub(super) fn query(self, client: &Client) -> Query {
        self.values.into_iter().fold(client.query_raw(&self.text), |query, (name, value)| match value {
            Value::Text(text) => query.param(&name, text),
            Value::Number(number) => query.param(&name, number),
            Value::Natural(number) => query.param(&name, number),
            Value::Texts(texts) => query.param(&name, texts),
            Value::Numbers(numbers) => query.param(&name, numbers),
        })
    }
}

/// Divides a list into parts that fit into a parameter; at least one.
fn in_parts<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut filled) = (vec![Vec::new()], 0);
    for item in items {
        let size = bytes(&item);
        if filled + size > MAX_LIST_BYTES && filled > 0 {
            parts.push(Vec::new());
            filled = 0;
        }
        filled += size;
        parts.last_mut().expect("there is a part").push(item);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_take_several_parameters() {
        let sites: Vec<String> = (0..10_000).map(|number| format!("com.example{number:020}")).collect();
        let statement =
            Statement::new("{sites:Array(String)} IN {sites:Array(String)} {site:String}").with("sites", sites.clone());
        let parts = statement.values.len();
        let placeholders: Vec<String> = (0..parts).map(|n| format!("{{sites_{n}:Array(String)}}")).collect();
        let list = format!("arrayConcat({})", placeholders.join(", "));
        assert_eq!(statement.text, format!("{list} IN (SELECT arrayJoin({list})) {{site:String}}"));
        let sent = statement.values.iter().flat_map(|(_, value)| match value {
            Value::Texts(texts) => texts.clone(),
            _ => Vec::new(),
        });
        assert_eq!((parts > 3, sent.collect::<Vec<_>>()), (true, sites));
    }

    #[test]
    fn short_lists_take_one_parameter() {
        let statement = Statement::new("{sites:Array(String)}").with("sites", Vec::<String>::new());
        assert_eq!((statement.text.as_str(), statement.values.len()), ("{sites:Array(String)}", 1));
    }
}
