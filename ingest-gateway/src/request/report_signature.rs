//! Checks the signatures of reports (docs/api/signatures.md) before they are accepted.
//!
//! The result is part of the record, so every replay of the log stores the same one, whatever happens to keys and nonces later.

mod used_nonces;

use crate::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use chrono::{DateTime, Utc};
use data_encoding::BASE64;
use schemas::ids::OrgId;
use schemas::problem::{Code, Fault};
use schemas::signature::{RecordedSignature, SignatureProof, SignatureResult, UNCHECKED};
use service_kit::auth::Caller;
use service_kit::clock::Clock;
use service_kit::http::ApiError;
use service_kit::identity_tables::{IdentityTables, ListedKey};
use service_kit::optional_postgres::OptionalPostgres;
use service_kit::stale_cache::StaleCache;
use sha2::{Digest, Sha256};
use signatures::{CheckedSignature, Key, PublicKey, Reason, Request, RequestSignature, Verdict, content_telemetry};
use sqlx::PgPool;
use used_nonces::UsedNonces;

const MALFORMED: &str = "malformed";
/// Maximum length of a signature base, which is stored with every event of the request.
const MAX_BASE_BYTES: usize = 4_096;
/// Size of a nonce in PostgreSQL, without the overhead of a row.
const NONCE_BYTES: usize = 72;
/// Headers that a signature can cover, or that contain it.
const HEADERS: [&str; 5] = ["content-type", "content-encoding", "content-digest", "signature-input", "signature"];

/// Keys of organizations, and used nonces.
pub(crate) struct SignatureChecks {
    keys: StaleCache<OrgId, Vec<ListedKey>>,
    nonces: UsedNonces,
}

impl SignatureChecks {
    pub(crate) fn start(pool: &PgPool, clock: &Clock) -> Self {
        let database = OptionalPostgres::new(pool.clone(), clock.clone());
        Self { keys: StaleCache::new(clock.clone()), nonces: UsedNonces::start(database, clock.clone()) }
    }

    /// Returns the keys that the organization's manifests list; a change takes effect within a second.
    async fn keys(&self, directory: &IdentityTables, org: OrgId, now: DateTime<Utc>) -> Result<Vec<ListedKey>, ApiError> {
        let ask = || async { directory.manifest_keys(org, now).await.map(Some) };
        self.keys.find(&org, ask).await.map(Option::unwrap_or_default)
    }
}

/// The signature of a request that isn't accepted yet.
#[derive(Debug, Default)]
pub(crate) struct PendingSignature {
    /// `None` if the request has none.
    recorded: Option<RecordedSignature>,
    /// Set if everything but the nonce is valid.
    nonce: Option<Nonce>,
}

#[derive(Debug)]
struct Nonce {
    /// SHA-256 of organization, key and nonce.
    hash: [u8; 32],
    /// The second from which the signature is stale.
    expires: i64,
}

/// Returns whether a request has signature headers.
pub(super) fn is_signed(headers: &HeaderMap) -> bool {
    headers.contains_key("signature-input")
}

/// Checks everything but the nonce. `sha256` returns the digest of the body as sent.
///
/// # Errors
///
/// 401 if the key requires a signature and this one isn't valid, or 503 if it can't be checked now.
pub(super) async fn check(
    state: &State,
    caller: &Caller,
    parts: &Parts,
    sha256: impl AsyncFnOnce() -> [u8; 32],
) -> Result<PendingSignature, ApiError> {
    let pending =
        if is_signed(&parts.headers) { verify(state, caller, parts, sha256).await } else { PendingSignature::default() };
    pending.require(caller)?;
    Ok(pending)
}

async fn verify(state: &State, caller: &Caller, parts: &Parts, sha256: impl AsyncFnOnce() -> [u8; 32]) -> PendingSignature {
    let sent = SentRequest::new(parts);
    let headers: Vec<(&str, &str)> = sent.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let [secure, plain] =
        sent.uris.each_ref().map(|uri| Request { method: parts.method.as_str(), target_uri: uri, headers: &headers });
    let claim = match content_telemetry::read(&secure) {
        Ok(Some(claim)) if claim.base.len() <= MAX_BASE_BYTES => claim,
        Ok(Some(_)) => return PendingSignature::invalid(MALFORMED),
        Ok(None) => return PendingSignature::default(),
        Err(reason) => return PendingSignature::invalid(reason.as_str()),
    };
    let now = state.clock.now();
    let Ok(listed) = state.signatures.keys(state.callers.directory(), caller.org_id, now).await else {
        return PendingSignature::from_recorded(RecordedSignature::without_proof(SignatureResult::None, UNCHECKED));
    };
    let (keys, sha256) = (keys(&listed), sha256().await);
    let check = |request: &Request<'_>, claim: RequestSignature| {
        let mut nonce = None;
        let checked = content_telemetry::check(claim, (request, &sha256), &keys, now.timestamp(), |thumbprint, text, expires| {
            nonce = Some(Nonce { hash: nonce_hash(caller.org_id, thumbprint, text), expires });
            true
        });
        (checked, nonce)
    };
    let mut checked = check(&secure, claim);
    if checked.0.verdict == Verdict::Invalid(Reason::BadSignature) {
        // A proxy may have received the request over plain HTTP.
        if let Ok(Some(claim)) = content_telemetry::read(&plain) {
            let other = check(&plain, claim);
            checked = if other.0.verdict == Verdict::Valid { other } else { checked };
        }
    }
    let (checked, nonce) = checked;
    PendingSignature { recorded: recorded(checked, &listed), nonce }
}

