//! Limits on unknown credentials: how many a client address may try, and how much they cost the store.
//!
//! ```text
//!  credential ── unknown a moment ago? ───────────► 401 without lookup, and a token of the address
//!      │
//!      ├── recognized before by this process ─────► lookup
//!      │
//!      └── first time ── a token of the address, or 429 ──► lookup
//! ```
//!
//! A recognized credential is still looked up each time, so that a revocation takes effect immediately.

use crate::client_address::{ClientAddress, ClientSettings};
use crate::clock::Clock;
use crate::http::ApiError;
use crate::lru::lru;
use crate::metric_definitions::common as measures;
use crate::rate_limits::RateLimits;
use axum::http::request::Parts;
use chrono::{DateTime, TimeDelta, Utc};
use moka::sync::Cache;
use schemas::secrets::SecretHash;

/// Time for which a credential counts as unknown. If it is created in the meantime, it works within a second.
const UNKNOWN_FOR: TimeDelta = TimeDelta::milliseconds(800);
/// Maximum number of unknown credentials in the cache, separate from recognized ones.
const MAX_UNKNOWN: usize = 10_000;
/// Maximum number of recognized credentials in the cache. An evicted one costs its address another token.
const MAX_RECOGNIZED: usize = 50_000;

pub struct UnknownCredentials {
    clients: ClientSettings,
    clock: Clock,
    rates: RateLimits<ClientAddress>,
    unknown: Cache<SecretHash, DateTime<Utc>>,
    recognized: Cache<SecretHash, ()>,
}

impl UnknownCredentials {
    pub fn new(clients: &ClientSettings) -> Self {
        Self::at(clients, Clock::System)
    }

    fn at(clients: &ClientSettings, clock: Clock) -> Self {
        Self {
            clients: clients.clone(),
            clock,
            rates: RateLimits::per_minute(clients.refused_rate),
            unknown: lru(MAX_UNKNOWN).build(),
            recognized: lru(MAX_RECOGNIZED).build(),
        }
    }

    /// Returns the result of `look_up`. Returns 401 if the credential is unknown, and 429 if the address has tried too many.
    pub async fn limited_lookup<T>(
        &self,
        request: &Parts,
        credential: &SecretHash,
        look_up: impl Future<Output = Result<Option<T>, ApiError>>,
    ) -> Result<T, ApiError> {
        let client = self.clients.client_address(&request.extensions, &request.headers);
        // If the clock was set back, the entry seems to be from the future.
        let is_fresh = |asked: DateTime<Utc>| (TimeDelta::zero()..UNKNOWN_FOR).contains(&(self.clock.now() - asked));
        if self.unknown.get(credential).is_some_and(is_fresh) {
            self.pay(client)?;
            measures::unknown_credential(measures::REMEMBERED);
            return Err(ApiError::unauthenticated());
        }
        let is_recognized = self.recognized.get(credential).is_some();
        if !is_recognized {
            self.pay(client)?;
        }
        let asked_at = self.clock.now();
        if let Some(holder) = look_up.await? {
            self.recognized.insert(*credential, ());
            return Ok(holder);
        }
        self.recognized.invalidate(credential);
        self.unknown.insert(*credential, asked_at);
        measures::unknown_credential(measures::LOOKED_UP);
        // The credential was valid before.
        if is_recognized {
            self.pay(client)?;
        }
        Err(ApiError::unauthenticated())
    }

    /// Returns the error for a malformed credential, which doesn't need a lookup.
    pub fn reject(&self, request: &Parts) -> ApiError {
        let client = self.clients.client_address(&request.extensions, &request.headers);
        self.pay(client).err().unwrap_or_else(ApiError::unauthenticated)
    }

