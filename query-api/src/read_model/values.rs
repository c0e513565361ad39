//! The values of a statement, each a server-side parameter.
//!
//! Must put no value into the text of a statement, and must keep statement and parameters within what ClickHouse takes over HTTP: 1,000 fields
//! of 128 KiB each, the statement being one of them.

use clickhouse::query::Query;
use schemas::site::Site;
use std::collections::BTreeMap;

/// Ranges of the sorting key that a read names; owners of more domains have neighbours in one range.
const MAX_RANGES: usize = 64;
/// Bytes of one list parameter.
const MAX_LIST_BYTES: usize = 100_000;

/// Names and values, in the order in which they came.
#[derive(Default)]
pub(super) struct Values(Vec<(String, Value)>);

enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    Numbers(Vec<i64>),
}

impl Value {
    fn written(&self) -> String {
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => format!("toInt64({number})"),
            Self::Texts(texts) => format!("CAST({}, 'Array(String)')", list(texts.iter().map(|text| quoted(text)).collect())),
            Self::Numbers(numbers) => {
                format!("CAST({}, 'Array(Int64)')", list(numbers.iter().map(ToString::to_string).collect()))
            }
        }
    }
}

/// A text as ClickHouse reads it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The first text after all that lies beneath the hosts. Not that of the last host: `com.example-a` sorts before
/// `com.example.a`.
fn end_of(hosts: &[Site]) -> String {
    // The byte after the dot.
    hosts.iter().map(|host| format!("{}/", host.as_str())).max().unwrap_or_default()
}

impl Values {
    /// A text, which the server reads as one of `kind`.
    pub(super) fn text(&mut self, name: &str, kind: &str, text: impl Into<String>) -> String {
        self.value(name.to_owned(), kind, Value::Text(text.into()))
    }

    /// A number.
    pub(super) fn number(&mut self, name: &str, number: i64) -> String {
        self.value(name.to_owned(), "Int64", Value::Number(number))
    }

    /// A list of texts, in as many parameters as it takes, which the server reads as an array of `kind`.
    pub(super) fn texts(&mut self, name: &str, kind: &str, texts: impl Iterator<Item = String>) -> String {
        // Two quotes and a comma.
        let lists = chunked(texts, |text| text.len() + 3).into_iter().map(Value::Texts).collect();
        self.lists(name, kind, lists)
    }

    /// A list of numbers.
    pub(super) fn numbers(&mut self, name: &str, numbers: impl Iterator<Item = i64>) -> String {
        let lists = chunked(numbers, |_| 21).into_iter().map(Value::Numbers).collect();
        self.lists(name, "Int64", lists)
    }

    /// A list of sites.
    pub(super) fn sites<'a>(&mut self, name: &str, sites: impl Iterator<Item = &'a Site>) -> String {
        self.texts(name, "String", sites.map(|site| site.as_str().to_owned()))
    }

    /// Ranges of the sorting key that hold every host and what lies beneath it on a label boundary, and whether they hold
    /// nothing else: they do while there are few hosts.
    pub(super) fn ranges(&mut self, beneath: &[Site]) -> (Vec<String>, bool) {
        let range = |(number, hosts): (usize, &[Site])| {
            let mut text = |name: &str, text: String| self.text(&format!("{name}_{number}"), "String", text);
            match hosts {
                [host] => {
                    let (host, beneath) =
                        (text("host", host.as_str().to_owned()), text("beneath", format!("{}.", host.as_str())));
                    format!("site = {host} OR startsWith(site, {beneath})")
                }
                [first, ..] => {
                    let (first, end) = (text("first", first.as_str().to_owned()), text("end", end_of(hosts)));
                    format!("site >= {first} AND site < {end}")
                }
                [] => unreachable!("chunks are never empty"),
            }
        };
        let ranges = beneath.chunks(beneath.len().div_ceil(MAX_RANGES).max(1)).enumerate().map(range).collect();
        (ranges, beneath.len() <= MAX_RANGES)
    }

    fn lists(&mut self, name: &str, kind: &str, lists: Vec<Value>) -> String {
        let kind = format!("Array({kind})");
        let lists = lists.into_iter().enumerate();
        let lists: Vec<_> = lists.map(|(number, list)| self.value(format!("{name}_{number}"), &kind, list)).collect();
        format!("arrayConcat({})", lists.join(", "))
    }

    fn value(&mut self, name: String, kind: &str, value: Value) -> String {
        let placeholder = format!("{{{name}:{kind}}}");
        self.0.push((name, value));
        placeholder
    }

    /// The text with the values in place of their names: for what is kept in the store, which takes no parameters with it.
    pub(super) fn written_into(&self, text: &str) -> String {
        let values: BTreeMap<&str, String> = self.0.iter().map(|(name, value)| (name.as_str(), value.written())).collect();
        let mut parts = text.split('{');
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (placeholder, rest) = part.split_once('}').unwrap_or((part, ""));
            let value = placeholder.split(':').next().and_then(|name| values.get(name));
            // Without a value it stays a parameter, which a kept statement is refused with.
            whole.push_str(&value.cloned().unwrap_or_else(|| format!("{{{placeholder}}}")));
            whole.push_str(rest);
        }
        whole
    }

    /// Hands the values to the statement that names them.
    pub(super) fn bind(self, query: Query) -> Query {
        self.0.into_iter().fold(query, |query, (name, value)| match value {
            Value::Text(text) => query.param(&name, text),
            Value::Texts(texts) => query.param(&name, texts),
            Value::Number(number) => query.param(&name, number),
            Value::Numbers(numbers) => query.param(&name, numbers),
        })
    }
}

