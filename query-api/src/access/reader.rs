//! The caller of a read: an API key with `telemetry:read`, or a person acting for one of their organizations
//! (docs/api/reads.md#who-may-read).
//!
//! Sessions and memberships are looked up for every request, so they end immediately. A session's first read for an organization is added
//! to the audit trail before the response is sent.

pub(crate) mod session_reads;

use crate::State;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Uri, header};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::problem::Code;
use schemas::secrets::PlainUserSession;
use service_kit::auth::{
    API_KEY_HEADER, Caller, Credential, KeyReader, SessionUser, Tenant, named_organization, presented_session,
};
use service_kit::http::{ApiError, Transport};
use service_kit::identity_tables::HasIdentityTables;
use service_kit::session_cookie_auth;
use std::sync::Arc;

/// Stores the time of a key's last use for reading. If two processes store a time, the later one is kept.
pub(crate) const KEY_USES: &str = "INSERT INTO key_uses_reads (key_id, last_used_at) \
     SELECT key, now() - make_interval(secs => ago) FROM unnest($1::uuid[], $2::float8[]) AS used (key, ago) \
     ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(key_uses_reads.last_used_at, excluded.last_used_at)";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) credential: Credential,
    /// The tenant whose slots the read uses.
    pub(crate) tenant: Tenant,
    pub(crate) org_id: OrgId,
    pub(crate) org_type: OrgType,
}

impl Reader {
    /// The organization of a key, whose scopes the caller has checked.
    pub(crate) fn from_caller(caller: &Caller) -> Self {
        let (org_id, org_type) = (caller.org_id, caller.org_type);
        Self { credential: Credential::Key(caller.key_id), tenant: caller.tenant(), org_id, org_type }
    }
}

impl FromRequestParts<Arc<State>> for Reader {
    type Rejection = ApiError;

    /// Uses the API key if there is one. An invalid key is rejected even if the session is valid.
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        if parts.headers.contains_key(API_KEY_HEADER) { by_key(parts, state).await } else { by_session(parts, state).await }
    }
}

async fn by_key(parts: &mut Parts, state: &Arc<State>) -> Result<Reader, ApiError> {
    let KeyReader(caller) = KeyReader::from_request_parts(parts, state).await?;
    reject_named_organization(&parts.uri)?;
    Ok(Reader::from_caller(&caller))
}

/// Rejects `organization_id`, because a key has exactly one organization and another one in the request would be a mistake.
pub(super) fn reject_named_organization(uri: &Uri) -> Result<(), ApiError> {
    if named_organization(uri)?.is_some() {
        let detail = "organization_id works only with a user session. An API key always uses its own organization, so omit it.";
        return Err(ApiError::new(Code::InvalidParameter, detail));
    }
    Ok(())
}

/// Returns the person with the session in the cookie or the bearer token.
pub(super) async fn session_user(parts: &mut Parts, state: &Arc<State>) -> Result<(SessionUser, PlainUserSession), ApiError> {
    let transport = parts.extensions.get().copied().unwrap_or(Transport::Plain);
    if let Some(cookie) = session_cookie_auth::presented(&parts.headers, transport)? {
        session_cookie_auth::set_bearer_token(&mut parts.headers, &cookie)?;
    }
    if !parts.headers.contains_key(header::AUTHORIZATION) {
        return Err(ApiError::unauthenticated());
    }
    let (directory, now) = (state.identity_tables(), state.clock.now());
    let session = presented_session(&parts.headers).ok_or_else(|| directory.unknown_credentials().reject(parts))?;
    let person = SessionUser::find(parts, &session, directory, now).await?;
    Ok((person, session))
}

pub(super) async fn by_session(parts: &mut Parts, state: &Arc<State>) -> Result<Reader, ApiError> {
    let (member, session) = session_user(parts, state).await?;
    let membership = member.acting_for(&parts.uri)?;
    state.session_reads.record(&session.hash(), member.user_id, membership.org_id, state.clock.now()).await?;
    let (org_id, org_type) = (membership.org_id, membership.org_type);
    Ok(Reader { credential: Credential::User(member.user_id), tenant: Tenant::Person(member.user_id), org_id, org_type })
}
