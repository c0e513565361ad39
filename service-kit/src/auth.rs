//! Who is asking. A handler states what it needs as an argument type, so a missing check is a missing argument.

pub use crate::caller::{Caller, Credential, Member, Membership, Tenant, named_organization};

use crate::directory::{Directory, HasDirectory};
use crate::http::{ApiError, only};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use chrono::{DateTime, Utc};
use schemas::identity::Scope;
use schemas::ids::OrgId;
use schemas::secrets::{PlainApiKey, PlainUserSession};
use std::sync::{Arc, OnceLock};

pub const API_KEY_HEADER: &str = "x-api-key";

impl Member {
    /// Whose session it is; 401 when nobody's.
    pub async fn find(
        parts: &Parts,
        session: &PlainUserSession,
        directory: &Directory,
        now: DateTime<Utc>,
    ) -> Result<Self, ApiError> {
        let hash = session.hash();
        let look_up = async { Ok(directory.find_user_session(&hash, now).await?) };
        directory.strangers().recognise(parts, &hash, look_up).await
    }
}

/// Tells a layer before the handler whose key a request has shown; a request extension.
#[derive(Clone, Debug, Default)]
pub struct CallerSlot(Arc<OnceLock<OrgId>>);

impl CallerSlot {
    fn fill(&self, organization: OrgId) {
        self.0.get_or_init(|| organization);
    }

    /// Whose key it was; none when it was nobody's.
    pub fn organization(&self) -> Option<OrgId> {
        self.0.get().copied()
    }
}

/// A caller whose key has `telemetry:write`.
pub struct Reporter(pub Caller);

/// A caller whose key has `telemetry:read`.
pub struct KeyReader(pub Caller);

impl Caller {
    /// The holder of the key that a request presents: none, or what could not have been minted, or a key.
    pub async fn of_key<S: HasDirectory>(
        parts: &Parts,
        state: &S,
        presented: Option<Option<PlainApiKey>>,
    ) -> Result<Self, ApiError> {
        let presented = presented.ok_or_else(ApiError::unauthenticated)?;
        let strangers = state.directory().strangers();
        let key = presented.ok_or_else(|| strangers.refuse(parts))?.hash();
        let caller = strangers.recognise(parts, &key, state.find_caller(&key)).await?;
        state.note_use(caller.key_id);
        if let Some(slot) = parts.extensions.get::<CallerSlot>() {
            slot.fill(caller.org_id);
        }
        Ok(caller)
    }
}

impl<S: HasDirectory> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let presented = parts.headers.contains_key(API_KEY_HEADER).then(|| presented_key(&parts.headers));
        Self::of_key(parts, state, presented).await
    }
}

impl<S: HasDirectory> FromRequestParts<S> for Reporter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        with_scope(parts, state, Scope::TelemetryWrite).await.map(Self)
    }
}

impl<S: HasDirectory> FromRequestParts<S> for KeyReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        with_scope(parts, state, Scope::TelemetryRead).await.map(Self)
    }
}

async fn with_scope<S: HasDirectory>(parts: &mut Parts, state: &S, scope: Scope) -> Result<Caller, ApiError> {
    let caller = Caller::from_request_parts(parts, state).await?;
    caller.require(scope)?;
    Ok(caller)
}

/// Exactly one key header, with a key that could have been minted: two headers are as good as none.
fn presented_key(headers: &HeaderMap) -> Option<PlainApiKey> {
    PlainApiKey::parse(only(headers, API_KEY_HEADER)?)
}

/// The bearer value of a user session, when there is exactly one.
pub fn presented_session(headers: &HeaderMap) -> Option<PlainUserSession> {
    let (scheme, token) = only(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| PlainUserSession::parse(token))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use axum::http::HeaderValue;
    use schemas::identity::OrgType;
    use schemas::problem::Code;
    use schemas::secrets::SecretHash;
    use sha2::{Digest, Sha256};
    use std::sync::Mutex;

    /// Notes what is looked up, and knows nobody.
    struct Notes {
        directory: Directory,
        asked: Mutex<Vec<SecretHash>>,
    }

    impl HasDirectory for Notes {
        fn directory(&self) -> &Directory {
            &self.directory
        }

        async fn find_caller(&self, hash: &SecretHash) -> Result<Option<Caller>, ApiError> {
            self.asked.lock().unwrap().push(*hash);
            Ok(None)
        }
    }

    #[tokio::test]
    async fn x21_a_key_is_looked_up_by_the_hash_of_all_of_it_and_never_compared() {
        let pool = sqlx::PgPool::connect_lazy("postgres://nobody@localhost/nothing").unwrap();
        let notes = Notes { directory: Directory::new(pool), asked: Mutex::default() };
        let ask = async |presented: &str| {
            let request = axum::http::Request::builder().header(API_KEY_HEADER, presented).body(()).unwrap();
            let refused = Caller::from_request_parts(&mut request.into_parts().0, &notes).await.unwrap_err();
            (refused.code(), std::mem::take(&mut *notes.asked.lock().unwrap()))
        };
        let key = PlainApiKey::mint(OrgType::Agent);
        let sha256: [u8; 32] = Sha256::digest(key.reveal().as_bytes()).into();
        let (code, asked) = ask(key.reveal()).await;
        assert_eq!(code, Code::Unauthenticated);
        assert_eq!(asked.iter().map(SecretHash::as_bytes).collect::<Vec<_>>(), [&sha256], "one look-up, whoever holds it");
        // The checksum is no secret: whoever presents a wrong one knows that it is wrong without asking.
        let typo = format!("{}{}", &key.reveal()[..key.reveal().len() - 1], if key.reveal().ends_with('x') { "y" } else { "x" });
        for never_minted in [typo.as_str(), "", "svc_pk_", &key.reveal()[1..], &key.reveal().to_uppercase()] {
            let (refused, asked) = ask(never_minted).await;
            assert_eq!((refused, asked.len()), (code, 0), "{never_minted}");
        }
    }

    #[test]
    fn two_key_headers_are_none() {
        let key = PlainApiKey::mint(OrgType::Agent);
        let value = HeaderValue::from_str(key.reveal()).unwrap();
        let mut headers = HeaderMap::new();
        headers.append(API_KEY_HEADER, value.clone());
        assert!(presented_key(&headers).is_some());
        headers.append(API_KEY_HEADER, value);
        assert!(presented_key(&headers).is_none());
    }

    #[test]
    fn a_key_sent_as_bearer_is_no_session() {
        let bearer = |secret: &str| {
            let value = HeaderValue::from_str(&format!("Bearer {secret}")).unwrap();
            presented_session(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        };
        assert!(bearer(PlainApiKey::mint(OrgType::Agent).reveal()).is_none());
        assert!(bearer(PlainUserSession::mint().reveal()).is_some());
    }
}
