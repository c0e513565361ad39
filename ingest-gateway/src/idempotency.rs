//! What each `Idempotency-Key` came with: the same key means the same request.
//!
//! Must not decide what counts: that is the event key, which this gateway's memory has no part in. It only tells a
//! caller early that a key is used for something else.

use lru::LruCache;
use schemas::ids::OrgId;
use schemas::problem::Code;
use service_kit::http::ApiError;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// Keys remembered at a time.
const REMEMBERED: usize = 100_000;

/// Names the observations of a request, whatever else it says.
pub(crate) type Fingerprint = [u8; 16];

/// Keys by organisation, with what was accepted under them.
pub(crate) struct IdempotencyKeys(Mutex<LruCache<(OrgId, String), Fingerprint>>);

impl IdempotencyKeys {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(REMEMBERED).expect("the constant is not zero"))))
    }

    /// 422 when other events were accepted under this key.
    pub(crate) fn require_same(&self, org: OrgId, key: Option<&str>, fingerprint: &Fingerprint) -> Result<(), ApiError> {
        let Some(key) = key else { return Ok(()) };
        let mut keys = self.0.lock().expect("no holder of the lock panics");
        if keys.get(&(org, key.to_owned())).is_none_or(|accepted| accepted == fingerprint) {
            return Ok(());
        }
        let detail =
            "This Idempotency-Key came with other events before; nothing was changed. Give each request a key of its own.";
        Err(ApiError::new(Code::InvalidRequest, detail))
    }

    /// Takes down what was accepted.
    pub(crate) fn remember(&self, org: OrgId, key: Option<&str>, fingerprint: Fingerprint) {
        let Some(key) = key else { return };
        self.0.lock().expect("no holder of the lock panics").put((org, key.to_owned()), fingerprint);
    }
}
