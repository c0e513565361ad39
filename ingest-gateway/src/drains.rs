//! `POST /drains/{provider}`: reads logs from CDNs and servers, and stores bots' fetches (docs/api/drains.md).
//!
//! ```text
//!  who ──► body ──► inflate ──► split ──► formats ──► map ──► records on the log ──► body_counts ──► coverage ──► answer
//! ```

mod agent_signature;
mod response;
mod body_counts;
mod fastly_challenge;
mod container_lines;
mod coverage;
mod dry_run;
mod key_drain;
mod format_table;
mod formats;
#[cfg(test)]
mod forged_text_tests;
mod inflate;
mod body_processor;
mod json_fields;
mod key_sets;
mod line_fields;
mod line_id;
mod line_processor;
mod line_reader;
mod requested_host;
mod drain_settings;
mod body_signature;
mod split;
mod body_thread;
#[cfg(test)]
mod visitor_input_tests;
mod authentication;

pub use drain_settings::DrainSettings;
pub use dry_run::{DrainDryRun, DryLine};
pub(crate) use fastly_challenge::fastly_challenge;
pub use format_table::{FORMATS, FormatId, LogFormat};
pub use line_processor::LineOutcome;

use crate::State;
use crate::request::overloaded;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, Query, State as Shared};
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use body_processor::{BodyProcessor, ProcessedBody};
use body_signature::MAX_SIGNED_BYTES;
use coverage::{BodyCoverage, Coverage, CoverageVisibility};
use inflate::Encoding;
use key_drain::{DrainCache, KeyDrain};
use key_sets::KeySets;
use line_processor::LineProcessor;
use requested_host::HostFinder;
use response::{Counted, Counts, Responder};
use schemas::identity::{DrainProvider, DrainRole, OrgType};
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::auth::{Caller, Tenant};
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::http::{ApiError, RequestId, read_wire};
use service_kit::secret_encryption::{Sealer, SecretsSettings};
use service_kit::slots::{NoSlot, Pool, Slots};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;

/// Time from the request's head to its response. Shorter than the server's own limit, so the response has the provider's format.
const DEADLINE: Duration = Duration::from_secs(22);
/// Maximum wait for a slot after a body has arrived.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shared state of the drain handlers.
pub(crate) struct Drains {
    settings: DrainSettings,
    slots: Arc<Slots<Tenant>>,
    pool: PgPool,
    drain_cache: DrainCache,
    /// `None` if not configured. Then signatures can't be verified.
    sealer: Option<Sealer>,
    coverage: Coverage,
    key_sets: KeySets,
}

impl Drains {
    pub(crate) fn start(
        settings: &DrainSettings,
        secrets: &SecretsSettings,
        egress: Egress,
        pool: PgPool,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let sealer = secrets.secrets_key.is_some().then(|| secrets.sealer()).transpose()?;
        let slots = Slots::new(Pool::Drains, settings.drains_at_once);
        let drain_cache = DrainCache::new(clock.clone());
        let key_sets = KeySets::start(egress, pool.clone(), clock.clone());
        let coverage = Coverage::start(pool.clone(), clock);
        Ok(Self { settings: settings.clone(), slots, pool, drain_cache, sealer, coverage, key_sets })
    }
}

/// Query parameters that describe the lines of a body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainParameters {
    /// Host of all lines.
    host: Option<String>,
    /// Observer role: `edge` or `origin`.
    role: Option<String>,
}

pub(crate) async fn post_drain(
    Shared(state): Shared<Arc<State>>,
    Path(provider): Path<String>,
    query: Result<Query<DrainParameters>, axum::extract::rejection::QueryRejection>,
    request: Request<Body>,
) -> Response {
    let Ok(provider) = provider.parse::<DrainProvider>() else {
        return ApiError::new(Code::NotFound, "Log provider not found.").into_response();
    };
    let responder = Responder::new(provider, request.headers(), state.clock.now());
    let parameters = query
        .map(|Query(told)| told)
        .map_err(|_| ApiError::new(Code::InvalidParameter, "The query can contain only host and role, each at most once."));
    let taken = match parameters {
        Ok(told) => {
            tokio::time::timeout(DEADLINE, process_request(&state, provider, told, request)).await.unwrap_or_else(|_| Err(late()))
        }
        Err(error) => Err(error),
    };
    responder.respond(taken)
}

