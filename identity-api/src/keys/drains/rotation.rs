//! `POST /api/v1/identity/drains/{id}/rotate`: another key, beside the old one for an hour.
//!
//! Must leave at most two keys of a drain working: the new one, and the one that it replaces.

use super::{find, holder, with_key};
use crate::State;
use crate::access::actor::IdentityWriter;
use crate::access::audit::{self, Change};
use crate::access::granting::{self, LettingIn};
use crate::keys::api_keys;
use axum::Json;
use axum::extract::{Path, State as Shared};
use chrono::{DateTime, TimeDelta, Utc};
use schemas::identity::CreatedDrain;
use schemas::ids::{ApiKeyId, DrainId};
use serde_json::json;
use service_kit::http::ApiError;
use sqlx::PgConnection;
use std::sync::Arc;
use uuid::Uuid;

/// How long the key that is replaced goes on working: whoever pastes the new one at a CDN loses no batch meanwhile.
const OLD_KEY_STANDS: TimeDelta = TimeDelta::hours(1);

/// The old key stands for an hour, one that was replaced before ends now.
pub(crate) async fn rotate_key(
    Shared(state): Shared<Arc<State>>,
    IdentityWriter(actor): IdentityWriter,
    Path(id): Path<String>,
) -> Result<Json<CreatedDrain>, ApiError> {
    let mut transaction = state.pool.begin().await?;
    granting::require_owner(&mut transaction, &actor, LettingIn::Drains).await?;
    let drain = find(&mut *transaction, &actor, &id).await?;
    let now = state.now();
    for key in replaced_before(&mut transaction, drain.id).await? {
        api_keys::revoke(&mut transaction, actor.credential.into(), ApiKeyId(key), Some(actor.org_id), now).await?;
    }
    let replaced = let_expire(&mut transaction, drain.id, now + OLD_KEY_STANDS).await?;
    let detail = json!({"replaced": replaced});
    let change = Change { action: "drain.key_rotated", object_kind: "drain", object_id: drain.id.0, detail };
    audit::record(&mut transaction, &actor, now, change).await?;
    let holder = holder(&mut transaction, &actor).await?;
    let rotated = with_key(&mut transaction, &actor, holder, drain, now).await?;
    transaction.commit().await?;
    Ok(Json(rotated))
}

async fn replaced_before(transaction: &mut PgConnection, drain: DrainId) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar("SELECT id FROM api_keys WHERE drain_id = $1 AND revoked_at IS NULL AND expires_at > now() ORDER BY id")
        .bind(drain.0)
        .fetch_all(transaction)
        .await
}

async fn let_expire(transaction: &mut PgConnection, drain: DrainId, at: DateTime<Utc>) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar(
        "UPDATE api_keys SET expires_at = $2 WHERE drain_id = $1 AND revoked_at IS NULL AND expires_at IS NULL RETURNING id",
    )
    .bind(drain.0)
    .bind(at)
    .fetch_all(transaction)
    .await
}
