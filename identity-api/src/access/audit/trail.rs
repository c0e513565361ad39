//! Lets an organization read its own audit trail (docs/api/identity.md#audit-trail).

use crate::State;
use crate::access::actor::IdentityReader;
use crate::request::bodies::paging::{ListResponse, Paging};
use axum::extract::State as Shared;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use service_kit::http::{ApiError, Parameters};
use sqlx::Row;
use sqlx::postgres::PgRow;
use std::sync::Arc;
use uuid::Uuid;

const TRAIL: &str = include_str!("trail.sql");
const COUNT: &str = include_str!("trail_count.sql");

#[derive(Serialize)]
pub(crate) struct Entry {
    id: Uuid,
    #[serde(serialize_with = "schemas::instant::serialize")]
    at: DateTime<Utc>,
    actor: Actor,
    action: String,
    object_kind: String,
    object_id: Uuid,
    /// Details that the object's row doesn't contain.
    detail: Value,
}

#[derive(Serialize)]
struct Actor {
    kind: String,
    /// `None`, like the name, if the actor doesn't belong to the organization.
    id: Option<Uuid>,
    name: Option<String>,
}

fn read(row: &PgRow) -> Result<Entry, sqlx::Error> {
    let (kind, id, name) = (row.try_get("actor_kind")?, row.try_get("actor_id")?, row.try_get("actor_name")?);
    Ok(Entry {
        id: row.try_get("id")?,
        at: row.try_get("at")?,
        actor: Actor { kind, id, name },
        action: row.try_get("action")?,
        object_kind: row.try_get("object_kind")?,
        object_id: row.try_get("object_id")?,
        detail: row.try_get("detail")?,
    })
}

#[derive(Deserialize)]
pub(crate) struct Filter {
    action: Option<String>,
    limit: Option<i64>,
    offset: Option<i64>,
}

/// Handles `GET /api/v1/identity/audit`; newest first.
pub(crate) async fn list_audit_entries(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Parameters(which): Parameters<Filter>,
) -> Result<ListResponse<Entry>, ApiError> {
    let paging = Paging::parse(which.limit, which.offset)?;
    // PostgreSQL rejects NUL in text, and actions never contain it.
    if which.action.as_ref().is_some_and(|action| action.contains('\0')) {
        return Ok(ListResponse::new(Vec::new(), 0));
    }
    let total = sqlx::query_scalar(COUNT).bind(actor.org_id.0).bind(&which.action).fetch_one(&state.pool).await?;
    let entries = sqlx::query(TRAIL).bind(actor.org_id.0).bind(which.action).bind(paging.limit).bind(paging.offset);
    Ok(ListResponse::new(entries.try_map(|row| read(&row)).fetch_all(&state.pool).await?, total))
}
