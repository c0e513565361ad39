//! `GET /ctx/{token}`: what a click token shows, to whoever holds it and a platform's key.

use crate::State;
use crate::access::consent::{consents, find_clicked};
use crate::disclose;
use crate::read_limiter::KeyReading;
use crate::reads::SessionPart;
use crate::respond::streamed_answer;
use axum::extract::State as Shared;
use axum::http::Uri;
use axum::response::Response;
use clap::Args;
use schemas::identity::OrgType;
use schemas::problem::Code;
use schemas::secrets::PlainClickToken;
use service_kit::http::ApiError;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Settings of the look-ups.
#[derive(Args, Clone, Debug)]
pub struct ClickSettings {
    /// Look-ups of click tokens per second by one key; an organization's keys together have twice as many; 0: no limit
    #[arg(long, env = "TELEMETRY_CLICK_LOOKUP_RATE", default_value_t = Self::default().click_lookup_rate)]
    pub click_lookup_rate: u32,
}

impl Default for ClickSettings {
    fn default() -> Self {
        Self { click_lookup_rate: 100 }
    }
}

/// The manifest of the session that the token was made for.
pub(crate) async fn read_manifest(
    Shared(state): Shared<Arc<State>>,
    reading: KeyReading,
    uri: Uri,
) -> Result<Response, ApiError> {
    let caller = &reading.caller;
    if caller.org_type == OrgType::ContentOwner {
        return Err(ApiError::new(Code::Forbidden, "Only platforms and agents can look up click tokens."));
    }
    state.lookups.admit(caller.key_id, caller.org_id)?;
    // As it stands in the path: a token needs no escape, and what is not one is unknown, whatever it is.
    let token = uri.path().rsplit('/').next().unwrap_or_default();
    let hash = PlainClickToken::presented(token).hash();
    let clicked = find_clicked(&state.pool, &hash, state.clock.now()).await?.ok_or_else(nothing)?;
    let read = state.telemetry.session_events(clicked.scope, SessionPart::Disclosable).await?;
    let consents = consents(&state.pool, disclose::sites(&read.events)).await?;
    // A long session takes a while: every text is looked through for the session's id.
    let manifest = spawn_blocking(move || serde_json::to_vec(&disclose::manifest(&clicked, &read, &consents))).await;
    let manifest = manifest.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    streamed_answer::whole(manifest, reading.permit)
}

/// Malformed, unknown, expired or not shared: the caller must not learn which.
fn nothing() -> ApiError {
    ApiError::new(Code::NotFound, "Click token not found, or its session isn't shared.")
}
