//! `POST /sessions/bulk`: stores a whole session in one request and makes it visible as a whole. A repeat is merged.

use super::assigned_id;
use crate::State;
use crate::record::accept::record;
use crate::record::event_batch::EventBatch;
use crate::request::cpu_permits::CpuPermit;
use crate::request::limits::Limits;
use crate::request::write_request::{self, WriteRequest};
use crate::sessions::change::{SessionChange, run_to_completion};
use crate::sessions::facts;
use crate::validate::{Context, Faults, Member, strict, typed_members};
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use schemas::event_key::OwnId;
use schemas::ids::{OrgId, SessionId};
use schemas::log::{LogRecord, RecordKind};
use schemas::session::SessionFacts;
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::ApiError;
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct SessionUploaded {
    status: &'static str,
    session_id: SessionId,
    events_created: usize,
    /// Whether this request's outcome is the recorded one.
    outcome_recorded: bool,
}

pub(crate) async fn upload_session(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<SessionUploaded>), ApiError> {
    let request = WriteRequest::read(&state, &caller, request).await?;
    run_to_completion(async move { upload(&state, &caller, &request).await }).await
}

async fn upload(state: &State, caller: &Caller, request: &WriteRequest) -> Result<(StatusCode, Json<SessionUploaded>), ApiError> {
    let (body, large) = (&request.body, &state.cpu_permits);
    let idempotency_key = request.idempotency_key.as_deref();
    let read = |turn: &CpuPermit| {
        let body = body.read(turn);
        let unnamed = || unnamed_session(caller.org_id, idempotency_key, body);
        read_session(body, unnamed, &state.limits, state.clock.now(), caller)
    };
    let (mut facts, batch) = large.run(body, read).await?;
    let session_id = facts.session_id;
    let bound = batch.admit(state, caller).await?;
    let normalize =
        |turn: &CpuPermit| state.claim(turn, bound.normalize(turn, caller.org_id, idempotency_key, &state.bots), request);
    let (mut batch, claim) = large.run(body, normalize).await?;

    let identity = [&claim.fingerprint[..], session_id.0.as_bytes()].concat();
    let signature = request.signature.settle(state, caller, &identity).await?;
    let mut change = SessionChange::begin(state, caller, body.len()).await?;
    let outcome_recorded = change.merge(&mut facts).await?;
    large.run(body, |turn| batch.withhold_by(turn, change.known())).await;
    let record = record(caller, RecordKind::Session, Some(facts), batch.events, state.clock.now());
    let record = LogRecord { signature, ..record };
    let created = state.accept(&record, request, &claim).await?;
    change.commit().await?;
    claim.keep();
    Ok((StatusCode::CREATED, Json(SessionUploaded { status: "ok", session_id, events_created: created, outcome_recorded })))
}

/// Derives a session id for a document without one.
pub(crate) fn unnamed_session(org: OrgId, idempotency_key: Option<&str>, body: &[u8]) -> SessionId {
    assigned_id(&match idempotency_key {
        Some(idempotency_key) => OwnId::Uploaded { org, body: idempotency_key.as_bytes() },
        None => OwnId::Uploaded { org, body },
    })
}

/// Reads a session document and validates its events. Pure.
pub(crate) fn read_session<'a>(
    body: &'a [u8],
    unnamed: impl FnOnce() -> SessionId,
    limits: &'a Limits,
    now: DateTime<Utc>,
    caller: &Caller,
) -> Result<(SessionFacts, EventBatch<'a>), ApiError> {
    let object = &write_request::read_object(body)?;
    facts::require_once(object)?;
    let mut faults = Faults::default();
    write_request::check_version(object, &mut faults);
    let session_id = typed_members::session(object.get("session_id"), Member("session_id"), &mut faults);
    let session_id = session_id.unwrap_or_else(unnamed);
    let facts = facts::read(object, session_id, now, limits, &mut faults);
    let events = object.get("events").and_then(|events| write_request::list_events(events, limits.max_events, &mut faults));
    let events = events.unwrap_or_default();
    let context = Context {
        session_id: Some(session_id),
        agent_id: facts.agent_id.clone(),
        privacy_level: facts.privacy_level,
        is_whole_session: true,
        is_before_1_0: write_request::is_before_1_0(object),
        ..Context::new(limits, now, caller)
    };
    if context.is_strict {
        strict::check_session(object, &events, &mut faults);
    }
    Ok((facts, EventBatch::validate(&events, context, faults)))
}