async fn process_request(
    state: &Arc<State>,
    provider: DrainProvider,
    parameters: DrainParameters,
    request: Request<Body>,
) -> Result<Counted, ApiError> {
    if state.log.is_overloaded() {
        return Err(overloaded());
    }
    let (parts, body) = request.into_parts();
    let caller = authentication::authenticate(&parts, state).await?;
    let key_drain = key_drain::for_caller(state, &caller, provider).await?;
    state.rates.admit(caller.key_id, caller.org_id)?;
    // Check this before reading the body, so that a rejection costs nothing.
    state.write_budgets.check_log(state, &caller, body.size_hint().lower()).await?;
    let encoding = Encoding::from_headers(&parts.headers)?;
    let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let drain = key_drain.as_ref().map(|fed| fed.id);
    let secret = key_drain.as_ref().map(|fed| fed.secret(state.drains.sealer.as_ref())).transpose()?.flatten();
    let (tenant, max_bytes) = (caller.tenant(), usize::try_from(state.drains.settings.drain_wire_bytes).unwrap_or(usize::MAX));
    let max_bytes = secret.as_ref().map_or(max_bytes, |_| max_bytes.min(MAX_SIGNED_BYTES));
    let mut room = state.body_memory.reserve(tenant).map_err(no_slot)?;
    let body = read_wire(body, max_bytes, |bytes| room.grow_to(bytes).map_err(no_slot)).await?;
    secret.map_or(Ok(()), |secret| body_signature::verify(&body, &parts.headers, &secret))?;
    let slot = state.drains.slots.wait(tenant, PATIENCE).await.map_err(no_slot)?;
    // While the body arrived, the key may have been revoked or its drain deleted.
    let caller = authentication::authenticate(&parts, state).await?;
    let key_drain = key_drain::for_caller(state, &caller, provider).await?;
    let processor = line_processor(state, provider, parameters, (caller, key_drain)).await?;
    let (org, received_at, stored) =
        (processor.caller.org_id, processor.now, CoverageVisibility::for_hosts(processor.owned_sites.as_deref()));
    let intake = BodyProcessor { processor, encoding, state: Arc::clone(state), request_id };
    let ProcessedBody { body_counts, delivery } = intake.process(body, (room, slot)).await?;
    body_counts.measure(provider.as_str());
    let (counts, unreadable) = (Counts::new(&body_counts), response::unreadable(&body_counts));
    if let Some(stored) = stored {
        let report = BodyCoverage { org, provider, drain, visibility: stored, body_counts, received_at };
        state.drains.coverage.store(report, &state.write_budgets).await;
    }
    Ok(Counted { counts, delivery, unreadable })
}

async fn line_processor(
    state: &State,
    provider: DrainProvider,
    parameters: DrainParameters,
    (caller, key_drain): (Caller, Option<KeyDrain>),
) -> Result<LineProcessor, ApiError> {
    let owned = match caller.org_type {
        OrgType::ContentOwner => Some(state.callers.owned_sites(caller.org_id).await?),
        OrgType::Platform | OrgType::Agent => None,
    };
    let of_drain = key_drain.as_ref().map(|fed| fed.role);
    let role = match parameters.role.as_deref() {
        None => of_drain.unwrap_or(key_drain::observer(provider.default_role())),
        Some(role) => {
            let role = role.parse::<DrainRole>();
            key_drain::observer(role.map_err(|_| ApiError::new(Code::InvalidParameter, "role must be one of: edge, origin."))?)
        }
    };
    if of_drain.is_some_and(|of_drain| of_drain != role) {
        return Err(ApiError::new(Code::InvalidParameter, "role must match the drain's role, which is also the default."));
    }
    let drain = key_drain.as_ref().map(|fed| fed.id);
    let hosts = key_drain.map(|fed| fed.hosts).unwrap_or_default();
    let (bots, limits, now) = (Arc::clone(&state.bots), state.limits.clone(), state.clock.now());
    let (host_finder, key_sets) = (HostFinder::new(parameters.host, &hosts), Some(state.drains.key_sets.clone()));
    Ok(LineProcessor { provider, caller, role, drain, owned_sites: owned, hosts, host_finder, bots, key_sets, limits, now })
}

/// Returns 503 even if the sender exhausted its own share, because some senders retry only after a 5xx.
fn no_slot(why: NoSlot) -> ApiError {
    let refused = overloaded();
    match why {
        NoSlot::OwnShare => refused.with_detail(
            "Your organization and others with the same owner have too many log uploads in progress. Try again shortly.",
        ),
        NoSlot::AllTaken => refused,
    }
}

fn late() -> ApiError {
    ApiError::new(
        Code::Unavailable,
        "The body couldn't be processed in time. Send it again or in smaller batches. Duplicates are counted once.",
    )
}
