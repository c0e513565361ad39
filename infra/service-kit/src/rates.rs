//! A token bucket per API key (decisions.md, "rate limits").
//!
//! Must hold buckets of authenticated keys only, so that nobody can grow the table from outside.

use crate::http::ApiError;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use schemas::ids::ApiKeyId;
use schemas::problem::Code;
use std::num::NonZeroU32;

/// Buckets of one surface.
pub struct Rates {
    buckets: Option<DefaultKeyedRateLimiter<ApiKeyId>>,
    clock: DefaultClock,
}

impl Rates {
    /// `per_second` requests of one key go on for ever, twice as many at once; 0 admits all.
    pub fn per_key(per_second: u32) -> Self {
        let quota = NonZeroU32::new(per_second)
            .map(|rate| Quota::per_second(rate).allow_burst(rate.saturating_mul(NonZeroU32::MIN.saturating_add(1))));
        Self { buckets: quota.map(RateLimiter::keyed), clock: DefaultClock::default() }
    }

    /// Takes a token, or answers 429 with the seconds to wait.
    pub fn admit(&self, key: ApiKeyId) -> Result<(), ApiError> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        buckets.check_key(&key).map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            ApiError::new(Code::TooManyRequests, "The key sends more requests than it may; wait as Retry-After says.")
                .retry_after(wait)
        })
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
}