/// The parts of a request that a signature can cover.
struct SentRequest {
    /// The URL with `https` and with `http`, because only the proxies in front of the gateway know the scheme.
    uris: [String; 2],
    headers: Vec<(&'static str, String)>,
}

impl SentRequest {
    fn new(parts: &Parts) -> Self {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = parts.uri.authority().map(axum::http::uri::Authority::as_str).or(host).unwrap_or_default();
        let path = parts.uri.path_and_query().map_or("/", axum::http::uri::PathAndQuery::as_str);
        let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let values = |name: &'static str| parts.headers.get_all(name).iter().map(move |value| (name, text(value)));
        Self {
            uris: ["https", "http"].map(|scheme| format!("{scheme}://{authority}{path}")),
            headers: HEADERS.into_iter().flat_map(values).collect(),
        }
    }
}

fn keys(listed: &[ListedKey]) -> Vec<Key> {
    let key = |listed: &ListedKey| {
        let public = PublicKey::from_bytes(&listed.public_key).ok()?;
        Some(Key {
            id: Some(listed.key_id.clone()),
            public,
            not_before: None,
            expires: listed.expires.map(|expires| expires.timestamp()),
        })
    };
    listed.iter().filter_map(key).collect()
}

fn nonce_hash(org: OrgId, thumbprint: &str, nonce: &str) -> [u8; 32] {
    // A thumbprint has a fixed length.
    Sha256::new().chain_update(org.0).chain_update(thumbprint).chain_update(nonce).finalize().into()
}

fn recorded(checked: CheckedSignature, listed: &[ListedKey]) -> Option<RecordedSignature> {
    let (result, reason) = match checked.verdict {
        Verdict::None => return None,
        Verdict::Valid => (SignatureResult::Valid, ""),
        Verdict::Invalid(reason) => (SignatureResult::Invalid, reason.as_str()),
    };
    let proof = checked.claim.zip(checked.key).map(|(claim, key)| SignatureProof {
        base: claim.base,
        signature: BASE64.encode(&claim.signature),
        key_id: claim.key_id,
        key_version: listed.iter().find(|listed| listed.public_key == *key.as_bytes()).map(|listed| listed.version),
        public_key: key.to_multibase(),
    });
    Some(RecordedSignature { result, reason: reason.to_owned(), signed_by: String::new(), proof })
}

impl PendingSignature {
    fn invalid(reason: &str) -> Self {
        Self::from_recorded(RecordedSignature::without_proof(SignatureResult::Invalid, reason))
    }

    fn from_recorded(recorded: RecordedSignature) -> Self {
        Self { recorded: Some(recorded), nonce: None }
    }

    /// Returns 401 if the key requires a signature and this one isn't valid.
    fn require(&self, caller: &Caller) -> Result<(), ApiError> {
        let reason = match &self.recorded {
            _ if !caller.require_signature => return Ok(()),
            Some(recorded) if recorded.result == SignatureResult::Valid => return Ok(()),
            Some(recorded) => recorded.reason.as_str(),
            None => "none",
        };
        Err(refusal(reason))
    }

    /// Uses the signature's nonce and returns the result to record. `identity` identifies the request: a retry has the same one and is
    /// not a replay.
    ///
    /// # Errors
    ///
    /// 401 or 503, as [`check`]; 429 if the key requires a signature and the budget can't pay for the nonce.
    pub(crate) async fn settle(
        &self,
        state: &State,
        caller: &Caller,
        identity: &[u8],
    ) -> Result<Option<Box<RecordedSignature>>, ApiError> {
        let Some(mut recorded) = self.recorded.clone() else { return Ok(None) };
        if let (Some(nonce), Some(proof)) = (&self.nonce, &recorded.proof) {
            let request = Sha256::new().chain_update(&proof.base).chain_update(identity).finalize().into();
            let is_first = match state.write_budgets.spend_rows(state, caller, 1, NONCE_BYTES) {
                Ok(()) => state.signatures.nonces.is_first_use(caller.tenant(), nonce, &request).await?,
                Err(over) if caller.require_signature => return Err(over),
                Err(_) => None,
            };
            let failed = match is_first {
                Some(true) => None,
                Some(false) => Some((SignatureResult::Invalid, Reason::Replayed.as_str())),
                None => Some((SignatureResult::None, UNCHECKED)),
            };
            if let Some((result, reason)) = failed {
                (recorded.result, recorded.reason) = (result, reason.to_owned());
            }
        }
        let settled = Self::from_recorded(recorded);
        settled.require(caller)?;
        Ok(settled.recorded.map(Box::new))
    }
}

/// Returns the error for a report whose key requires a signature.
pub(crate) fn refusal(reason: &str) -> ApiError {
    if reason == UNCHECKED {
        return ApiError::unavailable(anyhow::anyhow!("a required signature can't be checked"));
    }
    let detail = format!("the API key requires a valid signature, but this one is {reason}");
    let fault = Fault { index: None, field: "Signature".to_owned(), code: reason.to_owned(), detail };
    ApiError::faults(Code::Unauthenticated, vec![fault])
}

#[cfg(test)]
mod tests;
