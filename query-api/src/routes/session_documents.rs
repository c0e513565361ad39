//! `GET /sessions/{id}/document`: a session in the archive format of the public standard, for the organization that reported
//! it.

mod assemble;

use crate::State;
use crate::access::consent::with_deadline;
use crate::access::session_scope::SessionScope;
use crate::parameters::ReadParameters;
use crate::read_limiter::AdmittedReader;
use crate::reads::SessionPart;
use crate::respond::streamed_response;
use axum::extract::State as Shared;
use axum::http::Uri;
use axum::response::Response;
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::problem::Code;
use service_kit::http::{ApiError, Parameters};
use sqlx::PgPool;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Session members stored in PostgreSQL.
#[derive(sqlx::FromRow)]
struct Facts {
    /// `user` if none was reported.
    initiator_type: String,
    agent_id: Option<String>,
    manifest_ref: Option<String>,
    content_scope: Option<String>,
    parent_session_id: Option<String>,
    external_session_id: Option<String>,
    prior_session_ids: Vec<Uuid>,
    privacy_level: Option<i16>,
    started_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    outcome: Option<String>,
    extra: Option<String>,
    created_at: DateTime<Utc>,
}

pub(crate) async fn read_document(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedReader,
    uri: Uri,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported(&["organization_id"])?;
    let org = reading.reader.org_id;
    let session = uri.path().rsplit('/').nth(1).and_then(|id| Uuid::try_parse(id).ok()).map(SessionId).ok_or_else(unknown)?;
    let facts = facts_of(&state.pool, org, session).await?.ok_or_else(unknown)?;
    let scope = SessionScope::granted(org, session);
    let read = state.reads(&reading.permit).session_events(scope, SessionPart::Whole).await?;
    if !read.is_whole {
        return Err(ApiError::new(
            Code::TooLarge,
            "The session has too many events for one document. Page through them with GET /agent/events.",
        ));
    }
    let clicks = state.reads(&reading.permit).session_events(scope, SessionPart::Clicks).await?;
    let document = spawn_blocking(move || Box::<str>::from(assemble::document(session, &facts, &read.events, clicks))).await;
    let document = document.map_err(ApiError::internal)?;
    streamed_response::whole(String::from(document), reading.permit)
}

async fn facts_of(pool: &PgPool, org: OrgId, session: SessionId) -> Result<Option<Facts>, sqlx::Error> {
    with_deadline(
        sqlx::query_as(
            "SELECT coalesce(initiator_type, 'user') AS initiator_type, agent_id, manifest_ref, content_scope, parent_session_id, external_session_id, prior_session_ids, \
             privacy_level, started_at, ended_at, outcome, extra, created_at FROM sessions WHERE organization_id = $1 AND session_id = $2",
        )
        .bind(org.0)
        .bind(session.0)
        .fetch_optional(pool),
    )
    .await
}

fn unknown() -> ApiError {
    ApiError::new(Code::NotFound, "Session not found.")
}
