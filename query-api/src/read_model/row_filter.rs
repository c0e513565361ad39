//! What is one's own, and a [`Period`], as conditions on observations, with the values as parameters.
//!
//! Must not put a time into the text.

use super::values::Values;
use crate::access::visibility::OwnReports;
use crate::parameters::cursor::{Cursor, Position};
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
    /// On a row: conditions of which each is served by one index, and of which every visible row fulfils one.
    pub(super) found_by: Vec<String>,
    pub(super) values: Values,
}

impl RowFilter {
    /// Whatever an organisation has reported itself, its conversations' turns with it, and what others did with its click
    /// tokens.
    pub(super) fn of_party(own: &OwnReports, period: &Period) -> Self {
        let mut values = Values::default();
        let org = values.text("org", "UUID", own.organization_id().to_string());
        let found_by = vec![format!("org_id = {org}"), format!("issuer_id = {org}")];
        let bounds = bounds(&mut values, period);
        let in_time = bounds.iter().map(|bound| bound.exactly("shown_at"));
        let reported: Vec<_> = bounds.iter().map(|bound| bound.by_index("at")).collect();
        Self {
            visible: format!("({})", found_by.join(" OR ")),
            in_time: std::iter::once("1".to_owned()).chain(in_time).collect::<Vec<_>>().join(" AND "),
            reported_in_time: (!reported.is_empty()).then(|| reported.join(" AND ")),
            is_late: None,
            found_by,
            values,
        }
    }

    /// Goes on with a walk that has begun: what stood in the list then keeps its place.
    pub(super) fn on(mut self, walk: &Cursor) -> Self {
        if let Some(Position { at_ms, id, key }) = &walk.after {
            let late = self.values.text("late", "UInt64", walk.late_version().to_string());
            self.is_late = Some(format!("(version <= {late})"));
            self.values.number("after_ms", *at_ms);
            self.values.text("after_id", "String", id.clone());
            self.values.text("after_key", "UInt128", key.to_string());
        }
        self
    }
}

/// One end of a window.
pub(super) struct Bound {
    is: &'static str,
    exact: String,
    stored: String,
}

impl Bound {
    /// On a time: it is on this side of the window's end.
    pub(super) fn exactly(&self, at: &str) -> String {
        format!("toUnixTimestamp64Milli({at}) {} {}", self.is, self.exact)
    }

    /// The same as a comparison of times, so that an index on it serves.
    pub(super) fn by_index(&self, at: &str) -> String {
        format!("{at} {} fromUnixTimestamp64Milli({}, 'UTC')", self.is, self.stored)
    }
}

/// The ends of a window.
pub(super) fn bounds(values: &mut Values, period: &Period) -> Vec<Bound> {
    let ends = [("from", ">=", period.from_ms), ("before", "<", period.before_ms)];
    let bound = |(name, is, ms): (&str, _, Option<i64>)| {
        let ms = ms?;
        // A time beyond what the column holds is its first or last.
        let stored = values.number(&format!("{name}_at"), ms.clamp(FIRST_MS, LAST_MS));
        Some(Bound { is, exact: values.number(name, ms), stored })
    };
    ends.into_iter().filter_map(bound).collect()
}

/// The years 1900 and 2299: what `at` can hold, and more than an accepted event has.
pub(super) const FIRST_MS: i64 = -2_208_988_800_000;
const LAST_MS: i64 = 10_413_791_999_999;
