//! The text of a page of URLs.

use super::report::Report;
use super::{listed, retrievals};
use crate::sql::statements::ON_PAGE;
use crate::sql::within::Within;

/// The order of URLs.
const MOST_FIRST: &str = "events DESC, url";

/// A page of URLs, most events first. Each retrieval is of the URL that its representing report names, and so are the sessions of
/// all its reports. What each event type comes to, and sessions, are counted for the URLs on the page only.
pub(in crate::sql) fn urls(within: &Within) -> String {
    let (first, other) = (Report::first(within), Report::other(within, "other"));
    let urls = format!(
        "SELECT url, count() AS events, toUnixTimestamp64Milli(max(at)) AS last_ms FROM {} GROUP BY url",
        retrievals(within, "url, at"),
    );
    let on_page = format!("SELECT * FROM urls ORDER BY {MOST_FIRST} {ON_PAGE}");
    let by_type = format!(
        "SELECT url, groupArray(type) AS types, groupArray(of_type) AS per_type FROM ( \
           SELECT url, toString(event_type) AS type, count() AS of_type FROM {} \
           WHERE url IN (SELECT url FROM on_page) GROUP BY url, type) GROUP BY url",
        retrievals(within, "url, event_type"),
    );
    // What is told of a report depends on its time and on the host of a click token's link.
    let sessions = format!(
        "SELECT url, uniqExactIf(of_report, of_report != 0) AS unique_sessions FROM ( \
           SELECT url, arrayJoin(arrayConcat([{first}], arrayMap(other -> {other}, others))) AS of_report FROM {retrievals} \
           WHERE url IN (SELECT url FROM on_page)) GROUP BY url",
        first = first.session,
        other = other.session,
        retrievals = retrievals(within, "url, at, session, link_site, others"),
    );
    let items = format!(
        "SELECT * FROM on_page INNER JOIN ({by_type}) AS typed USING (url) INNER JOIN ({sessions}) AS seen_by USING (url)"
    );
    let names = "url, events, unique_sessions, types, per_type, last_ms";
    listed(
        within,
        &[("urls", &urls), ("on_page", &on_page)],
        "SELECT count() AS total, 1 AS one FROM urls",
        &items,
        names,
        MOST_FIRST,
    )
}
