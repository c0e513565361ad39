//! A [`Visibility`] and a [`Period`] as conditions on rows, with the values as parameters.
//!
//! Must not put a host or a time into the text: the text depends on nothing but how many territories there are.

use crate::period::Period;
use crate::visibility::{Territory, Visibility};
use clickhouse::query::Query;

/// Which rows a read may see, and which retrievals it counts.
pub(super) struct Within {
    /// On a row: it lies in the caller's territory.
    pub(super) visible: String,
    /// On a retrieval, as `site` and `shown_at`: it lies in the window, and in this owner's time.
    pub(super) in_time: String,
    values: Vec<(String, Value)>,
}

enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
}

impl Within {
    pub(super) fn new(visibility: &Visibility, period: &Period) -> Self {
        let mut within = Self { visible: String::new(), in_time: String::new(), values: Vec::new() };
        let mut visible = Vec::new();
        let mut in_time = vec!["1".to_owned()];
        for (number, territory) in visibility.territories().iter().enumerate() {
            let inside = within.inside(number, territory);
            if let Some(from) = territory.visible_from_ms {
                let own = within.value(format!("visible_from_{number}"), "Int64", Value::Number(from));
                in_time.push(format!("(NOT {inside} OR {SHOWN_MS} >= {own})"));
            }
            visible.push(inside);
        }
        if let Some(from) = period.from_ms {
            let from = within.value("from".to_owned(), "Int64", Value::Number(from));
            in_time.push(format!("{SHOWN_MS} >= {from}"));
        }
        if let Some(before) = period.before_ms {
            let before = within.value("before".to_owned(), "Int64", Value::Number(before));
            in_time.push(format!("{SHOWN_MS} < {before}"));
        }
        // Who owns nothing sees nothing.
        within.visible = if visible.is_empty() { "0".to_owned() } else { visible.join(" OR ") };
        within.in_time = in_time.join(" AND ");
        within
    }

    /// The host and what lies beneath it on a label boundary: two ranges of the sorting key, minus the exceptions.
    fn inside(&mut self, number: usize, territory: &Territory) -> String {
        let site = territory.site.as_str();
        let host = self.value(format!("site_{number}"), "String", Value::Text(site.to_owned()));
        let beneath = self.value(format!("beneath_{number}"), "String", Value::Text(format!("{site}.")));
        let range = format!("(site = {host} OR startsWith(site, {beneath}))");
        if territory.except.is_empty() {
            return range;
        }
        let others = territory.except.iter().map(|other| format!("{}.", other.as_str())).collect();
        let others = self.value(format!("except_{number}"), "Array(String)", Value::Texts(others));
        format!("({range} AND NOT arrayExists(other -> startsWith(concat(site, '.'), other), {others}))")
    }

    fn value(&mut self, name: String, kind: &str, value: Value) -> String {
        let placeholder = format!("{{{name}:{kind}}}");
        self.values.push((name, value));
        placeholder
    }

    /// Hands the values to the statement that holds the conditions.
    pub(super) fn bind(self, query: Query) -> Query {
        self.values.into_iter().fold(query, |query, (name, value)| match value {
            Value::Text(text) => query.param(&name, text),
            Value::Texts(texts) => query.param(&name, texts),
            Value::Number(number) => query.param(&name, number),
        })
    }
}

const SHOWN_MS: &str = "toUnixTimestamp64Milli(shown_at)";
