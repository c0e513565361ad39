//! Lists webhook endpoints for operators, with their status and failures (docs/api/identity.md#operators).
//!
//! It returns neither secrets nor payloads, and only the host of a URL, because some receivers have a secret in the path. Every read is
//! recorded in the owner's audit trail.

use super::Operator;
use crate::access::audit::AuditedRead;
use crate::access::prelude::*;
use crate::request::bodies::paging::Paging;
use crate::webhooks::{self, COLUMNS, deliveries, not_found};
use schemas::ids::WebhookEndpointId;
use schemas::webhook::EventType;
use schemas::webhook::delivery_log::{LastAttempt, LoggedDelivery};
use service_kit::http::sort::{Sort, Sortable, order_by};
use sqlx::Row;
use sqlx::postgres::PgRow;
use url::Url;

const COUNT: &str = include_str!("count_webhooks.sql");
/// Pending deliveries of the endpoint `l`.
const WAITING: &str = "\
    (SELECT count(*) FROM webhook_queue WHERE l.disabled_at IS NULL AND endpoint_id = l.id AND status = 'pending')";
/// Columns to sort by. Endpoints without an attempt come first.
const SORTABLE: &Sortable = &[
    ("host", "substring(l.url FROM '^https://(?:[^/?#@]*@)?([^/?#]*)') COLLATE \"C\""),
    ("organization_name", "lower(l.organization_name) COLLATE \"C\""),
    ("created_at", "l.created_at"),
    ("last_attempt", "coalesce((l.last_attempt ->> 'at')::timestamptz, '-infinity')"),
    ("waiting", WAITING),
];

/// Selects $4 endpoints after skipping $5, newest first or in the order of `sort`: the one with the id $1, even if deleted, otherwise all
/// that aren't deleted. $2 filters by organization, $3 by failing. Details are looked up only for the endpoints of the page.
fn watched(sort: Option<Sort>) -> String {
    let order = order_by(sort, "l.created_at DESC, l.id DESC");
    format!(
        "WITH listed AS ( \
             SELECT * FROM ( \
                 SELECT w.*, o.name AS organization_name, \
                        coalesce(w.disabled_at IS NULL AND w.last_attempt ->> 'outcome' <> 'delivered', false) AS is_failing \
                 FROM (SELECT {COLUMNS}, organization_id, deleted_at FROM webhook_endpoints \
                       WHERE (($1::uuid IS NULL AND deleted_at IS NULL) OR id = $1) \
                         AND ($2::uuid IS NULL OR organization_id = $2)) w \
                 JOIN organizations o ON o.id = w.organization_id) l \
             WHERE $3::boolean IS NULL OR is_failing = $3 \
             ORDER BY {order} LIMIT $4 OFFSET $5) \
         SELECT l.*, \
                (SELECT actor_kind FROM audit_log \
                 WHERE l.disabled_at IS NOT NULL AND object_kind = 'webhook_endpoint' AND object_id = l.id \
                   AND action IN ('webhook.disabled', 'webhook.deleted') \
                 ORDER BY at DESC, audit_log.id DESC LIMIT 1) AS disabled_by, \
                {WAITING} AS waiting \
         FROM listed l ORDER BY {order}"
    )
}

#[derive(Serialize)]
pub(crate) struct OperatorWebhook {
    id: WebhookEndpointId,
    organization_id: OrgId,
    organization_name: String,
    /// Hostname, with the port if it isn't 443.
    host: String,
    event_types: Vec<EventType>,
    #[serde(with = "schemas::instant")]
    created_at: DateTime<Utc>,
    #[serde(with = "schemas::instant::optional")]
    disabled_at: Option<DateTime<Utc>>,
    #[serde(with = "schemas::instant::optional")]
    deleted_at: Option<DateTime<Utc>>,
    /// Kind of actor that disabled or deleted it. The audit trail contains more.
    disabled_by: Option<String>,
    is_failing: bool,
    last_attempt: Option<LastAttempt>,
    waiting: i64,
}

fn read(row: &PgRow) -> Result<OperatorWebhook, sqlx::Error> {
    let endpoint = webhooks::read(row)?;
    let host = host_of(&endpoint.url).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(OperatorWebhook {
        id: endpoint.id,
        organization_id: OrgId(row.try_get("organization_id")?),
        organization_name: row.try_get("organization_name")?,
        host,
        event_types: endpoint.event_types,
        created_at: endpoint.created_at,
        disabled_at: endpoint.disabled_at,
        deleted_at: row.try_get("deleted_at")?,
        disabled_by: row.try_get("disabled_by")?,
        is_failing: row.try_get("is_failing")?,
        last_attempt: endpoint.last_attempt,
        waiting: row.try_get("waiting")?,
    })
}