/// Lists of no more bytes than a parameter may have; at least one.
fn chunked<T>(items: impl Iterator<Item = T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut lists = vec![(0, Vec::new())];
    for item in items {
        let bytes = bytes_of(&item);
        match lists.last_mut() {
            Some((filled, list)) if *filled + bytes <= MAX_LIST_BYTES => {
                *filled += bytes;
                list.push(item);
            }
            _ => lists.push((bytes, vec![item])),
        }
    }
    lists.into_iter().map(|(_, list)| list).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_several_hosts_holds_whatever_lies_beneath_them() {
        let mut hosts: Vec<Site> =
            ["example.com", "example-a.com", "example0.com", "a.test"].map(|domain| Site::from_domain(domain).unwrap()).into();
        hosts.sort_unstable();
        for hosts in (0..hosts.len()).flat_map(|from| (from + 1..=hosts.len()).map(move |to| from..to)).map(|range| &hosts[range])
        {
            let end = end_of(hosts);
            for host in hosts {
                for beneath in ["", ".-", ".a", ".zz"] {
                    let site = format!("{}{beneath}", host.as_str());
                    assert!(site.as_str() >= hosts[0].as_str() && site < end, "{site} in {hosts:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_written_into_a_text_stays_a_value() {
        let mut values = Values::default();
        let text = values.text("one", "String", "a'b\\c{two}");
        let texts = values.texts("two", "String", ["'x'".to_owned()].into_iter());
        let numbers = values.numbers("three", [-1, 2].into_iter());
        assert_eq!(
            values.written_into(&format!("{text} IN {texts} {numbers} {}", values_of("four"))),
            "'a\\'b\\\\c{two}' IN arrayConcat(CAST(['\\'x\\''], 'Array(String)')) arrayConcat(CAST([-1, 2], 'Array(Int64)')) {four:String}"
        );
    }

    fn values_of(name: &str) -> String {
        format!("{{{name}:String}}")
    }

    #[test]
    fn a_long_list_takes_several_parameters_and_loses_nothing() {
        let mut values = Values::default();
        let placeholder = values.texts("hosts", "String", (0..10_000).map(|number| format!("com.example{number:020}")));
        assert_eq!(placeholder.matches(":Array(String)}").count(), values.0.len());
        let lists = values.0.iter().map(|(_, value)| match value {
            Value::Texts(texts) => texts.as_slice(),
            _ => &[],
        });
        let sizes: Vec<usize> = lists.map(|texts| texts.iter().map(|text| text.len() + 3).sum()).collect();
        assert!(sizes.len() > 3 && sizes.iter().all(|bytes| *bytes <= MAX_LIST_BYTES), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 10_000 * 34);
        assert_eq!(Values::default().texts("none", "String", std::iter::empty()), "arrayConcat({none_0:Array(String)})");
    }
}
