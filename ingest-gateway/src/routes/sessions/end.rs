//! `POST /sessions/end`: the first outcome is kept. Repeating it returns 200; a different one returns 409.

use crate::State;
use crate::record::accept::record;
use crate::request::cpu_permits::CpuPermit;
use crate::request::limits::Limits;
use crate::request::write_request::{self, WriteRequest};
use crate::sessions::change::{SessionChange, run_to_completion};
use crate::sessions::{facts, store};
use crate::validate::{Faults, Member, typed_members};
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::Request;
use schemas::ids::SessionId;
use schemas::log::{LogRecord, RecordKind};
use schemas::problem::Code;
use schemas::session::{Outcome, SessionFacts};
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::ApiError;
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct SessionEnded {
    status: &'static str,
    session_id: SessionId,
}

pub(crate) async fn end_session(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<Json<SessionEnded>, ApiError> {
    let request = WriteRequest::read(&state, &caller, request).await?;
    run_to_completion(async move { end(&state, &caller, &request).await }).await
}

async fn end(state: &State, caller: &Caller, request: &WriteRequest) -> Result<Json<SessionEnded>, ApiError> {
    let now = state.clock.now();
    let read = |turn: &CpuPermit| read_end(request.body.read(turn), &state.limits);
    let (session_id, outcome) = state.cpu_permits.run(&request.body, read).await?;

    let signature = request.signature.settle(state, caller, session_id.0.as_bytes()).await?;
    let mut change = SessionChange::begin(state, caller, request.body.len()).await?;
    match change.end(session_id, outcome.as_ref(), now).await? {
        store::Ended::Unknown => return Err(ApiError::new(Code::NotFound, "Session not found.")),
        store::Ended::OtherOutcome => {
            return Err(ApiError::new(Code::Conflict, "The session has already ended with another outcome."));
        }
        store::Ended::Yes => {}
    }
    let facts = SessionFacts { ended_at: Some(now), outcome, ..SessionFacts::new(session_id) };
    let record = record(caller, RecordKind::SessionEnded, Some(facts), Vec::new(), state.clock.now());
    let record = LogRecord { signature, ..record };
    state.append(&record, request).await?;
    change.commit().await?;
    Ok(Json(SessionEnded { status: "ok", session_id }))
}

/// Reads the session that a body ends, and its outcome. Pure.
pub(crate) fn read_end(body: &[u8], limits: &Limits) -> Result<(SessionId, Option<Outcome>), ApiError> {
    let object = write_request::read_object(body)?;
    facts::require_once(&object)?;
    let mut faults = Faults::default();
    let session_id = typed_members::session(object.get("session_id"), Member("session_id"), &mut faults);
    if object.get("session_id").is_none() {
        faults.add(Member("session_id"), "required", "session_id is required");
    }
    let outcome = facts::read_outcome(&object, limits, &mut faults);
    faults.into_result_as(Code::InvalidRequest)?;
    session_id.map(|session_id| (session_id, outcome)).ok_or_else(|| write_request::invalid("session_id is missing"))
}
