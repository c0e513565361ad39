//! Who is asking. A handler states what it needs as an argument type, so a missing check is a missing argument.
//!
//! Must not let a key act as a session or a session as a key, nor tell a caller why a credential was refused.

use crate::directory::{Directory, HasDirectory};
use crate::http::{ApiError, Parameters};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use chrono::{DateTime, Utc};
use schemas::identity::{OrgType, Scope};
use schemas::ids::{ApiKeyId, DrainId, OrgId, UserId};
use schemas::problem::Code;
use schemas::secrets::{PlainApiKey, PlainUserSession};
use serde::Deserialize;
use std::sync::{Arc, OnceLock};

/// The header of an API key.
pub const API_KEY_HEADER: &str = "x-api-key";

/// The holder of an API key.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key used.
    pub key_id: ApiKeyId,
    /// Whose key it is.
    pub org_id: OrgId,
    /// What that organisation is.
    pub org_type: OrgType,
    /// What the key may do.
    pub scopes: Vec<Scope>,
    /// Whether what it reports must keep the public 1.0 rules whole.
    pub strict: bool,
    /// The drain that the key feeds; it then has no scope.
    pub drain: Option<DrainId>,
}

/// By what somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    /// A key of an organisation.
    Key(ApiKeyId),
    /// The session of a person.
    User(UserId),
}

/// A person signed in.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who it is.
    pub user_id: UserId,
    /// Where they are a member.
    pub organizations: Vec<Membership>,
}

/// An organisation that a person belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Which one.
    pub org_id: OrgId,
    /// What it is.
    pub org_type: OrgType,
}

/// The organisation that a request names for the person who sends it.
#[derive(Deserialize)]
struct ActsFor {
    organization_id: Option<String>,
}

/// What a request names in `organization_id`, if it does.
pub fn named_organization(uri: &Uri) -> Result<Option<OrgId>, ApiError> {
    let Parameters(ActsFor { organization_id }) = Parameters::of_uri(uri)?;
    let parsed = organization_id.map(|id| id.parse().map_err(|_| invalid_organization()));
    parsed.transpose()
}

fn invalid_organization() -> ApiError {
    ApiError::new(Code::InvalidParameter, "organization_id must be a UUID.")
}

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

    /// The organisation that a request is for: the one it names, or the only one there is. One answer for an organisation
    /// that does not exist and one that the person does not belong to.
    pub fn acting_for(&self, uri: &Uri) -> Result<Membership, ApiError> {
        match (named_organization(uri)?, self.organizations.as_slice()) {
            (Some(named), own) => own.iter().find(|own| own.org_id == named).copied().ok_or_else(no_member),
            (None, [only]) => Ok(*only),
            (None, []) => Err(no_member()),
            (None, _) => Err(ApiError::new(Code::InvalidParameter, "Name the organisation with ?organization_id=.")),
        }
    }
}

fn no_member() -> ApiError {
    ApiError::new(Code::Forbidden, "You are not a member of this organisation.")
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

    /// Refuses a key without `scope`.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let detail = match self.drain {
            Some(_) => "The API key feeds a drain and opens nothing else.".to_owned(),
            None => format!("The API key lacks the scope {}.", scope.as_str()),
        };
        Err(ApiError::new(Code::MissingScope, detail))
    }

    /// Which drain the key feeds, and `None` where it may report in general; refuses any other key.
    pub fn feeds(&self) -> Result<Option<DrainId>, ApiError> {
        if self.drain.is_none() {
            self.require(Scope::TelemetryWrite)?;
        }
        Ok(self.drain)
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
    let mut values = headers.get_all(API_KEY_HEADER).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(())?;
    PlainApiKey::parse(value)
}

/// The bearer value of a user session, when there is exactly one.
pub fn presented_session(headers: &HeaderMap) -> Option<PlainUserSession> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(())?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| PlainUserSession::parse(token))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use axum::http::HeaderValue;
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
