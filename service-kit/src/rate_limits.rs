//! Token buckets (docs/api/http.md#rates) per API key, person or client address.

use crate::http::ApiError;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use schemas::ids::{ApiKeyId, OrgId};
use schemas::problem::Code;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

const SWEEP_EVERY: u32 = 4_096;

/// Capacity of a per-second bucket as a multiple of its rate. A per-minute bucket holds one minute's requests.
const SECONDS_AT_ONCE: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");

type Buckets<K, C> = RateLimiter<K, DefaultKeyedStateStore<K>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// A service's buckets, keyed by `K`.
pub struct RateLimits<K: Hash + Eq + Copy = ApiKeyId, C: Clock + Clone = DefaultClock> {
    buckets: Option<Buckets<K, C>>,
    capacity: u32,
    clock: C,
    admissions: AtomicU32,
}

impl<K: Hash + Eq + Copy> RateLimits<K> {
    /// Allows `per_second` requests per key, and bursts of twice as many; 0 means unlimited.
    pub fn per_key(per_second: u32) -> Self {
        Self::by_the_second(per_second, DefaultClock::default())
    }

    /// Allows `per_minute` requests per key, also all at once; 0 means unlimited.
    pub fn per_minute(per_minute: u32) -> Self {
        Self::by_the_minute(per_minute, DefaultClock::default())
    }
}

impl<K: Hash + Eq + Copy, C: Clock + Clone> RateLimits<K, C> {
    fn by_the_second(rate: u32, clock: C) -> Self {
        Self::with_quota(rate, clock, |rate| Quota::per_second(rate).allow_burst(rate.saturating_mul(SECONDS_AT_ONCE)))
    }

    fn by_the_minute(rate: u32, clock: C) -> Self {
        Self::with_quota(rate, clock, Quota::per_minute)
    }

    fn with_quota(rate: u32, clock: C, quota: impl Fn(NonZeroU32) -> Quota) -> Self {
        let quota = NonZeroU32::new(rate).map(quota);
        Self {
            buckets: quota.map(|quota| RateLimiter::new(quota, DefaultKeyedStateStore::default(), clock.clone())),
            capacity: quota.map_or(u32::MAX, |quota| quota.burst_size().get()),
            clock,
            admissions: AtomicU32::new(0),
        }
    }

    /// Takes a token, or returns 429 with the seconds to wait.
    pub fn admit(&self, key: K) -> Result<(), ApiError> {
        self.admit_many(key, NonZeroU32::MIN)
    }

    /// Takes `count` tokens, or none if there are too few. A count above the capacity costs a full bucket.
    pub fn admit_many(&self, key: K, count: NonZeroU32) -> Result<(), ApiError> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        self.sweep_now_and_then(buckets);
        let count = count.min(NonZeroU32::new(self.capacity).unwrap_or(NonZeroU32::MIN));
        let Ok(Err(until)) = buckets.check_key_n(&key, count) else { return Ok(()) };
        let wait = until.wait_time_from(self.clock.now());
        Err(ApiError::new(Code::TooManyRequests, "Too many requests. Wait for the time in Retry-After, then try again.")
            .retry_after(wait))
    }

    fn sweep_now_and_then(&self, buckets: &Buckets<K, C>) {
        if self.admissions.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            buckets.retain_recent();
            buckets.shrink_to_fit();
        }
    }
}

/// An organization's rate, as a multiple of one credential's rate.
const CREDENTIALS_OF_ORGANIZATION: u32 = 2;

/// A service's rates: a bucket for each credential and for each organization.
pub struct CallerRateLimits<K: Hash + Eq + Copy = ApiKeyId> {
    credentials: RateLimits<K>,
    organizations: RateLimits<OrgId>,
}

impl<K: Hash + Eq + Copy> CallerRateLimits<K> {
    /// Allows `per_second` requests per credential and twice as many per organization; 0 means unlimited.
    pub fn new(per_second: u32) -> Self {
        Self {
            credentials: RateLimits::per_key(per_second),
            organizations: RateLimits::per_key(per_second.saturating_mul(CREDENTIALS_OF_ORGANIZATION)),
        }
    }

    /// Takes a token from both buckets, or returns 429.
    pub fn admit(&self, credential: K, organization: OrgId) -> Result<(), ApiError> {
        self.admit_many(credential, organization, NonZeroU32::MIN)
    }

