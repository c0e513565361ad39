//! Who reads: the holder of a key with `telemetry:read`, or a person for an organisation that they belong to
//! (docs/api/reads.md#who-may-read). One place makes either, and no read learns which it was.
//!
//! Must look a session and its memberships up for every request: what ends, ends at once. Must not answer a session before
//! the audit trail says that it reads for this organisation.

pub(crate) mod session_reads;

use crate::State;
use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::problem::Code;
use service_kit::auth::{API_KEY_HEADER, Credential, KeyReader, Member, Tenant, named_organization, presented_session};
use service_kit::directory::HasDirectory;
use service_kit::http::{ApiError, Transport};
use service_kit::session_cookie;
use std::sync::Arc;

/// Stores when keys were last used for reading. Of two processes the one with the later use counts.
pub(crate) const KEY_USES: &str = "INSERT INTO key_uses_reads (key_id, last_used_at) \
     SELECT key, now() - make_interval(secs => ago) FROM unnest($1::uuid[], $2::float8[]) AS used (key, ago) \
     ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(key_uses_reads.last_used_at, excluded.last_used_at)";

/// Somebody who may read, for one organisation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) credential: Credential,
    /// Whose slots it takes.
    pub(crate) tenant: Tenant,
    pub(crate) org_id: OrgId,
    pub(crate) org_type: OrgType,
}

impl From<&KeyReader> for Reader {
    fn from(KeyReader(caller): &KeyReader) -> Self {
        let (org_id, org_type) = (caller.org_id, caller.org_type);
        Self { credential: Credential::Key(caller.key_id), tenant: caller.tenant(), org_id, org_type }
    }
}

impl FromRequestParts<Arc<State>> for Reader {
    type Rejection = ApiError;

    /// A key, when one is presented, decides alone: a bad key beside a good session is refused.
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        if parts.headers.contains_key(API_KEY_HEADER) { by_key(parts, state).await } else { by_session(parts, state).await }
    }
}

/// A key has one organisation: who names one beside it means another, and would be misled by an answer.
async fn by_key(parts: &mut Parts, state: &Arc<State>) -> Result<Reader, ApiError> {
    let reader = KeyReader::from_request_parts(parts, state).await?;
    if named_organization(&parts.uri)?.is_some() {
        let detail = "organization_id works only with a user session. An API key always uses its own organization, so omit it.";
        return Err(ApiError::new(Code::InvalidParameter, detail));
    }
    Ok(Reader::from(&reader))
}

async fn by_session(parts: &mut Parts, state: &Arc<State>) -> Result<Reader, ApiError> {
    let transport = parts.extensions.get().copied().unwrap_or(Transport::Plain);
    if let Some(cookie) = session_cookie::presented(&parts.headers, transport)? {
        session_cookie::show_as_bearer(&mut parts.headers, &cookie)?;
    }
    if !parts.headers.contains_key(header::AUTHORIZATION) {
        return Err(ApiError::unauthenticated());
    }
    let (directory, now) = (state.directory(), state.clock.now());
    let session = presented_session(&parts.headers).ok_or_else(|| directory.strangers().refuse(parts))?;
    let member = Member::find(parts, &session, directory, now).await?;
    let membership = member.acting_for(&parts.uri)?;
    state.session_reads.note(&session.hash(), member.user_id, membership.org_id, now).await?;
    let (org_id, org_type) = (membership.org_id, membership.org_type);
    Ok(Reader { credential: Credential::User(member.user_id), tenant: Tenant::Organization(org_id), org_id, org_type })
}
