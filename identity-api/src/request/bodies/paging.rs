//! Which part of a list: `limit` and `offset` of the lists that may grow without end.
//!
//! Must not know what is listed.

use schemas::problem::Code;
use service_kit::http::ApiError;

/// Items of one answer when nothing is said, and the most of them.
const DEFAULT_LIMIT: i64 = 100;
const MAX_LIMIT: i64 = 1_000;

/// A part of a list, as SQL takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paging {
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

impl Paging {
    /// Reads the two parameters; a limit above the most counts as the most.
    pub(crate) fn parse(limit: Option<i64>, offset: Option<i64>) -> Result<Self, ApiError> {
        let (limit, offset) = (limit.unwrap_or(DEFAULT_LIMIT), offset.unwrap_or(0));
        if limit < 1 || offset < 0 {
            return Err(ApiError::new(Code::InvalidParameter, "limit must be 1 or more, and offset 0 or more."));
        }
        Ok(Self { limit: limit.min(MAX_LIMIT), offset })
    }
}
