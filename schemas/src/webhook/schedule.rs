//! When a delivery that failed is tried again (docs/api/webhooks.md#retries).

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Attempts of one delivery; when the last one has failed it is a dead letter.
pub const MAX_ATTEMPTS: usize = GAPS.len() + 1;
/// What one attempt may take, everything included.
pub const ATTEMPT_DEADLINE: Duration = Duration::from_secs(10);
/// From one attempt to the next, at least, and from whichever moment of the former its receiver may have seen it: the five
/// delays that are published, the last one repeated.
pub const GAPS: [Duration; 7] = [
    MINUTE,
    MINUTE.saturating_mul(5),
    MINUTE.saturating_mul(30),
    HOUR.saturating_mul(2),
    HOUR.saturating_mul(12),
    HOUR.saturating_mul(12),
    HOUR.saturating_mul(12),
];
/// How much of the nominal gap is added at least and at most, so that what failed together does not come back together.
/// Never early: the least makes up for clocks that do not run alike. Never above a tenth: the rest is left for finding out
/// that an attempt is due.
const LEAST_DELAY: f64 = 0.01;
const MOST_DELAY: f64 = 0.09;

/// The gap after so many failed attempts, the last of which took so long; none after the eighth. `chance` in 0..1 spreads it.
///
/// It counts from the end of that attempt, and what it took is taken off what is added: so the next one is early by no
/// measure, and late by none as far as that can be.
pub fn gap_after(failed: usize, took: Duration, chance: f64) -> Option<Duration> {
    let nominal = failed.checked_sub(1).and_then(|index| GAPS.get(index))?;
    let added = |share: f64| nominal.mul_f64(1.0 + share);
    let spread = added(LEAST_DELAY + (MOST_DELAY - LEAST_DELAY) * chance.clamp(0.0, 1.0));
    Some(spread.saturating_sub(took).max(added(LEAST_DELAY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v10_eight_attempts_are_spread_over_38_hours_and_36_minutes_at_least() {
        assert_eq!(MAX_ATTEMPTS, 8);
        let total: Duration = GAPS.iter().sum();
        assert_eq!(total, HOUR * 38 + MINUTE * 36);
        for chance in [0.0, 0.3, 1.0, -1.0, 7.0] {
            for (index, nominal) in GAPS.iter().enumerate() {
                let gap = |took| gap_after(index + 1, took, chance).unwrap();
                for took in [Duration::ZERO, ATTEMPT_DEADLINE / 3, ATTEMPT_DEADLINE] {
                    let (from_end, from_start) = (gap(took), took + gap(took));
                    let most = nominal.mul_f64(1.1) + Duration::from_secs(1);
                    assert!(from_end > *nominal && from_end < most, "{from_end:?} after attempt {}", index + 1);
                    // Of the minute a tenth is less than an attempt may take.
                    assert!(from_start < most || *nominal == MINUTE && took == ATTEMPT_DEADLINE, "{from_start:?} after {took:?}");
                }
            }
        }
        let none = |failed| gap_after(failed, Duration::ZERO, 0.5);
        assert_eq!((none(0), none(MAX_ATTEMPTS)), (None, None));
    }
}
