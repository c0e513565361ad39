//! `POST /events`: a batch, or one event.
//!
//! Must not accept part of a batch.

use crate::State;
use crate::batch::Batch;
use crate::bodies::WriteRequest;
use crate::envelope::Envelope;
use crate::validate::{Context, Faults};
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use schemas::ids::SessionId;
use schemas::log::{LogEvent, RecordKind};
use schemas::session::PrivacyLevel;
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::ApiError;
use std::sync::Arc;

/// The 201 of `POST /events`.
#[derive(Serialize)]
pub(crate) struct EventsAccepted {
    status: &'static str,
    /// Events accepted by this request; 0 when it is known to be a repeat.
    events_created: usize,
}

/// Takes events onto the log.
pub(crate) async fn post_events(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<EventsAccepted>), ApiError> {
    let request = WriteRequest::read(&state, &caller, request).await?;
    let envelope = Envelope::parse(&request.body, state.limits.max_events)?;
    let mut faults = Faults::default();
    let context = Context::of(&envelope, &state.limits, state.clock.now(), &caller, &mut faults);
    let level = context.privacy_level;
    let batch = Batch::validate(&envelope.events, context, faults);
    let events = batch.bind(&state, &caller, request.idempotency_key.as_deref()).await?;

    let named = named_sessions(&caller, &events, level);
    let accepting = state.accept(&caller, RecordKind::Events, None, events, &request.request_id);
    let (accepted, ()) = tokio::join!(accepting, state.sightings.note(named));
    Ok((StatusCode::CREATED, Json(EventsAccepted { status: "ok", events_created: accepted? })))
}

/// The caller's own sessions that the events name: they exist from now on. Beside a token that is not resolved yet,
/// a session may be somebody else's.
fn named_sessions(
    caller: &Caller,
    events: &[LogEvent],
    level: Option<PrivacyLevel>,
) -> Vec<(schemas::ids::OrgId, SessionId, Option<PrivacyLevel>)> {
    let own = events.iter().filter(|event| event.session_org.is_none() && !event.is_unresolved());
    let own = own.filter_map(|event| event.session_id);
    own.map(|session| (caller.org_id, session, level)).collect()
}
