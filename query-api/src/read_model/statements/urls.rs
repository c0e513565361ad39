//! URLs, and sections of them, with their events.

use super::page;
use crate::parameters::pages::PagesBy;
use crate::parameters::sort::{Sort, Sortable, order_by};
use crate::read_model::owned::Owned;
use crate::read_model::retrievals::{retrievals, sessions, shown, site};

/// The section of a page: its host, and the first step of its path where another step follows.
const SECTION: &str = "concat('https://', arrayStringConcat(arrayReverse(splitByChar('.', toString(site))), '.'), \
    if((extract(path(url), '^/[^/]*/') AS first_step) = '', '/', concat(first_step, '*')))";

/// A page of URLs or of sections, most events first when nothing else was asked for.
pub(in crate::read_model) fn urls(owned: &Owned, by: PagesBy, sort: Option<Sort>) -> String {
    let columns = [shown("url"), shown("event_type"), shown("at"), sessions(owned)];
    let (key, retrievals) = match by {
        PagesBy::Url => ("url", retrievals(owned, &columns)),
        PagesBy::Section => {
            let columns: Vec<_> = columns.into_iter().chain([site()]).collect();
            ("section", format!("SELECT event_type, at, sessions, {SECTION} AS section FROM ({})", retrievals(owned, &columns)))
        }
    };
    let urls = format!(
        "SELECT {key} AS url, count() AS events, uniqExactArray(sessions) AS unique_sessions, sumMap(map(event_type, toUInt64(1))) AS by_type, \
           toUnixTimestamp64Milli(max(at)) AS last_ms \
         FROM ({retrievals}) GROUP BY {key}",
    );
    let names = "url, events, unique_sessions, arrayMap(type -> toString(type), mapKeys(by_type)) AS types, mapValues(by_type) AS per_type, last_ms";
    page(owned, &urls, names, &order_by(sort, "events DESC, url"))
}

/// What URLs can be sorted by: their members, and how many of their events are of a type.
pub(crate) const URLS_SORTABLE: &Sortable = &[
    ("content_url", "url"),
    ("total_events", "events"),
    ("unique_sessions", "unique_sessions"),
    ("last_seen", "last_ms"),
    ("content_retrieved", "by_type['content_retrieved']"),
    ("content_grounded", "by_type['content_grounded']"),
    ("content_cited", "by_type['content_cited']"),
    ("content_presented", "by_type['content_presented']"),
    ("content_engaged", "by_type['content_engaged']"),
];
