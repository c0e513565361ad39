//! What each `Idempotency-Key` came with: the same key means the same request.
//!
//! Must not decide what counts: that is the event key, which this gateway's memory has no part in. It only tells a
//! caller early that a key is used for something else.

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

/// Keys by organisation, as hashes of both, with what was or is being accepted under them.
pub(crate) struct IdempotencyKeys(Mutex<LruCache<[u8; 32], Fingerprint>>);

/// A request on its way, with the key that it has taken; given back when the request is not accepted.
pub(crate) struct Claim<'a> {
    keys: &'a IdempotencyKeys,
    pub(crate) fingerprint: Fingerprint,
    /// None when the key was taken by the same request before, or there is none.
    taken: Option<[u8; 32]>,
}

impl IdempotencyKeys {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(REMEMBERED).expect("the constant is not zero"))))
    }

    /// Takes a key for these events, or answers 422 when it has come with others.
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
    /// The request was accepted: the key stays taken.
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
    fn a_key_is_taken_by_one_request_at_a_time_and_free_again_when_that_failed() {
        let (keys, org) = (IdempotencyKeys::new(), OrgId(Uuid::from_u128(1)));
        let claim = |n: u8| keys.claim(org, Some("k"), [n; 16]);
        let first = claim(1).unwrap();
        assert_eq!(claim(2).err().map(|error| error.code()), Some(Code::InvalidRequest), "while the first is on its way");
        assert!(claim(1).is_ok(), "a retry");
        drop(first);
        claim(2).unwrap().keep();
        assert!(claim(1).is_err() && claim(2).is_ok());
        assert!(keys.claim(OrgId(Uuid::from_u128(2)), Some("k"), [1; 16]).is_ok(), "another organisation's");
        assert!(keys.claim(org, None, [9; 16]).is_ok());
    }
}
