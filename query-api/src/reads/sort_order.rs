//! A list's sort order.

use super::statement::Statement;
use crate::parameters::sort::{Sort, Sortable};
use service_kit::http::ApiError;

/// A column to sort by. Equal items keep the list's default order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortOrder {
    pub(super) column: &'static str,
    pub(super) is_descending: bool,
}

impl SortOrder {
    pub(super) const fn descending(column: &'static str) -> Self {
        Self { column, is_descending: true }
    }

    /// Parses `member` or `-member`, which sorts the largest first. Returns `None` without a parameter, and 400 for a member that the list
    /// can't be sorted by.
    pub(crate) fn parse(asked: Option<&str>, sortable: &Sortable) -> Result<Option<Self>, ApiError> {
        Sort::parse(asked, sortable)?;
        let order = |asked: &str| {
            let (member, is_descending) = asked.strip_prefix('-').map_or((asked, false), |member| (member, true));
            let (_, column) = sortable.iter().find(|(name, _)| *name == member)?;
            Some(Self { column, is_descending })
        };
        Ok(asked.and_then(order))
    }

    pub(super) fn bind(self, statement: Statement) -> Statement {
        statement.with("sort", self.column).with("is_descending", self.is_descending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_sorts_descending() {
        let sortable: &Sortable = &[("day", "day"), ("total_events", "events")];
        let parse = |asked| SortOrder::parse(asked, sortable).ok();
        assert_eq!(parse(Some("day")), Some(Some(SortOrder { column: "day", is_descending: false })));
        assert_eq!(parse(Some("-total_events")), Some(Some(SortOrder::descending("events"))));
        assert_eq!((parse(None), parse(Some("events")), parse(Some("--day"))), (Some(None), None, None));
    }
}
