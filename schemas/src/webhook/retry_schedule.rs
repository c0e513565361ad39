//! When failed deliveries are retried (docs/api/webhooks.md#retries).

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Maximum attempts. After the last one fails, the delivery is a dead letter.
pub const MAX_ATTEMPTS: usize = RETRY_DELAYS.len() + 1;
pub const ATTEMPT_DEADLINE: Duration = Duration::from_secs(10);
/// Minimum delays between attempts: the five published ones, the last of which repeats.
pub const RETRY_DELAYS: [Duration; 7] = [
    MINUTE,
    MINUTE.saturating_mul(5),
    MINUTE.saturating_mul(30),
    HOUR.saturating_mul(2),
    HOUR.saturating_mul(12),
    HOUR.saturating_mul(12),
    HOUR.saturating_mul(12),
];
/// Minimum and maximum share of a delay that is added as jitter, so deliveries that failed together don't retry together. The minimum
/// compensates for clock differences. The maximum is less than a tenth, because finding a due attempt takes time too.
const MIN_JITTER: f64 = 0.01;
const MAX_JITTER: f64 = 0.09;

/// Returns the delay after `failed` attempts, or `None` after the eighth. `took` is the duration of the last attempt; `chance` in
/// 0..1 spreads the retries.
///
/// The delay starts at the end of that attempt. The attempt's duration is subtracted from the jitter, so the retry is neither early nor
/// late.
pub fn retry_delay(failed: usize, took: Duration, chance: f64) -> Option<Duration> {
    let nominal = failed.checked_sub(1).and_then(|index| RETRY_DELAYS.get(index))?;
    let added = |share: f64| nominal.mul_f64(1.0 + share);
    let spread = added(MIN_JITTER + (MAX_JITTER - MIN_JITTER) * chance.clamp(0.0, 1.0));
    Some(spread.saturating_sub(took).max(added(MIN_JITTER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v10_eight_attempts_take_at_least_38_hours() {
        assert_eq!(MAX_ATTEMPTS, 8);
        let total: Duration = RETRY_DELAYS.iter().sum();
        assert_eq!(total, HOUR * 38 + MINUTE * 36);
        for chance in [0.0, 0.3, 1.0, -1.0, 7.0] {
            for (index, nominal) in RETRY_DELAYS.iter().enumerate() {
                let gap = |took| retry_delay(index + 1, took, chance).unwrap();
                for took in [Duration::ZERO, ATTEMPT_DEADLINE / 3, ATTEMPT_DEADLINE] {
                    let (from_end, from_start) = (gap(took), took + gap(took));
                    let most = nominal.mul_f64(1.1) + Duration::from_secs(1);
                    assert!(from_end > *nominal && from_end < most, "{from_end:?} after attempt {}", index + 1);
                    // An attempt may take longer than a tenth of a minute.
                    assert!(from_start < most || *nominal == MINUTE && took == ATTEMPT_DEADLINE, "{from_start:?} after {took:?}");
                }
            }
        }
        let none = |failed| retry_delay(failed, Duration::ZERO, 0.5);
        assert_eq!((none(0), none(MAX_ATTEMPTS)), (None, None));
    }
}
