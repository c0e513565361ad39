//! The `limit` and `offset` parameters of lists.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemas::problem::Code;
use serde::{Deserialize, Serialize};
use service_kit::http::{ApiError, Parameters, TOTAL_COUNT};

/// Default and maximum page size of unbounded lists.
const DEFAULT_LIMIT: i64 = 100;
const MAX_LIMIT: i64 = 1_000;

/// A page of an unbounded list, as SQL parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paging {
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

impl Paging {
    /// Parses the two parameters. A limit above the maximum is reduced to it.
    pub(crate) fn parse(limit: Option<i64>, offset: Option<i64>) -> Result<Self, ApiError> {
        let (limit, offset) = (limit.unwrap_or(DEFAULT_LIMIT), offset.unwrap_or(0));
        if limit < 1 || offset < 0 {
            return Err(ApiError::new(Code::InvalidParameter, "limit must be 1 or more, and offset 0 or more."));
        }
        Ok(Self { limit: limit.min(MAX_LIMIT), offset })
    }
}

/// A page of a bounded list: everything by default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundedPaging {
    limit: usize,
    offset: usize,
}

#[derive(Deserialize)]
struct PartParameters {
    limit: Option<i64>,
    offset: Option<i64>,
}

impl<S: Send + Sync> FromRequestParts<S> for BoundedPaging {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Parameters(PartParameters { limit, offset }) = Parameters::from_uri(&parts.uri)?;
        let Paging { offset, .. } = Paging::parse(limit, offset)?;
        let whole = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self { limit: limit.map_or(usize::MAX, whole), offset: whole(offset) })
    }
}

impl BoundedPaging {
    /// Returns this page with at most 1,000 items, for lists that grow with the number of partners.
    pub(crate) fn bounded(self) -> Paging {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        Paging { limit: number(self.limit).min(MAX_LIMIT), offset: number(self.offset) }
    }

    /// Cuts this page out of a whole list.
    pub(crate) fn cut<T>(self, whole: Vec<T>) -> ListResponse<T> {
        let total = whole.len();
        ListResponse { total, items: whole.into_iter().skip(self.offset).take(self.limit).collect() }
    }
}

/// A page of a list as a response, with the total in `x-total-count`.
pub(crate) struct ListResponse<T> {
    items: Vec<T>,
    total: usize,
}

impl<T> ListResponse<T> {
    pub(crate) fn new(items: Vec<T>, total: i64) -> Self {
        Self { items, total: usize::try_from(total).unwrap_or(0) }
    }
}

impl<T: Serialize> IntoResponse for ListResponse<T> {
    fn into_response(self) -> Response {
        ([(TOTAL_COUNT, HeaderValue::from(self.total))], Json(self.items)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_whole_list_without_a_limit() {
        let part = |limit: usize, offset| BoundedPaging { limit, offset }.cut((0..5).collect::<Vec<u32>>()).items;
        assert_eq!(part(usize::MAX, 0), [0, 1, 2, 3, 4]);
        assert_eq!(part(2, 0), [0, 1]);
        assert_eq!(part(2, 4), [4]);
        assert!(part(usize::MAX, usize::MAX).is_empty());
        assert_eq!(BoundedPaging { limit: 1, offset: 9 }.cut(vec![1, 2, 3]).total, 3);
    }
}
