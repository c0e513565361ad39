//! Disables, enables, deletes and tests endpoints.
//!
//! Disabling an endpoint drops its pending deliveries. They are not sent after it is enabled again.

use super::outbox::{self, Event};
use super::{COLUMNS, deliveries, not_found, read};
use crate::access::actor::Actor;
use crate::access::permissions::{self, OwnerAction};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use schemas::ids::WebhookEndpointId;
use schemas::secrets::PlainWebhookSecret;
use schemas::webhook::delivery_log::LoggedDelivery;
use schemas::webhook::{CreatedWebhookEndpoint, Data, EventType, WebhookData, WebhookEndpoint};

/// The times when an endpoint was disabled and deleted.
type Stands = (Option<DateTime<Utc>>, Option<DateTime<Utc>>);

async fn lock(transaction: &mut PgConnection, actor: &Actor, id: WebhookEndpointId) -> Result<Stands, ApiError> {
    let found: Option<Stands> = sqlx::query_as(
        "SELECT disabled_at, deleted_at FROM webhook_endpoints WHERE id = $1 AND organization_id = $2 FOR NO KEY UPDATE",
    )
    .bind(id.0)
    .bind(actor.org_id.0)
    .fetch_optional(transaction)
    .await?;
    found.ok_or_else(not_found)
}

async fn note(
    transaction: &mut PgConnection,
    actor: &Actor,
    id: WebhookEndpointId,
    now: DateTime<Utc>,
    action: &'static str,
) -> Result<(), sqlx::Error> {
    let change = Change { action, object_kind: "webhook_endpoint", object_id: id.0, detail: json!({}) };
    audit::record(transaction, actor, now, change).await
}

/// Handles `DELETE /api/v1/identity/webhooks/{id}`: returns 204, even if it was already deleted. Stops all deliveries to it.
pub(crate) async fn delete_webhook(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let (_, deleted_at) = lock(&mut transaction, &actor, id).await?;
    if deleted_at.is_none() {
        sqlx::query("UPDATE webhook_endpoints SET deleted_at = $2, disabled_at = coalesce(disabled_at, $2) WHERE id = $1")
            .bind(id.0)
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        note(&mut transaction, &actor, id, now, "webhook.deleted").await?;
        transaction.commit().await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    disabled: Option<bool>,
}

pub(crate) fn parse_change(body: &[u8]) -> Result<bool, ApiError> {
    bodies::object::<Changed>(body)?.disabled.ok_or_else(|| rule_broken("disabled", "disabled is required"))
}

/// Handles `PATCH /api/v1/identity/webhooks/{id}`: disables or enables an endpoint. Enabling returns 403 for members who aren't
/// owners.
pub(crate) async fn change_webhook(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Result<Json<WebhookEndpoint>, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let body = state.bodies.read(request).await?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    let disabled = parse_change(&body);
    if matches!(disabled, Ok(false)) {
        permissions::require_owner(&mut transaction, &actor, OwnerAction::Webhooks).await?;
    }
    let (disabled_at, deleted_at) = lock(&mut transaction, &actor, id).await?;
    let disabled = disabled?;
    if deleted_at.is_some() {
        return Err(ApiError::new(Code::Conflict, "The webhook endpoint was deleted. Create a new one."));
    }
    if disabled != disabled_at.is_some() {
        note(&mut transaction, &actor, id, now, if disabled { "webhook.disabled" } else { "webhook.enabled" }).await?;
    }
    let update = format!(
        "UPDATE webhook_endpoints SET disabled_at = CASE WHEN $2 THEN coalesce(disabled_at, $3) END WHERE id = $1 \
         RETURNING {COLUMNS}"
    );
    let changed = sqlx::query(sqlx::AssertSqlSafe(update)).bind(id.0).bind(disabled).bind(now).try_map(|row| read(&row));
    let changed = changed.fetch_one(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(Json(changed))
}

/// Handles `POST /api/v1/identity/webhooks/{id}/test`: returns 202. Sends a `webhook.test` message to this endpoint, whatever its
/// subscriptions, and logs it like any other.
pub(crate) async fn test_webhook(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<LoggedDelivery>), ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Webhooks).await?;
    deliveries::lock(&mut transaction, id, actor.org_id).await?.require_enabled()?;
    state.manual_send_limits.admit(id, actor.org_id)?;
    let data = Data::Webhook(WebhookData { id });
    let event = Event { from: actor.org_id, to: &[actor.org_id], kind: EventType::WebhookTest, at: now, data };
    let delivery = outbox::write(&mut transaction, id, actor.org_id, &event).await?;
    note(&mut transaction, &actor, id, now, "webhook.tested").await?;
    let logged = deliveries::find(&mut *transaction, id, actor.org_id, delivery).await?;
    transaction.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(logged)))
}

/// Handles `POST /api/v1/identity/webhooks/{id}/rotate-secret`: attempts that begin after the response don't use the old secret. The caller
/// becomes the endpoint's creator, so the endpoint is deleted when they are removed.
pub(crate) async fn rotate_secret(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<CreatedWebhookEndpoint>, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let secret = PlainWebhookSecret::generate();
    let sealed = state.sealer.seal(secret.reveal(), id.0.as_bytes()).map_err(ApiError::internal)?;
    let mut transaction = state.pool.begin().await?;
    permissions::require_owner(&mut transaction, &actor, OwnerAction::Webhooks).await?;
    let (kind, maker) = Author::from(actor.credential).name();
    // For a disabled endpoint, the error below rolls this back.
    let rotate = format!(
        "UPDATE webhook_endpoints SET secret_sealed = $3, created_by_kind = $4, created_by = $5 \
         WHERE id = $1 AND organization_id = $2 RETURNING {COLUMNS}"
    );
    let rotated = sqlx::query(sqlx::AssertSqlSafe(rotate))
        .bind(id.0)
        .bind(actor.org_id.0)
        .bind(sealed)
        .bind(kind)
        .bind(maker)
        .try_map(|row| read(&row))
        .fetch_optional(&mut *transaction)
        .await?;
    let endpoint = rotated.ok_or_else(not_found)?;
    if endpoint.disabled_at.is_some() {
        return Err(ApiError::new(Code::Conflict, "The webhook endpoint is disabled. Enable it to replace its secret."));
    }
    note(&mut transaction, &actor, id, state.now(), "webhook.secret_rotated").await?;
    transaction.commit().await?;
    Ok(Json(CreatedWebhookEndpoint { endpoint, secret: secret.reveal().to_owned() }))
}
