//! Remembers which request each `Idempotency-Key` was used with.
//!
//! This doesn't affect counting, which depends only on event keys. It only warns callers early that a key was used for something else.

use lru::LruCache;
use schemas::ids::OrgId;
use schemas::problem::Code;
use service_kit::http::ApiError;
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use std::sync::Mutex;

const REMEMBERED: usize = 100_000;

/// Digest of the identities of a request's reports.
pub(crate) type Fingerprint = [u8; 16];

/// Accepted or pending fingerprints, by the hash of organization and key.
pub(crate) struct IdempotencyKeys(Mutex<LruCache<[u8; 32], Fingerprint>>);

/// A pending request and the key it claimed. Dropping it releases the key.
pub(crate) struct Claim<'a> {
    keys: &'a IdempotencyKeys,
    pub(crate) fingerprint: Fingerprint,
    /// `None` without a key, or if the same request claimed it before.
    taken: Option<[u8; 32]>,
}

impl IdempotencyKeys {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(REMEMBERED).expect("the constant is not zero"))))
    }

    /// Claims a key for these events. Returns 422 if it was used with other events.
    pub(crate) fn claim(&self, org: OrgId, key: Option<&str>, fingerprint: Fingerprint) -> Result<Claim<'_>, ApiError> {
        let claim = |taken| Claim { keys: self, fingerprint, taken };
        let Some(key) = key else { return Ok(claim(None)) };
        let place: [u8; 32] = Sha256::new().chain_update(org.0.as_bytes()).chain_update(key).finalize().into();
        let mut keys = self.0.lock().expect("no holder of the lock panics");
        match keys.get(&place) {
            Some(accepted) if *accepted == fingerprint => Ok(claim(None)),
            Some(_) => {
                let detail = "This Idempotency-Key was already used with other events. Nothing was changed. Use a new key for each request.";
                Err(ApiError::new(Code::InvalidRequest, detail))
            }
            None => {
                keys.put(place, fingerprint);
                Ok(claim(Some(place)))
            }
        }
    }
}

impl Claim<'_> {
    /// Keeps the claim after the request was accepted.
    pub(crate) fn keep(mut self) {
        self.taken = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.taken {
            self.keys.0.lock().expect("no holder of the lock panics").pop(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn failed_requests_release_their_key() {
        let (keys, org) = (IdempotencyKeys::new(), OrgId(Uuid::from_u128(1)));
        let claim = |n: u8| keys.claim(org, Some("k"), [n; 16]);
        let first = claim(1).unwrap();
        assert_eq!(claim(2).err().map(|error| error.code()), Some(Code::InvalidRequest), "while the first request is pending");
        assert!(claim(1).is_ok(), "a retry");
        drop(first);
        claim(2).unwrap().keep();
        assert!(claim(1).is_err() && claim(2).is_ok());
        assert!(keys.claim(OrgId(Uuid::from_u128(2)), Some("k"), [1; 16]).is_ok(), "another organization's key");
        assert!(keys.claim(org, None, [9; 16]).is_ok());
    }
}
