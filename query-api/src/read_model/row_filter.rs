//! What is one's own, and a [`Period`], as conditions on observations, with the values as parameters.
//!
//! Must not put a time into the text.

use super::shards::Shards;
use super::values::Values;
use crate::access::visibility::OwnReports;
use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::event_filter::ReportedBy;
use crate::parameters::period::Period;

/// Which observations a party to them may see, and which of its events it counts.
pub(super) struct RowFilter {
    /// On a row: it is visible, whenever it happened.
    pub(super) visible: String,
    /// On an event, as `shown_at`: it lies in the window.
    pub(super) in_time: String,
    /// On a row: it was reported with a time in the window; `None` without a window.
    pub(super) reported_in_time: Option<String>,
    /// On a row: it was accepted after the walk through the list began, and is of less weight than any from before.
    pub(super) is_late: Option<String>,
    /// On a row: oneself reported it, or another by one's click token. Each is served by one index, and every visible row fulfils one.
    pub(super) found_by: [String; 2],
    /// Those of them of which every row that represents a listed event fulfils one.
    pub(super) represented_by: Vec<String>,
    /// What an event says of whether another reported it; `None` where either is listed.
    pub(super) by_other: Option<String>,
    /// Where it is asked for.
    pub(super) shards: Shards,
    pub(super) values: Values,
}

impl RowFilter {
    /// Whatever an organisation has reported itself, its conversations' turns with it, and what others did with its click
    /// tokens.
    pub(super) fn of_party(own: &OwnReports, period: &Period) -> Self {
        let mut values = Values::default();
        let org = values.text("org", "UUID", own.organization_id().to_string());
        let found_by = [format!("org_id = {org}"), format!("issuer_id = {org}")];
        let bounds = bounds(&mut values, period);
        let in_time = bounds.iter().map(|bound| bound.exactly("shown_at"));
        let reported: Vec<_> = bounds.iter().map(|bound| bound.by_index("at")).collect();
        Self {
            visible: format!("({})", found_by.join(" OR ")),
            in_time: std::iter::once("1".to_owned()).chain(in_time).collect::<Vec<_>>().join(" AND "),
            reported_in_time: (!reported.is_empty()).then(|| reported.join(" AND ")),
            is_late: None,
            represented_by: found_by.to_vec(),
            by_other: None,
            shards: Shards::default(),
            found_by,
            values,
        }
    }

    /// Asked for on these shards.
    pub(super) fn over(self, shards: &Shards) -> Self {
        Self { shards: shards.clone(), ..self }
    }

    /// Only events that oneself or others reported.
    pub(super) fn narrowed(mut self, reported_by: Option<ReportedBy>) -> Self {
        let Some(reported_by) = reported_by else { return self };
        let [own, others] = self.found_by.clone();
        let (found_by, by_other) = match reported_by {
            ReportedBy::Own => (own, 0),
            ReportedBy::Other => (others, 1),
        };
        self.represented_by = vec![found_by];
        self.by_other = Some(self.values.number("by_other", by_other));
        self
    }

    /// Goes on with a walk that has begun: what stood in the list then keeps its place.
    pub(super) fn on(mut self, walk: &Cursor) -> Self {
        if let Some(Position { at_ms, .. }) = &walk.after {
            let late = self.values.text("late", "UInt64", walk.late_version().to_string());
            self.is_late = Some(format!("(version <= {late})"));
            self.values.number("after_ms", *at_ms);
        }
        self
    }
}

/// What the column `moved` of the index says: a report lies further than this from the retrieval's place.
const MOVED_BEYOND_MS: i64 = 86_400_000;

/// One end of a window.
pub(super) struct Bound {
    is: &'static str,
    exact: String,
    /// The same, or the first or last time that the column holds.
    stored: String,
}

impl Bound {
    /// An end in milliseconds that the statement works out itself: `>=` or `<`, and the expression.
    pub(super) fn worked_out(is: &'static str, ms: &str) -> Self {
        Self { is, exact: ms.to_owned(), stored: ms.to_owned() }
    }

    /// On a time: it is on this side of the window's end.
    pub(super) fn exactly(&self, at: &str) -> String {
        format!("toUnixTimestamp64Milli({at}) {} {}", self.is, self.exact)
    }

    /// The same as a comparison of times, so that an index on it serves.
    pub(super) fn by_index(&self, at: &str) -> String {
        format!("{at} {} fromUnixTimestamp64Milli({}, 'UTC')", self.is, self.stored)
    }

    /// On a time: it is on this side of the window's end, by one condition that an index serves, where the column holds the end.
    pub(super) fn on(&self, at: &str) -> String {
        if self.stored == self.exact { self.by_index(at) } else { format!("{} AND {}", self.by_index(at), self.exactly(at)) }
    }

    /// Whether it is the window's begin.
    pub(super) fn is_begin(&self) -> bool {
        self.is == ">="
    }

    /// The end in milliseconds.
    pub(super) fn ms(&self) -> &str {
        &self.exact
    }

    /// On a place in the index: a retrieval that has not moved, and of which anything happened on this side of the window's end,
    /// lies there.
    pub(super) fn by_place(&self) -> String {
        let margin = if self.is == "<" { "+" } else { "-" };
        format!("placed_at {} fromUnixTimestamp64Milli({} {margin} {MOVED_BEYOND_MS}, 'UTC')", self.is, self.stored)
    }
}

/// The ends of a window.
pub(super) fn bounds(values: &mut Values, period: &Period) -> Vec<Bound> {
    let ends = [("from", ">=", period.from_ms), ("before", "<", period.before_ms)];
    let bound = |(name, is, ms): (&str, _, Option<i64>)| {
        let ms = ms?;
        let exact = values.number(name, ms);
        let held = ms.clamp(FIRST_MS, LAST_MS);
        let stored = if held == ms { exact.clone() } else { values.number(&format!("{name}_at"), held) };
        Some(Bound { is, exact, stored })
    };
    ends.into_iter().filter_map(bound).collect()
}

/// The years 1900 and 2299: what `at` can hold, and more than an accepted event has.
pub(super) const FIRST_MS: i64 = -2_208_988_800_000;
const LAST_MS: i64 = 10_413_791_999_999;

#[cfg(test)]
mod tests {
    use super::MOVED_BEYOND_MS;

    #[test]
    fn a_window_reads_as_far_around_it_as_retrievals_lie_that_have_not_moved() {
        let column = schemas::store::CLICKHOUSE_DDL.iter().find(|statement| statement.contains("moved UInt8 MATERIALIZED"));
        assert!(column.expect("the index has the column").contains(&format!("> {MOVED_BEYOND_MS},")));
    }
}
