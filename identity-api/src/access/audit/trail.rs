//! The audit trail as an organisation reads its own (docs/api/identity.md#audit-trail).

use crate::State;
use crate::access::actor::IdentityReader;
use crate::request::bodies::paging::{Listed, Paging};
use axum::extract::State as Shared;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use service_kit::http::{ApiError, Parameters};
use std::sync::Arc;
use uuid::Uuid;

const TRAIL: &str = include_str!("trail.sql");
const COUNT: &str = include_str!("trail_count.sql");

/// A change, and who made it.
#[derive(Serialize)]
pub(crate) struct Entry {
    id: Uuid,
    #[serde(serialize_with = "schemas::instant::serialize")]
    at: DateTime<Utc>,
    actor: Actor,
    action: String,
    object_kind: String,
    object_id: Uuid,
    /// What the object's own row does not keep.
    detail: Value,
}

#[derive(Serialize)]
struct Actor {
    kind: String,
    /// Null, as the name is, when it is nobody of the organisation.
    id: Option<Uuid>,
    name: Option<String>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    at: DateTime<Utc>,
    actor_kind: String,
    actor_id: Option<Uuid>,
    actor_name: Option<String>,
    action: String,
    object_kind: String,
    object_id: Uuid,
    detail: Value,
}

impl From<Row> for Entry {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            at: row.at,
            actor: Actor { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
            action: row.action,
            object_kind: row.object_kind,
            object_id: row.object_id,
            detail: row.detail,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Filter {
    action: Option<String>,
    limit: Option<i64>,
    offset: Option<i64>,
}

/// `GET /api/v1/identity/audit`: newest first.
pub(crate) async fn list_audit_entries(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Parameters(which): Parameters<Filter>,
) -> Result<Listed<Entry>, ApiError> {
    let paging = Paging::parse(which.limit, which.offset)?;
    // A character that PostgreSQL does not take stands in no action.
    if which.action.as_ref().is_some_and(|action| action.contains('\0')) {
        return Ok(Listed::new(Vec::new(), 0));
    }
    let total = sqlx::query_scalar(COUNT).bind(actor.org_id.0).bind(&which.action).fetch_one(&state.pool).await?;
    let rows: Vec<Row> = sqlx::query_as(TRAIL)
        .bind(actor.org_id.0)
        .bind(which.action)
        .bind(paging.limit)
        .bind(paging.offset)
        .fetch_all(&state.pool)
        .await?;
    Ok(Listed::new(rows.into_iter().map(Entry::from).collect(), total))
}
