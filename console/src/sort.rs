//! Sorts tables by the column in the address: `sort=column`, or `sort=-column` for descending order.

use crate::measures::help;
use crate::numbers::{Digits, Share, Time};
use askama::filters::HtmlSafe;
use serde::Deserialize;
use std::cmp::Ordering;
use std::fmt::{Display, Formatter};

/// Query parameter of pages without a period.
#[derive(Default, Deserialize)]
pub(crate) struct SortParameter {
    #[serde(default)]
    pub(crate) sort: String,
}

/// A sort key. Missing values come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Unknown,
    Number(u128),
    Text(String),
}

impl Key {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_lowercase())
    }

    pub(crate) fn number(number: u64) -> Self {
        Self::Number(number.into())
    }

    /// Sorts a whole number that may exceed 64 bits.
    pub(crate) fn digits(number: &Digits) -> Self {
        number.0.to_string().parse().map_or(Self::Unknown, Self::Number)
    }

    pub(crate) fn known(number: Option<u64>) -> Self {
        number.map_or(Self::Unknown, Self::number)
    }

    pub(crate) fn time(time: Option<Time>) -> Self {
        Self::known(time.map(|time| time.0.timestamp_millis().try_into().unwrap_or_default()))
    }

    /// Sorts a share. A share of nothing is unknown.
    pub(crate) fn share(share: Share) -> Self {
        const PARTS: u128 = 1 << 64;
        (u128::from(share.part) * PARTS).checked_div(share.whole.into()).map_or(Self::Unknown, Self::Number)
    }
}

/// Creates the headings of a page's tables, which sort them.
pub(crate) struct Headings {
    /// Address of the page without `sort`.
    address: String,
    asked: String,
    /// Order without `sort`.
    usual: &'static str,
}

impl Headings {
    pub(crate) fn new(address: String, asked: &str, usual: &'static str) -> Self {
        Self { address, asked: asked.to_owned(), usual }
    }

    /// Returns the requested order, for links that keep it.
    pub(crate) fn asked(&self) -> &str {
        &self.asked
    }

    /// Returns a text column's heading, ascending first.
    pub(crate) fn text(&self, column: &'static str, label: &'static str) -> Heading {
        self.heading(column, label, false)
    }

    /// Returns a number column's heading, descending first.
    pub(crate) fn number(&self, column: &'static str, label: &'static str) -> Heading {
        Heading { is_number: true, ..self.heading(column, label, true) }
    }

    /// Returns a time column's heading, latest first.
    pub(crate) fn time(&self, column: &'static str, label: &'static str) -> Heading {
        self.heading(column, label, true)
    }

    fn heading(&self, column: &'static str, label: &'static str, is_first_descending: bool) -> Heading {
        let (sorted_by, is_descending) = parts(if self.asked.is_empty() { self.usual } else { &self.asked });
        let order = (sorted_by == column).then_some(if is_descending { "descending" } else { "ascending" });
        let is_next_descending = order.map_or(is_first_descending, |_| !is_descending);
        let sign = if self.address.contains('?') { '&' } else { '?' };
        let minus = if is_next_descending { "-" } else { "" };
        let href = format!("{}{sign}sort={minus}{column}", self.address).replace('&', "&amp;");
        Heading { label, href, order, is_number: false }
    }

    /// Sorts a complete list in the requested order, with a stable sort. `key` returns `None` for unknown columns.
    pub(crate) fn sort<T>(&self, rows: &mut [T], key: impl Fn(&T, &str) -> Option<Key>) {
        let (column, is_descending) = parts(&self.asked);
        rows.sort_by(|one, other| match (key(one, column), key(other, column)) {
            (Some(one), Some(other)) if is_descending => other.cmp(&one),
            (Some(one), Some(other)) => one.cmp(&other),
            _ => Ordering::Equal,
        });
    }
}

/// Returns the column, and whether the order is descending.
fn parts(sort: &str) -> (&str, bool) {
    sort.strip_prefix('-').map_or((sort, false), |column| (column, true))
}

/// A heading with a link that sorts the table, or reverses its order.
pub(crate) struct Heading {
    label: &'static str,
    href: String,
    order: Option<&'static str>,
    is_number: bool,
}

impl HtmlSafe for Heading {}

impl Display for Heading {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("<th scope=\"col\"")?;
        if self.is_number {
            f.write_str(" class=\"number\"")?;
        }
        if let Some(order) = self.order {
            write!(f, " aria-sort=\"{order}\"")?;
        }
        write!(f, "><a href=\"{}\">{}</a>{}</th>", self.href, self.label, help(self.label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(asked: &str) -> Vec<&'static str> {
        let mut rows = ["b", "Ä", "a", "cc"];
        let headings = Headings::new("/".to_owned(), asked, "");
        headings.sort(&mut rows, |row, column| match column {
            "name" => Some(Key::text(row)),
            "length" => Some(Key::number(row.chars().count() as u64)),
            "known" => Some(Key::known(row.strip_prefix('c').map(|_| 1))),
            _ => None,
        });
        rows.to_vec()
    }

    #[test]
    fn sort_is_stable() {
        assert_eq!(sorted("name"), ["a", "b", "cc", "Ä"]);
        assert_eq!(sorted("-name"), ["Ä", "cc", "b", "a"]);
        assert_eq!(sorted("-length"), ["cc", "b", "Ä", "a"]);
        assert_eq!(sorted("known"), ["b", "Ä", "a", "cc"]);
        for unknown in ["", "-", "other", "--name", "NAME"] {
            assert_eq!(sorted(unknown), ["b", "Ä", "a", "cc"], "{unknown}");
        }
    }

    #[test]
    fn heading_links_to_the_next_order() {
        let heading = |asked: &str, usual: &'static str| {
            let headings = Headings::new("/pages?a=1&b=2".to_owned(), asked, usual);
            [headings.text("name", "Name").to_string(), headings.number("events", "Events").to_string()]
        };
        let [name, events] = heading("", "-events");
        assert_eq!(name, "<th scope=\"col\"><a href=\"/pages?a=1&amp;b=2&amp;sort=name\">Name</a></th>");
        let linked = "<a href=\"/pages?a=1&amp;b=2&amp;sort=events\">Events</a>";
        assert_eq!(
            events,
            format!("<th scope=\"col\" class=\"number\" aria-sort=\"descending\">{linked}{}</th>", help("Events"))
        );
        let [name, events] = heading("name", "-events");
        assert!(name.contains("aria-sort=\"ascending\"") && name.contains("sort=-name\""), "{name}");
        assert!(!events.contains("aria-sort") && events.contains("sort=-events\""), "{events}");
        let plain = Headings::new("/keys".to_owned(), "\"><script>", "").text("name", "Name").to_string();
        assert_eq!(plain, "<th scope=\"col\"><a href=\"/keys?sort=name\">Name</a></th>");
    }
}
