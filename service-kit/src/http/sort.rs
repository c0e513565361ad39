//! The `sort` parameter of lists.

use super::ApiError;
use schemas::problem::Code;

/// The fields that a list can be sorted by, each with its column.
pub type Sortable = [(&'static str, &'static str)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    column: &'static str,
    is_descending: bool,
}

impl Sort {
    /// Parses `field` (ascending) or `-field` (descending). `None` means the list's default order.
    pub fn parse(asked: Option<&str>, sortable: &Sortable) -> Result<Option<Self>, ApiError> {
        let Some(asked) = asked else { return Ok(None) };
        let (member, is_descending) = asked.strip_prefix('-').map_or((asked, false), |member| (member, true));
        match sortable.iter().find(|(name, _)| *name == member) {
            Some((_, column)) => Ok(Some(Self { column, is_descending })),
            None => Err(unknown(sortable)),
        }
    }
}

/// Returns the `ORDER BY` expression: the requested order, then the default order.
pub fn order_by(sort: Option<Sort>, usual: &str) -> String {
    match sort {
        Some(Sort { column, is_descending }) => format!("{column} {}, {usual}", if is_descending { "DESC" } else { "ASC" }),
        None => usual.to_owned(),
    }
}

fn unknown(sortable: &Sortable) -> ApiError {
    let names = sortable.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    ApiError::new(Code::InvalidParameter, format!("sort must be one of: {names}, optionally with a - in front."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORTABLE: &Sortable = &[("day", "day"), ("total_events", "events")];

    fn order(asked: &str) -> Option<String> {
        Sort::parse(Some(asked), SORTABLE).ok().map(|sort| order_by(sort, "url"))
    }

    #[test]
    fn minus_sorts_descending() {
        assert_eq!(order("total_events").unwrap(), "events ASC, url");
        assert_eq!(order("-total_events").unwrap(), "events DESC, url");
        assert_eq!(order_by(Sort::parse(None, SORTABLE).unwrap(), "url"), "url");
    }

    #[test]
    fn rejects_unknown_fields() {
        for bad in ["", "-", "--day", "+day", "events", "Day", " day", "day DESC", "day,total_events", "1"] {
            assert_eq!(order(bad), None, "{bad}");
        }
    }
}
