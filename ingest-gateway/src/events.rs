//! `POST /events`.
//!
//! Must not accept part of a batch: it is taken whole or refused whole, with every fault listed.

use crate::envelope::Envelope;
use crate::normalise::{Origin, attributed_site, normalise};
use crate::validate::{Context, Faults, ValidEvent, validate_event};
use crate::{State, metrics};
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::{Extension, Json};
use schemas::event::MAX_STRING_BYTES;
use schemas::identity::OrgType;
use schemas::log::{LogRecord, RECORD_VERSION, RecordKind};
use schemas::problem::Code;
use serde::Serialize;
use service_kit::auth::{Caller, Reporter};
use service_kit::directory::OwnedSite;
use service_kit::http::{ApiError, RequestId, read_json_body};
use std::sync::Arc;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The answer of `POST /events`.
#[derive(Serialize)]
pub(crate) struct EventsAccepted {
    status: &'static str,
    /// Events accepted by this request.
    events_created: usize,
}

/// Takes a batch, or one event, onto the log.
pub(crate) async fn post_events(
    Shared(state): Shared<Arc<State>>,
    Reporter(caller): Reporter,
    Extension(RequestId(request_id)): Extension<RequestId>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<EventsAccepted>), ApiError> {
    let idempotency_key = idempotency_key(request.headers())?;
    let body = read_json_body(request, state.limits.body()).await?;
    let owned = owned_sites(&state, &caller).await?;
    let record =
        accept(&state, &caller, &body, idempotency_key.as_deref(), owned.as_deref()).inspect_err(|_| metrics::refused())?;
    state.log.append(&record, &request_id).await?;
    metrics::accepted(record.events.len());
    Ok((StatusCode::CREATED, Json(EventsAccepted { status: "ok", events_created: record.events.len() })))
}

/// From bytes to the record: everything between reading and publishing, without I/O.
fn accept(
    state: &State,
    caller: &Caller,
    body: &[u8],
    idempotency_key: Option<&str>,
    owned: Option<&[OwnedSite]>,
) -> Result<LogRecord, ApiError> {
    let now = state.clock.now();
    let envelope = Envelope::parse(body, state.limits.max_events)?;
    let mut faults = Faults::default();
    let context = Context::of(&envelope, &state.limits, now, &mut faults);
    let mut events = Vec::with_capacity(envelope.events.len());
    for (index, event) in envelope.events.iter().enumerate() {
        faults.enter(index);
        events.extend(validate_event(event, &context, &mut faults));
    }
    faults.into_result()?;
    if let Some(owned) = owned {
        require_own_hosts(&events, owned)?;
    }
    let origin = Origin { org: caller.org_id, agent_id: context.agent_id.as_deref(), idempotency_key };
    let events = events.into_iter().enumerate().map(|(index, event)| normalise(event, &origin, index)).collect();
    let received_at_us = now.timestamp_micros();
    Ok(LogRecord { v: RECORD_VERSION, org: caller.org_id, received_at_us, kind: RecordKind::Events, events })
}

/// An owner's key is bound to its verified domains; other keys report for any host (`None`).
async fn owned_sites(state: &State, caller: &Caller) -> Result<Option<Vec<OwnedSite>>, ApiError> {
    match caller.org_type {
        OrgType::ContentOwner => Ok(Some(state.directory.owned_sites(caller.org_id).await?)),
        OrgType::Platform | OrgType::Agent => Ok(None),
    }
}

fn require_own_hosts(events: &[ValidEvent<'_>], owned: &[OwnedSite]) -> Result<(), ApiError> {
    let is_own = |event: &ValidEvent<'_>| attributed_site(event).is_some_and(|site| owned.iter().any(|own| own.covers(site)));
    if events.iter().all(is_own) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, "A content owner's key reports only for URLs on the owner's verified domains."))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MAX_STRING_BYTES);
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => Err(ApiError::new(Code::InvalidParameter, "Send one Idempotency-Key of printable characters.")),
    }
}
