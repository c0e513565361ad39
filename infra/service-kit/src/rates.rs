//! Token buckets (decisions.md, "rate limits"): one for each API key, person or client address.
//!
//! Must not grow without end: buckets of keys that a caller can make up, such as addresses, are swept once they are full.

use crate::http::ApiError;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use schemas::ids::ApiKeyId;
use schemas::problem::Code;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many admissions lie between two sweeps.
const SWEEP_EVERY: u32 = 4_096;

/// Buckets of one surface, by what `K` names.
pub struct Rates<K: Hash + Eq + Copy = ApiKeyId> {
    buckets: Option<DefaultKeyedRateLimiter<K>>,
    capacity: u32,
    clock: DefaultClock,
    admissions: AtomicU32,
}

impl<K: Hash + Eq + Copy> Rates<K> {
    /// `per_second` requests of one key go on for ever, twice as many at once; 0 admits all.
    pub fn per_key(per_second: u32) -> Self {
        Self::of(per_second, |rate| Quota::per_second(rate).allow_burst(rate.saturating_mul(NonZeroU32::MIN.saturating_add(1))))
    }

    /// `per_minute` requests of one key, all at once if it likes; 0 admits all.
    pub fn per_minute(per_minute: u32) -> Self {
        Self::of(per_minute, Quota::per_minute)
    }

    fn of(rate: u32, quota: impl Fn(NonZeroU32) -> Quota) -> Self {
        let quota = NonZeroU32::new(rate).map(quota);
        Self {
            buckets: quota.map(RateLimiter::keyed),
            capacity: quota.map_or(u32::MAX, |quota| quota.burst_size().get()),
            clock: DefaultClock::default(),
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
        Err(ApiError::new(Code::TooManyRequests, "These are more requests than are allowed; wait as Retry-After says.")
            .retry_after(wait))
    }

    fn sweep_now_and_then(&self, buckets: &DefaultKeyedRateLimiter<K>) {
        if self.admissions.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            buckets.retain_recent();
            buckets.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_key_over_its_rate_waits_and_others_do_not() {
        let rates = Rates::per_key(5);
        let (one, two) = (ApiKeyId(Uuid::from_u128(1)), ApiKeyId(Uuid::from_u128(2)));
        let admitted = (0..100).filter(|_| rates.admit(one).is_ok()).count();
        assert!((10..20).contains(&admitted), "{admitted}");
        assert_eq!(rates.admit(one).unwrap_err().code(), Code::TooManyRequests);
        assert!(rates.admit(two).is_ok());
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
