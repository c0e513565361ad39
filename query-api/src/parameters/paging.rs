//! `limit` and `offset` of a list.

use super::invalid;
use schemas::paged_responses::MAX_PAGE;
use service_kit::http::ApiError;

/// Far more than any list has, but small enough for ClickHouse to add a limit to it.
const MAX_OFFSET: u64 = u64::MAX / 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paging {
    /// Maximum number of items: 1 to [`MAX_PAGE`].
    pub(crate) limit: u64,
    pub(crate) offset: u64,
}

impl Paging {
    pub(crate) fn parse(limit: Option<&str>, offset: Option<&str>, page: u64) -> Result<Self, ApiError> {
        let limit = limit.map_or(Some(page), whole_number).filter(|limit| *limit > 0);
        let limit = limit.ok_or_else(|| invalid("limit must be a whole number, 1 or more."))?;
        let offset = offset.map_or(Some(0), whole_number).filter(|offset| *offset <= MAX_OFFSET);
        let offset = offset.ok_or_else(|| invalid(format!("offset must be a whole number from 0 to {MAX_OFFSET}.")))?;
        Ok(Self { limit: limit.min(MAX_PAGE), offset })
    }
}

/// Accepts only digits, because `str::parse` also accepts a sign. A number that is too large counts as the maximum, because a `limit` may
/// have any size.
fn whole_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paging(limit: &str, offset: &str) -> Option<(u64, u64)> {
        Paging::parse(Some(limit), Some(offset), 20).ok().map(|paging| (paging.limit, paging.offset))
    }

    #[test]
    fn clamps_limits_and_rejects_zero() {
        for (limit, expected) in [("1", 1), ("1000", 1_000), ("1001", 1_000), ("007", 7), ("1000000000", 1_000)] {
            assert_eq!(paging(limit, "0"), Some((expected, 0)), "{limit}");
        }
        for large in ["9223372036854775808", "18446744073709551616", &"9".repeat(400)] {
            assert_eq!(paging(large, "0"), Some((1_000, 0)), "{large}");
        }
        for bad in ["0", "-1", "1.5", "+1", " 1", "1 ", "0x10", "１", "", "1e3", "null", "00"] {
            assert_eq!(paging(bad, "0"), None, "{bad}");
        }
        assert_eq!(Paging::parse(None, None, 20).unwrap(), Paging { limit: 20, offset: 0 });
    }

    #[test]
    fn rejects_negative_offsets() {
        assert_eq!(paging("1", "1000000000"), Some((1, 1_000_000_000)));
        for bad in ["-1", "1.5", "+1", "", "0x10", "9223372036854775808", "18446744073709551616"] {
            assert_eq!(paging("1", bad), None, "{bad}");
        }
    }
}