    /// Takes a token only from the credential's bucket, before the organization is known.
    pub fn admit_credential(&self, credential: K) -> Result<(), ApiError> {
        self.credentials.admit(credential)
    }

    pub fn admit_organization(&self, organization: OrgId, count: NonZeroU32) -> Result<(), ApiError> {
        self.organizations.admit_many(organization, count)
    }

    /// Takes `count` tokens from both buckets, or returns 429.
    pub fn admit_many(&self, credential: K, organization: OrgId, count: NonZeroU32) -> Result<(), ApiError> {
        self.credentials.admit_many(credential, count)?;
        self.admit_organization(organization, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;
    use std::time::Duration;
    use uuid::Uuid;

    /// Returns how many of 10,000 concurrent requests are admitted.
    fn admitted<C: Clock + Clone>(rates: &RateLimits<&str, C>, key: &'static str) -> usize {
        (0..10_000).filter(|_| rates.admit(key).is_ok()).count()
    }

    #[test]
    fn per_second_bucket_holds_twice_its_rate() {
        for rate in [1, 5, 200] {
            let clock = FakeRelativeClock::default();
            let rates = RateLimits::by_the_second(rate, clock.clone());
            let rate = rate as usize;
            assert_eq!((admitted(&rates, "a"), admitted(&rates, "b")), (2 * rate, 2 * rate), "each key has its own bucket");
            for (seconds, again) in [(1, rate), (2, 2 * rate), (3, 2 * rate), (60, 2 * rate), (1, rate)] {
                clock.advance(Duration::from_secs(seconds));
                assert_eq!(admitted(&rates, "a"), again, "{rate} a second, {seconds} seconds later");
            }
        }
    }

    #[test]
    fn per_minute_bucket_holds_one_minute() {
        for rate in [1, 60, 600] {
            let clock = FakeRelativeClock::default();
            let rates = RateLimits::by_the_minute(rate, clock.clone());
            let rate = rate as usize;
            assert_eq!(admitted(&rates, "a"), rate);
            for (seconds, again) in [(60, rate), (30, rate / 2), (3_600, rate)] {
                clock.advance(Duration::from_secs(seconds));
                // Half a token stays in the one-per-minute bucket. The next hour fills it.
                assert_eq!(admitted(&rates, "a"), again, "{rate} a minute, {seconds} seconds later");
            }
        }
    }

    #[test]
    fn rejects_requests_over_the_rate_and_zero_is_unlimited() {
        let rates = RateLimits::per_key(5);
        let one = ApiKeyId(Uuid::from_u128(1));
        let refused = (0..1_000).find_map(|_| rates.admit(one).err()).unwrap();
        assert_eq!(refused.code(), Code::TooManyRequests);
        assert!((0..1_000).all(|_| RateLimits::per_key(0).admit(one).is_ok()));
    }

    #[test]
    fn bulk_requests_cost_at_most_a_full_bucket() {
        let rates = RateLimits::per_minute(10);
        let many = |count| NonZeroU32::new(count).unwrap();
        assert!(rates.admit_many("a", many(9)).is_ok());
        assert_eq!(rates.admit_many("a", many(9)).unwrap_err().code(), Code::TooManyRequests, "only one token was left");
        assert!(rates.admit("a").is_ok(), "a rejected request takes no token");
        assert!(rates.admit_many("b", many(1_000)).is_ok());
        assert!(rates.admit("b").is_err());
    }

    #[test]
    fn an_organizations_credentials_share_its_rate() {
        let rates = CallerRateLimits::new(5);
        let admitted = |organization: u128| {
            let organization = OrgId(Uuid::from_u128(organization));
            (0..1_000).filter(|credential| rates.admit((organization, *credential), organization).is_ok()).count()
        };
        // The bucket refills during the test.
        assert!((20..30).contains(&admitted(1)), "each of 1,000 credentials has its own bucket");
        assert!(admitted(2) >= 20, "other organizations have their own bucket");
    }

    #[test]
    fn million_invalid_keys_use_little_memory() {
        // At this rate, a bucket is full again a microsecond after its only request, and the sweep removes it.
        let rates = RateLimits::per_key(1_000_000);
        for key in 0..1_000_000_u32 {
            assert!(rates.admit(key).is_ok());
        }
        let kept = rates.buckets.as_ref().unwrap().len();
        assert!(kept <= 2 * SWEEP_EVERY as usize, "{kept}");
    }
}