    fn pay(&self, client: ClientAddress) -> Result<(), ApiError> {
        self.rates.admit(client).inspect_err(|_| measures::unknown_credential(measures::LIMITED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_address::Peer;
    use axum::http::Request;
    use schemas::problem::Code;
    use schemas::secrets::PlainUserSession;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn from(address: &str) -> Parts {
        let mut request = Request::new(()).into_parts().0;
        request.extensions.insert(Peer(address.parse().unwrap()));
        request
    }

    fn credential() -> SecretHash {
        PlainUserSession::generate().hash()
    }

    fn with_rate(refused_rate: u32) -> UnknownCredentials {
        UnknownCredentials::new(&ClientSettings { refused_rate, ..ClientSettings::default() })
    }

    async fn ask(strangers: &UnknownCredentials, from: &Parts, credential: &SecretHash, holder: Option<u8>) -> Result<u8, Code> {
        strangers.limited_lookup(from, credential, async { Ok(holder) }).await.map_err(|refusal| refusal.code())
    }

    #[tokio::test]
    async fn a11_limits_lookups_of_unknown_credentials_per_address() {
        let (strangers, flood, looked_up) = (with_rate(50), from("192.0.2.1"), AtomicUsize::new(0));
        let look_up = async || {
            looked_up.fetch_add(1, Ordering::Relaxed);
            Ok(None::<u8>)
        };
        let known = credential();
        assert_eq!(ask(&strangers, &flood, &known, Some(1)).await, Ok(1));
        let mut refused = Vec::new();
        for _ in 0..2_000 {
            refused.push(strangers.limited_lookup(&flood, &credential(), look_up()).await.unwrap_err().code());
        }
        let limited = refused.iter().filter(|code| **code == Code::TooManyRequests).count();
        // One token is refilled every 1.2 seconds.
        assert!((40..100).contains(&looked_up.load(Ordering::Relaxed)) && limited > 1_900, "{limited}");
        assert_eq!(ask(&strangers, &flood, &known, Some(1)).await, Ok(1), "recognized credentials are not limited");
        assert_eq!(ask(&strangers, &from("192.0.2.2"), &credential(), Some(2)).await, Ok(2), "other addresses are not limited");
    }

    #[tokio::test]
    async fn caches_unknown_credentials_for_less_than_a_second() {
        let clock = Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        let strangers = UnknownCredentials::at(&ClientSettings::default(), clock.clone());
        let (client, wanted) = (from("192.0.2.1"), credential());
        assert_eq!(ask(&strangers, &client, &wanted, None).await, Err(Code::Unauthenticated));
        let asked = strangers.limited_lookup(&client, &wanted, async { unreachable!("it is known to be unknown") });
        assert_eq!(asked.await.map(|holder: u8| holder).unwrap_err().code(), Code::Unauthenticated);
        clock.advance(TimeDelta::seconds(1));
        assert_eq!(ask(&strangers, &client, &wanted, Some(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn cached_unknown_credentials_still_cost_a_token() {
        let clock = Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        let settings = ClientSettings { refused_rate: 3, ..ClientSettings::default() };
        let (strangers, client, wanted) = (UnknownCredentials::at(&settings, clock), from("192.0.2.1"), credential());
        assert_eq!(ask(&strangers, &client, &wanted, None).await, Err(Code::Unauthenticated));
        let mut answers = Vec::new();
        for _ in 0..4 {
            let asked = strangers.limited_lookup(&client, &wanted, async { unreachable!("it is known to be unknown") });
            answers.push(asked.await.map(|holder: u8| holder).unwrap_err().code());
        }
        assert_eq!(answers[..2], [Code::Unauthenticated; 2]);
        assert_eq!(answers[2..], [Code::TooManyRequests; 2], "the address has no tokens left");
        assert_eq!(ask(&strangers, &client, &credential(), Some(1)).await, Err(Code::TooManyRequests));
    }

    #[tokio::test]
    async fn unknown_credentials_do_not_evict_recognized_ones() {
        let (strangers, client, known) = (with_rate(0), from("192.0.2.1"), credential());
        assert_eq!(ask(&strangers, &client, &known, Some(1)).await, Ok(1));
        for _ in 0..2 * MAX_UNKNOWN {
            assert!(ask(&strangers, &client, &credential(), None).await.is_err());
        }
        strangers.unknown.run_pending_tasks();
        assert!(strangers.recognized.contains_key(&known) && strangers.unknown.entry_count() <= MAX_UNKNOWN as u64);
    }

    #[tokio::test]
    async fn revoked_credentials_cost_a_token_before_the_lookup() {
        let clock = Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        let settings = ClientSettings { refused_rate: 1, ..ClientSettings::default() };
        let (strangers, client, key) = (UnknownCredentials::at(&settings, clock.clone()), from("192.0.2.1"), credential());
        assert_eq!(ask(&strangers, &client, &key, Some(1)).await, Ok(1));
        let revoked = ask(&strangers, &client, &key, None).await;
        assert_eq!(revoked, Err(Code::TooManyRequests), "the address must pay before the lookup");
        for _ in 0..3 {
            clock.advance(TimeDelta::seconds(1));
            let asked = strangers.limited_lookup(&client, &key, async { unreachable!("the address has no tokens left") });
            assert_eq!(asked.await.map(|holder: u8| holder).unwrap_err().code(), Code::TooManyRequests);
        }
    }

    #[tokio::test]
    async fn malformed_and_revoked_credentials_cost_a_token() {
        let (strangers, client, key) = (with_rate(3), from("192.0.2.1"), credential());
        assert_eq!(ask(&strangers, &client, &key, Some(1)).await, Ok(1));
        assert_eq!(ask(&strangers, &client, &key, None).await, Err(Code::Unauthenticated), "the key is revoked");
        assert_eq!(strangers.reject(&client.clone()).code(), Code::Unauthenticated);
        assert_eq!(strangers.reject(&client).code(), Code::TooManyRequests);
    }
}
