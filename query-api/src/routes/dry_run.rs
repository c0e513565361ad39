//! Reads without side effects, for fuzzing: parses a query string, and creates a manifest.
//!
//! Uses the code of real requests, except for everything with state.

use crate::access::consent::{ClickedSession, Consents};
use crate::access::session_scope::SessionScope;
use crate::click_manifest::manifest;
use crate::parameters::ReadParameters;
use crate::reads::{SessionEvent, SessionEvents};
use axum::http::Uri;
use chrono::DateTime;
use schemas::ids::{OrgId, SessionId};
use schemas::session::PrivacyLevel;
use service_kit::http::{ApiError, Parameters, parse_object};
use uuid::Uuid;

/// Returns the period in a summary's query string: the first millisecond in it and the first one after it.
pub fn parse_period(uri: &Uri) -> Result<(Option<i64>, Option<i64>), ApiError> {
    let Parameters(asked) = Parameters::<ReadParameters>::from_uri(uri)?;
    let period = asked.period()?;
    Ok((period.from_ms, period.before_ms))
}

/// Parses the body of a request to close a month.
pub fn dry_run_close(body: &[u8]) -> Result<(), ApiError> {
    parse_object::<super::statements::Asked>(body).map(drop)
}

/// Returns the manifest, as JSON, of a session that cites these URLs with their `data`, at the least strict privacy level and with all
/// owners' consent.
pub fn dry_run_manifest(cited: &[(String, String)]) -> Vec<u8> {
    const SITE: &str = "test.a";
    let session = SessionId(Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8));
    let clicked = ClickedSession {
        scope: SessionScope::granted(OrgId(Uuid::nil()), session),
        content_url: String::new(),
        started_at: DateTime::UNIX_EPOCH,
        level: Some(PrivacyLevel::Full),
    };
    let event = |(key, (url, data)): (u128, &(String, String))| SessionEvent {
        key,
        event_type: "content_cited".to_owned(),
        site: SITE.to_owned(),
        content_url: url.clone(),
        turn_id: url.clone(),
        data: data.clone(),
        ..SessionEvent::default()
    };
    let read = SessionEvents { events: (0..).zip(cited).map(event).collect(), is_whole: true };
    serde_json::to_vec(&manifest(&clicked, &read, &Consents::to(&[SITE]))).unwrap_or_default()
}
