//! `POST /events`: accepts a batch or one event.

mod envelope;

use crate::State;
use crate::record::accept::record;
use crate::record::batch::Batch;
use crate::request::bodies::WriteRequest;
use crate::request::large::Turn;
use crate::request::limits::Limits;
use crate::validate::Faults;
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use chrono::{DateTime, Utc};
use envelope::Envelope;
use schemas::log::{LogRecord, RecordKind};
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::ApiError;
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct EventsAccepted {
    status: &'static str,
    /// Events accepted by this request; 0 when it is known to be a repeat.
    events_created: usize,
}

pub(crate) async fn post_events(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<EventsAccepted>), ApiError> {
    let request = WriteRequest::read(&state, &caller, request).await?;
    let (body, large) = (&request.body, &state.large);
    let read = |turn: &Turn| read_events(body.read(turn), &state.limits, state.clock.now(), &caller);
    let bound = large.run(body, read).await?.admit(&state, &caller).await?;
    let idempotency_key = request.idempotency_key.as_deref();
    let normalise = |turn: &Turn| state.claim(turn, bound.normalise(turn, caller.org_id, idempotency_key, &state.bots), &request);
    let (mut batch, claim) = large.run(body, normalise).await?;
    let named_sessions = batch.named_sessions();
    state.self_serve.spend_named(&state, &caller, &named_sessions).await?;
    batch.withhold(&state, body).await;
    let record = record(&caller, RecordKind::Events, None, batch.events, state.clock.now());
    let record = LogRecord { named_sessions, ..record };
    let accepted = state.accept(&record, &request, &claim).await?;
    state.memory.note_accepted(caller.org_id, &record.named_sessions);
    claim.keep();
    Ok((StatusCode::CREATED, Json(EventsAccepted { status: "ok", events_created: accepted })))
}

/// Validates the events of a body. Pure.
pub(crate) fn read_events<'a>(
    body: &'a [u8],
    limits: &'a Limits,
    now: DateTime<Utc>,
    caller: &Caller,
) -> Result<Batch<'a>, ApiError> {
    let envelope = Envelope::parse(body, limits.max_events)?;
    let mut faults = Faults::default();
    let context = envelope.context(limits, now, caller, &mut faults);
    Ok(Batch::validate(&envelope.events, context, faults))
}
