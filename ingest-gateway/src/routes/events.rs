//! `POST /events`: accepts a batch or one event.

mod envelope;

use crate::State;
use crate::record::accept::record;
use crate::record::event_batch::EventBatch;
use crate::request::cpu_permits::CpuPermit;
use crate::request::limits::Limits;
use crate::request::write_request::WriteRequest;
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
    /// Number of events accepted by this request; 0 if it is known to be a repeat.
    events_created: usize,
}

pub(crate) async fn post_events(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    request: Request<Body>,
) -> Result<(StatusCode, Json<EventsAccepted>), ApiError> {
    let request = WriteRequest::read(&state, &caller, request).await?;
    let (body, large) = (&request.body, &state.cpu_permits);
    let read = |turn: &CpuPermit| read_events(body.read(turn), &state.limits, state.clock.now(), &caller);
    let bound = large.run(body, read).await?.admit(&state, &caller).await?;
    let idempotency_key = request.idempotency_key.as_deref();
    let normalize =
        |turn: &CpuPermit| state.claim(turn, bound.normalize(turn, caller.org_id, idempotency_key, &state.bots), &request);
    let (mut batch, claim) = large.run(body, normalize).await?;
    let named_sessions = batch.named_sessions();
    state.write_budgets.spend_named(&state, &caller, &named_sessions).await?;
    batch.withhold(&state, body).await;
    let signature = request.signature.settle(&state, &caller, &claim.fingerprint).await?;
    let record = record(&caller, RecordKind::Events, None, batch.events, state.clock.now());
    let record = LogRecord { named_sessions, signature, ..record };
    let accepted = state.accept(&record, &request, &claim).await?;
    state.session_levels.note_accepted(caller.org_id, &record.named_sessions);
    claim.keep();
    Ok((StatusCode::CREATED, Json(EventsAccepted { status: "ok", events_created: accepted })))
}

/// Validates a body's events. Pure.
pub(crate) fn read_events<'a>(
    body: &'a [u8],
    limits: &'a Limits,
    now: DateTime<Utc>,
    caller: &Caller,
) -> Result<EventBatch<'a>, ApiError> {
    let envelope = Envelope::parse(body, limits.max_events)?;
    let mut faults = Faults::default();
    let context = envelope.context(limits, now, caller, &mut faults);
    Ok(EventBatch::validate(&envelope.events, context, faults))
}
