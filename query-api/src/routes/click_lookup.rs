//! `GET /ctx/{token}`: the manifest of a click token, for platforms and agents with an API key.

use crate::State;
use crate::access::consent::{consents, find_clicked};
use crate::click_manifest;
use crate::parameters::ReadParameters;
use crate::read_limiter::AdmittedKey;
use crate::reads::SessionPart;
use crate::respond::streamed_response;
use axum::extract::State as Shared;
use axum::http::Uri;
use axum::response::Response;
use clap::Args;
use schemas::identity::OrgType;
use schemas::problem::Code;
use schemas::secrets::PlainClickToken;
use service_kit::http::{ApiError, Parameters};
use std::sync::Arc;
use tokio::task::spawn_blocking;

#[derive(Args, Clone, Debug)]
pub struct ClickSettings {
    /// Click token lookups per second for each key, twice as many for each organization; 0: unlimited
    #[arg(long, env = "TELEMETRY_CLICK_LOOKUP_RATE", default_value_t = Self::default().click_lookup_rate)]
    pub click_lookup_rate: u32,
}

impl Default for ClickSettings {
    fn default() -> Self {
        Self { click_lookup_rate: 100 }
    }
}

pub(crate) async fn read_manifest(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedKey,
    uri: Uri,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported(&[])?;
    let caller = &reading.caller;
    if caller.org_type == OrgType::ContentOwner {
        return Err(ApiError::new(Code::Forbidden, "Only platforms and agents can look up click tokens."));
    }
    state.lookups.admit(caller.key_id, caller.org_id)?;
    // Use the raw path. A valid token needs no escapes, so anything else is unknown.
    let token = uri.path().rsplit('/').next().unwrap_or_default();
    let hash = PlainClickToken::presented(token).hash();
    let clicked = find_clicked(&state.pool, &hash, state.clock.now()).await?.ok_or_else(not_found)?;
    let read = state.reads(&reading.permit).session_events(clicked.scope, SessionPart::Disclosable).await?;
    let consents = consents(&state.pool, click_manifest::sites(&read.events)).await?;
    // Each text is searched for the session id, which takes a while for long sessions.
    let manifest = spawn_blocking(move || serde_json::to_vec(&click_manifest::manifest(&clicked, &read, &consents))).await;
    let manifest = manifest.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    streamed_response::whole(manifest, reading.permit)
}

/// Returns the same 404 for malformed, unknown, expired and unshared tokens.
fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Click token not found, or its session isn't shared.")
}
