//! A [`Visibility`], or what is one's own, and a [`Period`] as conditions on rows, with the values as parameters.
//!
//! Must not put a host or a time into the text, and must keep statement and parameters within what ClickHouse takes
//! over HTTP, however many domains an owner has: 1,000 fields of 128 KiB each, the statement being one of them.

use super::faces::Face;
use crate::period::Period;
use crate::visibility::{OwnReports, Visibility};
use crate::walk::{Place, Walk};
use clickhouse::query::Query;
use schemas::site::Site;

/// Ranges of the sorting key that a read names; owners of more domains read some rows that are not theirs, to drop them.
const MAX_RANGES: usize = 64;
/// Bytes of one list parameter.
const MAX_LIST_BYTES: usize = 100_000;

/// Which rows a read may see, and which retrievals it counts.
pub(super) struct Within {
    /// On a row: it is on a host that may be seen. It decides by the site alone, which a repeat shares.
    pub(super) on_hosts: String,
    /// On a row: it is visible, whenever it happened.
    pub(super) visible: String,
    /// On a retrieval, as `shown_site` and `shown_at`: it lies in the window, and in this owner's time.
    pub(super) in_time: String,
    /// `in_time` on a row, as if it represented its retrieval.
    pub(super) row_in_time: String,
    /// Whether the conditions are short: one that holds long lists is not to stand in a statement more often than it must.
    pub(super) is_short: bool,
    /// Whether `in_time` says anything.
    pub(super) is_timed: bool,
    /// Whether `in_time` speaks of `shown_site`.
    pub(super) needs_site: bool,
    /// On a row: it was reported with a time in the window; `None` without a window.
    pub(super) reported_in_time: Option<String>,
    /// On a row: it was accepted after the walk through the list began, and is of less weight than any from before.
    pub(super) is_late: Option<String>,
    /// Who reads. An owner's `visible` says which part of the sorting key to read.
    pub(super) face: Face,
    /// On a row: conditions of which each is served by one index, and of which every visible row fulfils one.
    pub(super) found_by: Vec<String>,
    values: Vec<(String, Value)>,
}

enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    Numbers(Vec<i64>),
}

/// The longest verified suffix of `site`, own or foreign: of all leading parts of the reversed host the last that is
/// in the list.
fn decider(verified: &str, site: &str) -> String {
    format!(
        "arrayLast(part -> part IN {verified}, \
           arrayMap(length -> substring({site}, 1, length - 1), arrayCumSum(label -> length(label) + 1, splitByChar('.', {site}))))"
    )
}

/// The first text after all that lies beneath the hosts. Not that of the last host: `com.example-a` sorts before
/// `com.example.a`.
fn end_of(hosts: &[Site]) -> String {
    // The byte after the dot.
    hosts.iter().map(|host| format!("{}/", host.as_str())).max().unwrap_or_default()
}

impl Within {
    pub(super) fn new(visibility: &Visibility, period: &Period) -> Self {
        let mut within = Self::empty(Face::Owner);
        let own = within.sites("own", visibility.own().iter().map(|own| &own.site));
        let verified = within.sites("verified", visibility.own().iter().map(|own| &own.site).chain(visibility.foreign()));

        // Who owns nothing sees nothing.
        within.visible = "0".to_owned();
        let ranges = within.ranges(visibility.beneath());
        if !ranges.is_empty() {
            within.visible = format!("({})", ranges.join(" OR "));
        }
        let is_decided_by_range = visibility.foreign().is_empty() && visibility.beneath().len() <= MAX_RANGES;
        within.is_short = is_decided_by_range;
        if !is_decided_by_range {
            within.visible.push_str(&format!(" AND {} IN {own}", decider(&verified, "site")));
        }

        let mut in_time = vec!["1".to_owned()];
        let late: Vec<_> = visibility.own().iter().filter_map(|own| Some((&own.site, own.visible_from_ms?))).collect();
        if !late.is_empty() {
            let sites = within.sites("late", late.iter().map(|(site, _)| *site));
            let from =
                within.value("visible_from".to_owned(), "Array(Int64)", Value::Numbers(late.iter().map(|(_, ms)| *ms).collect()));
            in_time.push(format!("{SHOWN_MS} >= transform({}, {sites}, {from}, {EVER_MS})", decider(&verified, "shown_site")));
            (within.is_timed, within.needs_site, within.is_short) = (true, true, false);
        }
        within.on_hosts = within.visible.clone();
        within.visible.push_str(NO_TURNS);
        within.found_by = vec![within.visible.clone()];
        within.in_time = in_time.join(" AND ");
        within.limit_to(period);
        within
    }

