//! An organization's rejected reports by reason (docs/api/identity.md#rejected-reports). ingest-gateway counts them.

use crate::State;
use crate::access::actor::IdentityReader;
use crate::request::bodies::paging::{ListResponse, Paging};
use axum::extract::State as Shared;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::problem::Code;
use serde::{Deserialize, Serialize};
use service_kit::http::{ApiError, Parameters, parse_instant};
use std::sync::Arc;

const REFUSALS: &str = include_str!("refused_reports.sql");
const COUNT: &str = include_str!("refused_reports_count.sql");
const USUAL: TimeDelta = TimeDelta::days(7);

#[derive(Serialize, sqlx::FromRow)]
pub(crate) struct Refusal {
    route: String,
    status: i16,
    code: String,
    /// The invalid field and the rule it breaks. Both are empty if the response didn't name a field.
    field: String,
    rule: String,
    requests: i64,
    #[serde(serialize_with = "schemas::instant::serialize")]
    last_at: DateTime<Utc>,
    last_request_id: String,
}

#[derive(Deserialize)]
pub(crate) struct Filter {
    since: Option<String>,
    limit: Option<i64>,
    offset: Option<i64>,
}

/// Handles `GET /api/v1/identity/refused-reports`; newest first.
pub(crate) async fn list_refused_reports(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Parameters(which): Parameters<Filter>,
) -> Result<ListResponse<Refusal>, ApiError> {
    let paging = Paging::parse(which.limit, which.offset)?;
    let since = match which.since.as_deref().map(parse_instant) {
        None => state.now() - USUAL,
        Some(Some(since)) => since,
        Some(None) => return Err(ApiError::new(Code::InvalidParameter, "since must be an RFC 3339 time with an offset.")),
    };
    let total = sqlx::query_scalar(COUNT).bind(actor.org_id.0).bind(since).fetch_one(&state.pool).await?;
    let listed = sqlx::query_as(REFUSALS).bind(actor.org_id.0).bind(since).bind(paging.limit).bind(paging.offset);
    Ok(ListResponse::new(listed.fetch_all(&state.pool).await?, total))
}
