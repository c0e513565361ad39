//! `POST /api/v1/identity/webhooks/{id}/rotate-secret`: another secret from the next attempt on.
//!
//! Must show it in this one answer only, and must store it sealed. Whoever is shown it counts as the endpoint's maker from then on:
//! the endpoint goes when they do.

use super::{COLUMNS, not_found, read};
use crate::State;
use crate::access::actor::IdentityWriter;
use crate::access::audit::{self, Author, Change};
use crate::access::granting::{self, LettingIn};
use axum::Json;
use axum::extract::{Path, State as Shared};
use schemas::ids::WebhookEndpointId;
use schemas::problem::Code;
use schemas::secrets::PlainWebhookSecret;
use schemas::webhook::CreatedWebhookEndpoint;
use serde_json::json;
use service_kit::http::ApiError;
use std::sync::Arc;

/// The old secret signs no attempt that begins after the answer.
pub(crate) async fn rotate_secret(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<CreatedWebhookEndpoint>, ApiError> {
    let id: WebhookEndpointId = id.parse().map_err(|_| not_found())?;
    let secret = PlainWebhookSecret::mint();
    let sealed = state.sealer.seal(secret.reveal(), id.0.as_bytes()).map_err(ApiError::internal)?;
    let mut transaction = state.pool.begin().await?;
    granting::require_owner(&mut transaction, &actor, LettingIn::Webhooks).await?;
    let (kind, maker) = Author::from(actor.credential).name();
    // Of a disabled endpoint nothing of it is kept: the refusal below ends the transaction.
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
    let change = Change { action: "webhook.secret_rotated", object_kind: "webhook_endpoint", object_id: id.0, detail: json!({}) };
    audit::record(&mut transaction, &actor, state.now(), change).await?;
    transaction.commit().await?;
    Ok(Json(CreatedWebhookEndpoint { endpoint, secret: secret.reveal().to_owned() }))
}
