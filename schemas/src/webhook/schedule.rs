//! When a delivery that failed is tried again (decisions.md, "retries").
//!
//! Must not know a clock: it says how long after the end of one attempt the next one is due.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Attempts of one delivery; when the last one has failed it is a dead letter.
pub const MAX_ATTEMPTS: usize = GAPS.len() + 1;
/// What one attempt may take, everything included.
pub const ATTEMPT_DEADLINE: Duration = Duration::from_secs(10);
/// From the end of one attempt to the start of the next, at least: the five delays that are published, the last one repeated.
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

/// The gap after so many failed attempts, none after the last one; `chance` in 0..1 spreads it.
pub fn gap_after(failed: usize, chance: f64) -> Option<Duration> {
    let nominal = failed.checked_sub(1).and_then(|index| GAPS.get(index))?;
    Some(nominal.mul_f64(1.0 + LEAST_DELAY + (MOST_DELAY - LEAST_DELAY) * chance.clamp(0.0, 1.0)))
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
                let gap = gap_after(index + 1, chance).unwrap();
                assert!(gap > *nominal && gap < nominal.mul_f64(1.1), "{gap:?} after attempt {}", index + 1);
            }
        }
        assert_eq!((gap_after(0, 0.5), gap_after(MAX_ATTEMPTS, 0.5)), (None, None));
    }
}
