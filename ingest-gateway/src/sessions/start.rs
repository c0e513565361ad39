//! `POST /sessions/start`: a session with an id of ours, durable before the answer.
//!
//! Must answer the same id for the same `Idempotency-Key`.

use super::change::{Change, to_the_end};
use super::{assigned_id, facts};
use crate::State;
use crate::bodies::{self, WriteRequest};
use crate::raw::RawObject;
use crate::validate::Faults;
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use schemas::event_key::Identity;
use schemas::ids::SessionId;
use schemas::log::RecordKind;
use schemas::problem::Code;
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::ApiError;
use std::sync::Arc;
use uuid::Uuid;

/// The 201 of `POST /sessions/start`.
#[derive(Serialize)]
pub(crate) struct SessionStarted {
    session_id: SessionId,
}

/// Starts a session; every member is optional, and so is the body.
pub(crate) async fn start_session(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<SessionStarted>), ApiError> {
    let request = WriteRequest::read_optional(&state, &caller, request).await?;
    to_the_end(async move { start(&state, &caller, &request).await }).await
}

async fn start(state: &State, caller: &Caller, request: &WriteRequest) -> Result<(StatusCode, Json<SessionStarted>), ApiError> {
    let now = state.clock.now();
    let text = bodies::as_text(&request.body)?;
    let object = if text.trim().is_empty() { RawObject::default() } else { bodies::as_object(text)? };
    if let Some(name) = facts::first_repeated(&object) {
        return Err(bodies::invalid(format!("the member {name} stands twice")));
    }
    let session_id = match request.idempotency_key.as_deref() {
        Some(idempotency_key) => assigned_id(&Identity::Started { org: caller.org_id, idempotency_key }),
        None => SessionId(Uuid::new_v4()),
    };
    let mut faults = Faults::default();
    let mut facts = facts::read(&object, session_id, now, &state.limits, &mut faults);
    faults.into_result_as(Code::InvalidRequest)?;
    facts.initiator_type.get_or_insert_with(|| "user".to_owned());
    facts.started_at.get_or_insert(now);

    let mut change = Change::begin(state, caller.org_id).await?;
    change.merge(&mut facts).await?;
    state.append(caller, RecordKind::SessionStarted, Some(facts), Vec::new(), &request.request_id).await?;
    change.commit().await?;
    Ok((StatusCode::CREATED, Json(SessionStarted { session_id })))
}
