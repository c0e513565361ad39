//! Authentication. A handler declares the credential it needs as an argument type, so a missing check shows as a missing argument.

pub use crate::caller::{Caller, Credential, Membership, SessionUser, Tenant, named_organization};

use crate::http::{ApiError, single_header};
use crate::identity_tables::{HasIdentityTables, IdentityTables};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use chrono::{DateTime, Utc};
use schemas::identity::Scope;
use schemas::ids::OrgId;
use schemas::secrets::{PlainApiKey, PlainUserSession};
use std::sync::{Arc, OnceLock};

pub const API_KEY_HEADER: &str = "x-api-key";

impl SessionUser {
    /// Returns the session's person; 401 without a valid session.
    pub async fn find(
        parts: &Parts,
        session: &PlainUserSession,
        directory: &IdentityTables,
        now: DateTime<Utc>,
    ) -> Result<Self, ApiError> {
        let hash = session.hash();
        let look_up = async { Ok(directory.find_user_session(&hash, now).await?) };
        directory.unknown_credentials().limited_lookup(parts, &hash, look_up).await
    }
}

/// Request extension that passes the organization of the request's key to outer layers.
#[derive(Clone, Debug, Default)]
pub struct RequestOrganization(Arc<OnceLock<OrgId>>);

impl RequestOrganization {
    fn fill(&self, organization: OrgId) {
        self.0.get_or_init(|| organization);
    }

    /// Returns the key's organization, or `None` if the request has no valid key.
    pub fn organization(&self) -> Option<OrgId> {
        self.0.get().copied()
    }
}

pub struct Reporter(pub Caller);

/// A caller with a key that has `telemetry:read`.
pub struct KeyReader(pub Caller);

impl Caller {
    /// Returns the key's caller. `presented` is `None` without a key header, and `Some(None)` if the header isn't a well-formed key.
    pub async fn from_key<S: HasIdentityTables>(
        parts: &Parts,
        state: &S,
        presented: Option<Option<PlainApiKey>>,
    ) -> Result<Self, ApiError> {
        let presented = presented.ok_or_else(ApiError::unauthenticated)?;
        let strangers = state.identity_tables().unknown_credentials();
        let key = presented.ok_or_else(|| strangers.reject(parts))?.hash();
        let caller = strangers.limited_lookup(parts, &key, state.find_caller(&key)).await?;
        state.record_use(caller.key_id);
        if let Some(slot) = parts.extensions.get::<RequestOrganization>() {
            slot.fill(caller.org_id);
        }
        Ok(caller)
    }
}

impl<S: HasIdentityTables> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let presented = parts.headers.contains_key(API_KEY_HEADER).then(|| presented_key(&parts.headers));
        Self::from_key(parts, state, presented).await
    }
}

impl<S: HasIdentityTables> FromRequestParts<S> for Reporter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        with_scope(parts, state, Scope::TelemetryWrite).await.map(Self)
    }
}

impl<S: HasIdentityTables> FromRequestParts<S> for KeyReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        with_scope(parts, state, Scope::TelemetryRead).await.map(Self)
    }
}

async fn with_scope<S: HasIdentityTables>(parts: &mut Parts, state: &S, scope: Scope) -> Result<Caller, ApiError> {
    let caller = Caller::from_request_parts(parts, state).await?;
    caller.require(scope)?;
    Ok(caller)
}

/// Returns the key if there is exactly one key header, with a well-formed key.
pub fn presented_key(headers: &HeaderMap) -> Option<PlainApiKey> {
    PlainApiKey::parse(single_header(headers, API_KEY_HEADER)?)
}

/// Returns the bearer token of a user session if there is exactly one.
pub fn presented_session(headers: &HeaderMap) -> Option<PlainUserSession> {
    let (scheme, token) = single_header(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| PlainUserSession::parse(token))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity_tables::IdentityTables;
    use axum::http::HeaderValue;
    use schemas::identity::OrgType;
    use schemas::problem::Code;
    use schemas::secrets::SecretHash;
    use sha2::{Digest, Sha256};
    use std::sync::Mutex;

    /// Records each lookup and never finds a caller.
    struct Notes {
        directory: IdentityTables,
        asked: Mutex<Vec<SecretHash>>,
    }

    impl HasIdentityTables for Notes {
        fn identity_tables(&self) -> &IdentityTables {
            &self.directory
        }

        async fn find_caller(&self, hash: &SecretHash) -> Result<Option<Caller>, ApiError> {
            self.asked.lock().unwrap().push(*hash);
            Ok(None)
        }
    }

    #[tokio::test]
    async fn x21_looks_up_keys_by_their_full_hash() {
        let pool = sqlx::PgPool::connect_lazy("postgres://nobody@localhost/nothing").unwrap();
        let notes = Notes { directory: IdentityTables::new(pool), asked: Mutex::default() };
        let ask = async |presented: &str| {
            let request = axum::http::Request::builder().header(API_KEY_HEADER, presented).body(()).unwrap();
            let refused = Caller::from_request_parts(&mut request.into_parts().0, &notes).await.unwrap_err();
            (refused.code(), std::mem::take(&mut *notes.asked.lock().unwrap()))
        };
        let key = PlainApiKey::generate(OrgType::Agent);
        let sha256: [u8; 32] = Sha256::digest(key.reveal().as_bytes()).into();
        let (code, asked) = ask(key.reveal()).await;
        assert_eq!(code, Code::Unauthenticated);
        assert_eq!(asked.iter().map(SecretHash::as_bytes).collect::<Vec<_>>(), [&sha256], "one lookup for any valid key");
        // Anyone can compute the checksum, so a wrong one needs no lookup.
        let typo = format!("{}{}", &key.reveal()[..key.reveal().len() - 1], if key.reveal().ends_with('x') { "y" } else { "x" });
        for never_minted in [typo.as_str(), "", "svc_pk_", &key.reveal()[1..], &key.reveal().to_uppercase()] {
            let (refused, asked) = ask(never_minted).await;
            assert_eq!((refused, asked.len()), (code, 0), "{never_minted}");
        }
    }

    #[test]
    fn rejects_two_key_headers() {
        let key = PlainApiKey::generate(OrgType::Agent);
        let value = HeaderValue::from_str(key.reveal()).unwrap();
        let mut headers = HeaderMap::new();
        headers.append(API_KEY_HEADER, value.clone());
        assert!(presented_key(&headers).is_some());
        headers.append(API_KEY_HEADER, value);
        assert!(presented_key(&headers).is_none());
    }

    #[test]
    fn rejects_an_api_key_as_bearer_token() {
        let bearer = |secret: &str| {
            let value = HeaderValue::from_str(&format!("Bearer {secret}")).unwrap();
            presented_session(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        };
        assert!(bearer(PlainApiKey::generate(OrgType::Agent).reveal()).is_none());
        assert!(bearer(PlainUserSession::generate().reveal()).is_some());
    }
}
