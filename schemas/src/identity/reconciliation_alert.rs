//! When an owner is alerted of differences between claims and servers' reports (docs/api/reconciliation.md#alerts).

use serde::{Deserialize, Serialize};

/// Both thresholds have to be reached. Without them, there are no alerts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconciliationAlert {
    /// Minimum number of a licensee's differing fetches in a day.
    pub min_events: Option<i64>,
    /// Minimum share of the licensee's compared fetches: 0 to 1.
    pub share: Option<f64>,
}

impl ReconciliationAlert {
    /// Returns the thresholds; `None` without alerts.
    pub fn thresholds(self) -> Option<(i64, f64)> {
        self.min_events.zip(self.share)
    }

    /// Returns the first rule that the thresholds break.
    pub fn problem(self) -> Option<(&'static str, &'static str)> {
        match (self.min_events, self.share) {
            (Some(0..), Some(share)) if !(0.0..=1.0).contains(&share) => Some(("share", "share must be a number from 0 to 1")),
            (Some(1..), Some(_)) | (None, None) => None,
            (Some(_), Some(_)) => Some(("min_events", "min_events must be 1 or more")),
            _ => Some(("share", "set both min_events and share, or neither")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_both_set_and_in_range() {
        let problem = |min_events, share| ReconciliationAlert { min_events, share }.problem().map(|(name, _)| name);
        for share in [0.0, 0.5, 1.0] {
            assert_eq!(problem(Some(1), Some(share)), None);
        }
        assert_eq!(problem(None, None), None);
        for min_events in [i64::MIN, -1, 0] {
            assert_eq!(problem(Some(min_events), Some(0.5)), Some("min_events"));
        }
        for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(problem(Some(1), Some(share)), Some("share"));
        }
        assert_eq!((problem(Some(1), None), problem(None, Some(0.5))), (Some("share"), Some("share")));
    }
}
