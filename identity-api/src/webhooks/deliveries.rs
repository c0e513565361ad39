//! An endpoint's delivery log, and redelivery (docs/api/webhooks.md#delivery-log).
//!
//! The log contains attempts and their outcomes, never a receiver's response. Only stream-workers writes the status of deliveries;
//! redelivery is requested in one of this service's tables.

use super::not_found;
use crate::access::columns;
use crate::access::prelude::*;
use crate::request::bodies::paging::Paging;
use schemas::ids::{DeliveryId, WebhookEndpointId};
use schemas::webhook::delivery_log::{DeliveryStatus, LastAttempt, LoggedDelivery};
use sqlx::Row;
use sqlx::postgres::PgRow;

const COUNT: &str = include_str!("count_deliveries.sql");
/// Selects the log. A disabled endpoint's pending deliveries are returned as dropped, even before stream-workers has stored that.
const LOGGED: &str = "\
    SELECT d.id, d.event_type, d.created_at, q.attempts, \
           CASE WHEN q.status = 'pending' AND e.disabled_at IS NOT NULL THEN 'dropped' ELSE q.status END AS status, \
           CASE WHEN q.status = 'pending' AND e.disabled_at IS NULL THEN q.due_at END AS next_attempt_at, \
           q.last_attempt_at, q.last_outcome, q.last_status_code, q.last_duration_ms \
    FROM webhook_deliveries d JOIN webhook_queue q ON q.delivery_id = d.id JOIN webhook_endpoints e ON e.id = d.endpoint_id \
    WHERE d.endpoint_id = $1 AND d.organization_id = $2";

fn read(row: &PgRow) -> Result<LoggedDelivery, sqlx::Error> {
    let last_attempt = match row.try_get("last_attempt_at")? {
        Some(at) => Some(LastAttempt {
            at,
            outcome: columns::named(row, "last_outcome")?,
            status_code: row.try_get::<Option<i32>, _>("last_status_code")?.and_then(|code| u16::try_from(code).ok()),
            duration_ms: row.try_get::<Option<i64>, _>("last_duration_ms")?.unwrap_or(0),
        }),
        None => None,
    };
    Ok(LoggedDelivery {
        id: DeliveryId(row.try_get("id")?),
        event_type: columns::named(row, "event_type")?,
        status: columns::named(row, "status")?,
        attempts: row.try_get("attempts")?,
        created_at: row.try_get("created_at")?,
        next_attempt_at: row.try_get("next_attempt_at")?,
        last_attempt,
    })
}

#[derive(Deserialize)]
pub(crate) struct Filter {
    status: Option<String>,
    limit: Option<i64>,
    offset: Option<i64>,
}

/// Status to list, or all, and the page.
pub(crate) type DeliveryFilter = (Option<DeliveryStatus>, Paging);

impl Filter {
    pub(crate) fn parse(&self) -> Result<DeliveryFilter, ApiError> {
        let status = self.status.as_deref().map(str::parse::<DeliveryStatus>).transpose().map_err(|_| {
            let names = DeliveryStatus::ALL.map(DeliveryStatus::as_str).join(", ");
            ApiError::new(Code::InvalidParameter, format!("status must be one of: {names}."))
        })?;
        Ok((status, Paging::parse(self.limit, self.offset)?))
    }
}

/// Handles `GET /api/v1/identity/webhooks/{id}/deliveries`; newest first, also for disabled endpoints.
pub(crate) async fn list_deliveries(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Path(id): Path<String>,
    Parameters(which): Parameters<Filter>,
) -> Result<ListResponse<LoggedDelivery>, ApiError> {
    let endpoint: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let which = which.parse()?;
    let is_there: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM webhook_endpoints WHERE id = $1 AND organization_id = $2)")
            .bind(endpoint.0)
            .bind(actor.org_id.0)
            .fetch_one(&state.pool)
            .await?;
    if !is_there {
        return Err(not_found());
    }
    log_of(&state.pool, endpoint, actor.org_id, which).await
}