    /// Whatever an organisation has reported itself, its conversations' turns with it, and what others did with its click
    /// tokens.
    pub(super) fn of_party(own: &OwnReports, period: &Period) -> Self {
        let mut within = Self::empty(Face::Party);
        let org = within.value("org".to_owned(), "UUID", Value::Text(own.organization_id().to_string()));
        within.found_by = vec![format!("org_id = {org}"), format!("issuer_id = {org}")];
        within.visible = format!("({})", within.found_by.join(" OR "));
        within.in_time = "1".to_owned();
        within.limit_to(period);
        within
    }

    fn empty(face: Face) -> Self {
        Self {
            on_hosts: String::new(),
            visible: String::new(),
            in_time: String::new(),
            row_in_time: String::new(),
            is_short: false,
            is_timed: false,
            needs_site: false,
            reported_in_time: None,
            is_late: None,
            face,
            found_by: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Goes on with a walk that has begun: what stood in the list then keeps its place.
    pub(super) fn on(mut self, walk: &Walk) -> Self {
        if let Some(Place { at_ms, id, key }) = &walk.after {
            let late = self.value("late".to_owned(), "UInt64", Value::Text(walk.late_version().to_string()));
            self.is_late = Some(format!("(version <= {late})"));
            self.values.push(("after_ms".to_owned(), Value::Number(*at_ms)));
            self.values.push(("after_id".to_owned(), Value::Text(id.clone())));
            self.values.push(("after_key".to_owned(), Value::Text(key.to_string())));
        }
        self
    }

    fn limit_to(&mut self, period: &Period) {
        let mut reported = Vec::new();
        for (name, is, ms) in [("from", ">=", period.from_ms), ("before", "<", period.before_ms)] {
            let Some(ms) = ms else { continue };
            self.is_timed = true;
            let bound = self.value(name.to_owned(), "Int64", Value::Number(ms));
            self.in_time.push_str(&format!(" AND {SHOWN_MS} {is} {bound}"));
            // As a time, so that an index on it serves; a time beyond what the column holds is its first or last.
            let at = Value::Number(ms.clamp(FIRST_MS, LAST_MS));
            let at = self.value(format!("{name}_at"), "Int64", at);
            reported.push(format!("at {is} fromUnixTimestamp64Milli({at}, 'UTC')"));
        }
        self.reported_in_time = (!reported.is_empty()).then(|| reported.join(" AND "));
        self.row_in_time = self.in_time.replace("shown_", "");
    }

    /// Ranges of the sorting key that hold every host and what lies beneath it on a label boundary; exactly that
    /// while there are few hosts, neighbours in one range when there are many.
    fn ranges(&mut self, beneath: &[Site]) -> Vec<String> {
        let range = |(number, hosts): (usize, &[Site])| {
            let mut text = |name: &str, text: String| self.value(format!("{name}_{number}"), "String", Value::Text(text));
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
        beneath.chunks(beneath.len().div_ceil(MAX_RANGES).max(1)).enumerate().map(range).collect()
    }

    /// A list of sites, in as many parameters as it takes.
    fn sites<'a>(&mut self, name: &str, sites: impl Iterator<Item = &'a Site>) -> String {
        let mut lists: Vec<(usize, Vec<String>)> = vec![(0, Vec::new())];
        for site in sites {
            // Two quotes and a comma.
            let bytes = site.as_str().len() + 3;
            match lists.last_mut() {
                Some((filled, list)) if *filled + bytes <= MAX_LIST_BYTES => {
                    *filled += bytes;
                    list.push(site.as_str().to_owned());
                }
                _ => lists.push((bytes, vec![site.as_str().to_owned()])),
            }
        }
        let lists = lists.into_iter().enumerate();
        let lists: Vec<_> = lists
            .map(|(number, (_, list))| self.value(format!("{name}_{number}"), "Array(String)", Value::Texts(list)))
            .collect();
        format!("arrayConcat({})", lists.join(", "))
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
            Value::Numbers(numbers) => query.param(&name, numbers),
        })
    }
}

/// Conversations are nobody's but the agent's, whatever the row says (docs/api/reads.md#who-may-read).
const NO_TURNS: &str = " AND NOT startsWith(event_type, 'turn_')";
/// The years 1900 and 2299: what `at` can hold, and more than an accepted event has.
const FIRST_MS: i64 = -2_208_988_800_000;
const LAST_MS: i64 = 10_413_791_999_999;
const SHOWN_MS: &str = "toUnixTimestamp64Milli(shown_at)";
/// Before every event: `at` cannot be that early.
const EVER_MS: &str = "toInt64(-9223372036854775808)";

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
}
