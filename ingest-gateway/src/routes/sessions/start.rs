//! `POST /sessions/start`: creates a session with a generated id. It is durable before the response.

use super::assigned_id;
use crate::State;
use crate::record::accept::record;
use crate::request::cpu_permits::CpuPermit;
use crate::request::limits::Limits;
use crate::request::raw_json::RawObject;
use crate::request::write_request::{self, WriteRequest};
use crate::sessions::change::{SessionChange, run_to_completion};
use crate::sessions::facts;
use crate::validate::Faults;
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::event_key::OwnId;
use schemas::ids::SessionId;
use schemas::log::{LogRecord, RecordKind};
use schemas::problem::Code;
use schemas::session::SessionFacts;
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::ApiError;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Serialize)]
pub(crate) struct SessionStarted {
    session_id: SessionId,
}

/// Starts a session. Every member is optional, and so is the body.
pub(crate) async fn start_session(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<SessionStarted>), ApiError> {
    let request = WriteRequest::read_optional(&state, &caller, request).await?;
    run_to_completion(async move { start(&state, &caller, &request).await }).await
}

async fn start(state: &State, caller: &Caller, request: &WriteRequest) -> Result<(StatusCode, Json<SessionStarted>), ApiError> {
    let now = state.clock.now();
    let session_id = match request.idempotency_key.as_deref() {
        Some(idempotency_key) => assigned_id(&OwnId::Started { org: caller.org_id, idempotency_key }),
        None => SessionId(Uuid::new_v4()),
    };
    let read = |turn: &CpuPermit| read_start(request.body.read(turn), session_id, &state.limits, now);
    let mut facts = state.cpu_permits.run(&request.body, read).await?;

    let signature = request.signature.settle(state, caller, session_id.0.as_bytes()).await?;
    let mut change = SessionChange::begin(state, caller, request.body.len()).await?;
    change.merge(&mut facts).await?;
    let record = record(caller, RecordKind::SessionStarted, Some(facts), Vec::new(), state.clock.now());
    let record = LogRecord { signature, ..record };
    state.append(&record, request).await?;
    change.commit().await?;
    Ok((StatusCode::CREATED, Json(SessionStarted { session_id })))
}

/// Reads the facts about the session to start from a body. Pure.
pub(crate) fn read_start(
    body: &[u8],
    session_id: SessionId,
    limits: &Limits,
    now: DateTime<Utc>,
) -> Result<SessionFacts, ApiError> {
    let text = write_request::as_text(body)?;
    let object = if text.trim().is_empty() { RawObject::default() } else { write_request::as_object(text)? };
    facts::require_once(&object)?;
    let mut faults = Faults::default();
    let mut facts = facts::read(&object, session_id, now, limits, &mut faults);
    faults.into_result_as(Code::InvalidRequest)?;
    facts.started_at.get_or_insert(now);
    Ok(facts)
}