/// Returns the log of an organization's endpoint, newest first.
pub(crate) async fn log_of(
    pool: &PgPool,
    endpoint: WebhookEndpointId,
    org: OrgId,
    (status, paging): DeliveryFilter,
) -> Result<ListResponse<LoggedDelivery>, ApiError> {
    let status = status.map(DeliveryStatus::as_str);
    let total = sqlx::query_scalar(COUNT).bind(endpoint.0).bind(org.0).bind(status).fetch_one(pool).await?;
    let listed = format!(
        "SELECT * FROM ({LOGGED}) l WHERE $3::text IS NULL OR status = $3 ORDER BY created_at DESC, id DESC LIMIT $4 OFFSET $5"
    );
    let deliveries = sqlx::query(sqlx::AssertSqlSafe(listed))
        .bind(endpoint.0)
        .bind(org.0)
        .bind(status)
        .bind(paging.limit)
        .bind(paging.offset)
        .try_map(|row| read(&row))
        .fetch_all(pool)
        .await?;
    Ok(ListResponse::new(deliveries, total))
}

/// Handles `POST /api/v1/identity/webhooks/{id}/deliveries/{delivery_id}/redeliver`: returns 202. Sends the same body with the same id
/// again, with up to eight new attempts, whatever its status.
pub(crate) async fn redeliver(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path((id, delivery)): Path<(String, String)>,
) -> Result<(StatusCode, Json<LoggedDelivery>), ApiError> {
    let endpoint: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let delivery: DeliveryId = delivery.parse().map_err(|_| no_delivery())?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let standing = lock(&mut transaction, endpoint, actor.org_id).await?;
    find(&mut *transaction, endpoint, actor.org_id, delivery).await?;
    standing.require_enabled()?;
    state.manual_send_limits.admit(endpoint, actor.org_id)?;
    order(&mut transaction, delivery, now).await?;
    let change = Change {
        action: "webhook.redelivery_ordered",
        object_kind: "webhook_delivery",
        object_id: delivery.0,
        detail: json!({"endpoint_id": endpoint}),
    };
    audit::record(&mut transaction, &actor, now, change).await?;
    let ordered = find(&mut *transaction, endpoint, actor.org_id, delivery).await?;
    transaction.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(ordered)))
}

/// State that determines whether an endpoint gets deliveries.
#[derive(Clone, Copy)]
pub(super) struct EndpointState {
    is_disabled: bool,
}

impl EndpointState {
    pub(super) fn require_enabled(self) -> Result<(), ApiError> {
        if self.is_disabled {
            return Err(ApiError::new(Code::Conflict, "The webhook endpoint is disabled. Enable it first."));
        }
        Ok(())
    }
}

/// Locks an endpoint before its queue, as the deliverer does. Disabling the endpoint waits for this lock.
pub(super) async fn lock(
    transaction: &mut PgConnection,
    endpoint: WebhookEndpointId,
    org: OrgId,
) -> Result<EndpointState, ApiError> {
    let disabled_at: Option<Option<DateTime<Utc>>> =
        sqlx::query_scalar("SELECT disabled_at FROM webhook_endpoints WHERE id = $1 AND organization_id = $2 FOR SHARE")
            .bind(endpoint.0)
            .bind(org.0)
            .fetch_optional(transaction)
            .await?;
    Ok(EndpointState { is_disabled: disabled_at.ok_or_else(not_found)?.is_some() })
}

async fn order(transaction: &mut PgConnection, delivery: DeliveryId, now: DateTime<Utc>) -> Result<(), ApiError> {
    let ordered = sqlx::query("INSERT INTO webhook_redeliveries (delivery_id, created_at) VALUES ($1, $2)")
        .bind(delivery.0)
        .bind(now)
        .execute(transaction)
        .await;
    match ordered {
        // The delivery was deleted from the log a moment ago.
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => Err(no_delivery()),
        Err(sqlx::Error::Database(error)) if error.constraint() == Some("webhook_backlog_has_room") => {
            Err(ApiError::new(Code::Conflict, "The endpoint's queue is full. Try again after some pending deliveries finish."))
        }
        other => Ok(other.map(drop)?),
    }
}

pub(super) async fn find(
    store: impl PgExecutor<'_>,
    endpoint: WebhookEndpointId,
    org: OrgId,
    delivery: DeliveryId,
) -> Result<LoggedDelivery, ApiError> {
    let found = sqlx::query(sqlx::AssertSqlSafe(format!("{LOGGED} AND d.id = $3")))
        .bind(endpoint.0)
        .bind(org.0)
        .bind(delivery.0)
        .try_map(|row| read(&row))
        .fetch_optional(store)
        .await?;
    found.ok_or_else(no_delivery)
}

fn no_delivery() -> ApiError {
    ApiError::new(Code::NotFound, "Delivery not found.")
}
