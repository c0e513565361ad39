//! Token buckets (docs/api/http.md#rates): one for each API key, person or client address.

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

/// How many times its rate a bucket of requests a second holds; one of requests a minute holds a minute's.
const SECONDS_AT_ONCE: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");

type Buckets<K, C> = RateLimiter<K, DefaultKeyedStateStore<K>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Buckets of one surface, by what `K` names.
pub struct Rates<K: Hash + Eq + Copy = ApiKeyId, C: Clock + Clone = DefaultClock> {
    buckets: Option<Buckets<K, C>>,
    capacity: u32,
    clock: C,
    admissions: AtomicU32,
}

impl<K: Hash + Eq + Copy> Rates<K> {
    /// `per_second` requests of one key go on for ever, exactly twice as many at once; 0 admits all.
    pub fn per_key(per_second: u32) -> Self {
        Self::by_the_second(per_second, DefaultClock::default())
    }

    /// `per_minute` requests of one key, exactly so many at once if it likes; 0 admits all.
    pub fn per_minute(per_minute: u32) -> Self {
        Self::by_the_minute(per_minute, DefaultClock::default())
    }
}

impl<K: Hash + Eq + Copy, C: Clock + Clone> Rates<K, C> {
    fn by_the_second(rate: u32, clock: C) -> Self {
        Self::of(rate, clock, |rate| Quota::per_second(rate).allow_burst(rate.saturating_mul(SECONDS_AT_ONCE)))
    }

    fn by_the_minute(rate: u32, clock: C) -> Self {
        Self::of(rate, clock, Quota::per_minute)
    }

    fn of(rate: u32, clock: C, quota: impl Fn(NonZeroU32) -> Quota) -> Self {
        let quota = NonZeroU32::new(rate).map(quota);
        Self {
            buckets: quota.map(|quota| RateLimiter::new(quota, DefaultKeyedStateStore::default(), clock.clone())),
            capacity: quota.map_or(u32::MAX, |quota| quota.burst_size().get()),
            clock,
            admissions: AtomicU32::new(0),
        }
    }

    /// Takes a token, or answers 429 with the seconds to wait.
    pub fn admit(&self, key: K) -> Result<(), ApiError> {
        self.admit_many(key, NonZeroU32::MIN)
    }

    /// Takes a token for each of `count`, all or none; what is more than a full bucket costs a full one.
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

/// How many times the rate of one credential all credentials of an organization have together.
const CREDENTIALS_OF_ORGANIZATION: u32 = 2;

/// Rates of one surface: a bucket for each credential, and one for each organization whatever credentials it has.
pub struct CallerRates<K: Hash + Eq + Copy = ApiKeyId> {
    credentials: Rates<K>,
    organizations: Rates<OrgId>,
}

impl<K: Hash + Eq + Copy> CallerRates<K> {
    /// `per_second` requests of one credential, and twice as many of an organization; 0: no limit.
    pub fn new(per_second: u32) -> Self {
        Self {
            credentials: Rates::per_key(per_second),
            organizations: Rates::per_key(per_second.saturating_mul(CREDENTIALS_OF_ORGANIZATION)),
        }
    }

    /// Takes a token of both, or returns 429.
    pub fn admit(&self, credential: K, organization: OrgId) -> Result<(), ApiError> {
        self.admit_many(credential, organization, NonZeroU32::MIN)
    }

    /// Takes a token of the credential alone, before it is known for which organization it acts.
    pub fn admit_credential(&self, credential: K) -> Result<(), ApiError> {
        self.credentials.admit(credential)
    }

    pub fn admit_organization(&self, organization: OrgId, count: NonZeroU32) -> Result<(), ApiError> {
        self.organizations.admit_many(organization, count)
    }

    /// Takes `count` tokens of both, or returns 429.
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

    /// How many of far too many requests at this moment are admitted.
    fn admitted<C: Clock + Clone>(rates: &Rates<&str, C>, key: &'static str) -> usize {
        (0..10_000).filter(|_| rates.admit(key).is_ok()).count()
    }

    #[test]
    fn a_bucket_by_the_second_holds_exactly_twice_its_rate_and_fills_at_its_rate() {
        for rate in [1, 5, 200] {
            let clock = FakeRelativeClock::default();
            let rates = Rates::by_the_second(rate, clock.clone());
            let rate = rate as usize;
            assert_eq!((admitted(&rates, "a"), admitted(&rates, "b")), (2 * rate, 2 * rate), "each key has its own");
            for (seconds, again) in [(1, rate), (2, 2 * rate), (3, 2 * rate), (60, 2 * rate), (1, rate)] {
                clock.advance(Duration::from_secs(seconds));
                assert_eq!(admitted(&rates, "a"), again, "{rate} a second, {seconds} seconds later");
            }
        }
    }

    #[test]
    fn a_bucket_by_the_minute_holds_exactly_a_minutes_and_fills_at_its_rate() {
        for rate in [1, 60, 600] {
            let clock = FakeRelativeClock::default();
            let rates = Rates::by_the_minute(rate, clock.clone());
            let rate = rate as usize;
            assert_eq!(admitted(&rates, "a"), rate);
            for (seconds, again) in [(60, rate), (30, rate / 2), (3_600, rate)] {
                clock.advance(Duration::from_secs(seconds));
                // Half of what one a minute fills stays in the bucket, and the next hour fills it up.
                assert_eq!(admitted(&rates, "a"), again, "{rate} a minute, {seconds} seconds later");
            }
        }
    }

    #[test]
    fn who_is_over_its_rate_is_told_how_long_to_wait_and_a_rate_of_nothing_is_no_limit() {
        let rates = Rates::per_key(5);
        let one = ApiKeyId(Uuid::from_u128(1));
        let refused = (0..1_000).find_map(|_| rates.admit(one).err()).unwrap();
        assert_eq!(refused.code(), Code::TooManyRequests);
        assert!((0..1_000).all(|_| Rates::per_key(0).admit(one).is_ok()));
    }

    #[test]
    fn many_at_once_cost_one_each_and_never_more_than_a_full_bucket() {
        let rates = Rates::per_minute(10);
        let many = |count| NonZeroU32::new(count).unwrap();
        assert!(rates.admit_many("a", many(9)).is_ok());
        assert_eq!(rates.admit_many("a", many(9)).unwrap_err().code(), Code::TooManyRequests, "one was left");
        assert!(rates.admit("a").is_ok(), "what was refused took nothing");
        assert!(rates.admit_many("b", many(1_000)).is_ok());
        assert!(rates.admit("b").is_err());
    }

    #[test]
    fn many_credentials_of_an_organization_share_its_rate() {
        let rates = CallerRates::new(5);
        let admitted = |organization: u128| {
            let organization = OrgId(Uuid::from_u128(organization));
            (0..1_000).filter(|credential| rates.admit((organization, *credential), organization).is_ok()).count()
        };
        // The bucket refills while the test runs.
        assert!((20..30).contains(&admitted(1)), "each of 1,000 credentials has its own bucket");
        assert!(admitted(2) >= 20, "other organizations have theirs");
    }

    #[test]
    fn x30_a_million_made_up_keys_leave_a_small_table() {
        // A bucket of this rate is full again, and swept, a microsecond after its one request.
        let rates = Rates::per_key(1_000_000);
        for key in 0..1_000_000_u32 {
            assert!(rates.admit(key).is_ok());
        }
        let kept = rates.buckets.as_ref().unwrap().len();
        assert!(kept <= 2 * SWEEP_EVERY as usize, "{kept}");
    }
}
