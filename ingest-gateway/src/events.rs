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
use schemas::log::RecordKind;
use serde::Serialize;
use service_kit::auth::Reporter;
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
    let batch = Batch::validate(&envelope.events, context, faults);
    let idempotency_key = request.idempotency_key.as_deref();
    let mut batch = batch.admit(&state, &caller).await?.normalise(caller.org_id, idempotency_key);
    let claim = state.claim(&batch, &request)?;
    batch.fill_in(&state).await;
    let accepted = state.accept(&caller, RecordKind::Events, None, batch.events, &request.request_id, &claim).await?;
    claim.keep();
    Ok((StatusCode::CREATED, Json(EventsAccepted { status: "ok", events_created: accepted })))
}
