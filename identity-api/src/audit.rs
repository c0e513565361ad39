//! The audit trail: who changed what, written in the transaction of the change.
//!
//! Must hold no secret, and must never be updated.

use crate::actor::{Actor, Credential};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

/// One change.
pub(crate) struct Change {
    /// `<object>.<what happened>`.
    pub(crate) action: &'static str,
    pub(crate) object_kind: &'static str,
    pub(crate) object_id: Uuid,
    /// What the object's own row does not keep.
    pub(crate) detail: Value,
}

/// Writes a change down; it is kept when the caller's transaction is.
pub(crate) async fn record(
    transaction: &mut PgConnection,
    actor: &Actor,
    at: DateTime<Utc>,
    change: Change,
) -> Result<(), sqlx::Error> {
    let (kind, id) = match actor.credential {
        Credential::Key(key) => ("key", key.0),
        Credential::User(user) => ("user", user.0),
    };
    sqlx::query(
        "INSERT INTO audit_log (at, actor_kind, actor_id, organization_id, action, object_kind, object_id, detail) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(at)
    .bind(kind)
    .bind(id)
    .bind(actor.org_id.0)
    .bind(change.action)
    .bind(change.object_kind)
    .bind(change.object_id)
    .bind(change.detail)
    .execute(transaction)
    .await?;
    Ok(())
}