/// Returns host and port. User name, password, path, query and fragment may be secrets.
fn host_of(url: &str) -> Result<String, url::ParseError> {
    let url = Url::parse(url)?;
    let host = url.host_str().ok_or(url::ParseError::EmptyHost)?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Ok(format!("{host}{port}"))
}

#[derive(Deserialize)]
pub(crate) struct Filter {
    organization_id: Option<Uuid>,
    failing: Option<bool>,
    sort: Option<String>,
    limit: Option<i64>,
    offset: Option<i64>,
}

/// Handles `GET /api/v1/identity/operator/webhooks`; newest first, or by `sort`.
pub(crate) async fn list_all_webhooks(
    Shared(state): Shared<Arc<State>>,
    Operator(operator): Operator,
    Parameters(which): Parameters<Filter>,
) -> Result<ListResponse<OperatorWebhook>, ApiError> {
    let paging = Paging::parse(which.limit, which.offset)?;
    let sort = Sort::parse(which.sort.as_deref(), SORTABLE)?;
    let watched = sqlx::query(sqlx::AssertSqlSafe(watched(sort)))
        .bind(None::<Uuid>)
        .bind(which.organization_id)
        .bind(which.failing)
        .bind(paging.limit)
        .bind(paging.offset)
        .try_map(|row| read(&row))
        .fetch_all(&state.pool)
        .await?;
    let total = sqlx::query_scalar(COUNT).bind(which.organization_id).bind(which.failing).fetch_one(&state.pool).await?;
    note_read(&state, operator, &watched).await?;
    Ok(ListResponse::new(watched, total))
}

/// Handles `GET /api/v1/identity/operator/webhooks/{id}`, including deleted endpoints.
pub(crate) async fn show_any_webhook(
    Shared(state): Shared<Arc<State>>,
    Operator(operator): Operator,
    Path(id): Path<String>,
) -> Result<Json<OperatorWebhook>, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let watched = sqlx::query(sqlx::AssertSqlSafe(watched(None)))
        .bind(id.0)
        .bind(None::<Uuid>)
        .bind(None::<bool>)
        .bind(1_i64)
        .bind(0_i64)
        .try_map(|row| read(&row))
        .fetch_all(&state.pool)
        .await?;
    note_read(&state, operator, &watched).await?;
    watched.into_iter().next().map(Json).ok_or_else(not_found)
}

/// Records the reads before they are returned.
async fn note_read(state: &State, operator: UserId, watched: &[OperatorWebhook]) -> Result<(), sqlx::Error> {
    let read: Vec<(Uuid, Uuid)> = watched.iter().map(|endpoint| (endpoint.id.0, endpoint.organization_id.0)).collect();
    note(state, operator, "webhook.read", &read).await
}

/// Handles `GET /api/v1/identity/operator/webhooks/{id}/deliveries`: the same log as the owner's, newest first.
pub(crate) async fn list_any_deliveries(
    Shared(state): Shared<Arc<State>>,
    Operator(operator): Operator,
    Path(id): Path<String>,
    Parameters(which): Parameters<deliveries::Filter>,
) -> Result<ListResponse<LoggedDelivery>, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let which = which.parse()?;
    let organization: Option<Uuid> = sqlx::query_scalar("SELECT organization_id FROM webhook_endpoints WHERE id = $1")
        .bind(id.0)
        .fetch_optional(&state.pool)
        .await?;
    let organization = organization.ok_or_else(not_found)?;
    let log = deliveries::log_of(&state.pool, id, OrgId(organization), which).await?;
    note(&state, operator, "webhook.deliveries_read", &[(id.0, organization)]).await?;
    Ok(log)
}

async fn note(state: &State, operator: UserId, action: &'static str, of: &[(Uuid, Uuid)]) -> Result<(), sqlx::Error> {
    let mut connection = state.pool.acquire().await?;
    audit::record_reads(&mut connection, operator, state.now(), AuditedRead { action, object_kind: "webhook_endpoint", of }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_only_host_and_port_of_a_url() {
        for (url, host) in [
            ("https://hooks.a.test/in/x%2Fy", "hooks.a.test"),
            ("https://user:secret@hooks.a.test:8443/in;p=1?token=secret#secret", "hooks.a.test:8443"),
            ("https://hooks.a.test?secret", "hooks.a.test"),
        ] {
            assert_eq!(host_of(url), Ok(host.to_owned()), "{url}");
        }
    }
}
