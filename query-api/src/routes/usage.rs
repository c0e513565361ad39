//! `GET /operator/usage`: how much each organization reports, and how much of its limits it uses (docs/api/identity.md#usage).

use crate::State;
use crate::access::operator::Operator;
use crate::parameters::ReadParameters;
use crate::parameters::paging::Paging;
use axum::Json;
use axum::extract::State as Shared;
use axum::http::{HeaderName, HeaderValue};
use chrono::{DateTime, Utc};
use schemas::identity::{MAX_DRAINS, MAX_KEYS, MAX_MEMBERS};
use serde::Serialize;
use service_kit::auth::{Credential, Tenant};
use service_kit::http::sort::{Sort, Sortable, order_by};
use service_kit::http::{ApiError, Parameters, TOTAL_COUNT};
use std::sync::Arc;
use uuid::Uuid;

const ORGANIZATIONS: &str = include_str!("usage/organizations.sql");
const PAGE: u64 = 100;
const SORTABLE: &Sortable = &[
    ("organization_name", "lower(organization_name) COLLATE \"C\""),
    ("events", "events"),
    ("last_event_at", "coalesce(last_event_at, '-infinity')"),
    ("keys", "keys"),
    ("drains", "drains"),
    ("silent_drains", "silent_drains"),
    ("members", "members"),
    ("limited_requests", "limited_requests"),
];

#[derive(Serialize, sqlx::FromRow)]
pub(crate) struct OrganizationUsage {
    organization_id: Uuid,
    organization_name: String,
    org_type: String,
    events: i64,
    #[serde(serialize_with = "schemas::instant::optional::serialize")]
    last_event_at: Option<DateTime<Utc>>,
    keys: i64,
    drains: i64,
    silent_drains: i64,
    members: i64,
    limited_requests: i64,
    near_limits: Vec<String>,
}

type ListResponse = ([(HeaderName, HeaderValue); 1], Json<Vec<OrganizationUsage>>);

pub(crate) async fn read_usage(
    Shared(state): Shared<Arc<State>>,
    operator: Operator,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<ListResponse, ApiError> {
    asked.reject_unsupported(&["since", "until", "sort", "limit", "offset"])?;
    let period = asked.period()?;
    let paging = Paging::parse(asked.get("limit"), asked.get("offset"), PAGE)?;
    let order = order_by(Sort::parse(asked.get("sort"), SORTABLE)?, "events DESC, organization_id");
    let permit = state.read_limiter.acquire(Credential::User(operator.0), Tenant::Person(operator.0))?;
    let sent = state.reads(&permit).usage(operator, &period).await?;
    let last = |ms| DateTime::from_timestamp_millis(ms).unwrap_or_default();
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let listed = sqlx::query_as(sqlx::AssertSqlSafe(format!("{ORGANIZATIONS} ORDER BY {order} LIMIT $8 OFFSET $9")))
        .bind(state.clock.now())
        .bind(sent.iter().map(|sent| sent.organization).collect::<Vec<_>>())
        .bind(sent.iter().map(|sent| number(sent.events)).collect::<Vec<_>>())
        .bind(sent.iter().map(|sent| last(sent.last_ms)).collect::<Vec<_>>())
        .bind(MAX_KEYS)
        .bind(MAX_DRAINS)
        .bind(MAX_MEMBERS)
        .bind(number(paging.limit))
        .bind(number(paging.offset))
        .fetch_all(&state.pool)
        .await?;
    let total: i64 = sqlx::query_scalar("SELECT count(*) FROM organizations").fetch_one(&state.pool).await?;
    Ok(([(TOTAL_COUNT, HeaderValue::from(total))], Json(listed)))
}
