//! Equal observations of one block collapse, and what is left is sorted as the table is. Pure.
//!
//! Must choose among repeats as the table does, by the larger version: it only spares the table work, and a
//! block folded or not gives the same reads.

use crate::row::ObservationRow;

/// Folds in place; the result does not depend on the order of the input.
pub(crate) fn fold(mut rows: Vec<ObservationRow>) -> Vec<ObservationRow> {
    rows.sort_unstable_by(|a, b| a.key().cmp(&b.key()).then(b.version.cmp(&a.version)));
    rows.dedup_by(|later, first| later.key() == first.key());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn row(key: u128, observer: u8, version: u64) -> ObservationRow {
        let event = r#"{"key":"0000000000000000000000000000000a","type":"content_retrieved","at_ms":0}"#;
        let mut row = ObservationRow::new(serde_json::from_str(event).unwrap(), uuid::Uuid::nil(), 0);
        (row.event_key, row.observer, row.version) = (key, observer, version);
        row
    }

    proptest! {
        #[test]
        fn the_fold_keeps_the_first_of_each_whatever_the_order(
            made in prop::collection::vec((0..5_u128, 0..3_u8, 0..1_000_u64), 0..60),
            swaps in prop::collection::vec((0..60_usize, 0..60_usize), 0..60),
        ) {
            let rows: Vec<_> = made.iter().map(|(key, observer, version)| row(*key, *observer, *version)).collect();
            let mut shuffled = rows.clone();
            for (a, b) in swaps {
                if a < rows.len() && b < rows.len() {
                    shuffled.swap(a, b);
                }
            }
            shuffled.extend(rows.clone());
            let mut expected = HashMap::new();
            for (key, observer, version) in made {
                let kept = expected.entry((key, observer)).or_insert(version);
                *kept = version.max(*kept);
            }
            let folded = fold(shuffled);
            prop_assert_eq!(&folded, &fold(rows));
            prop_assert_eq!(folded.len(), expected.len());
            for row in folded {
                prop_assert_eq!(expected[&(row.event_key, row.observer)], row.version);
            }
        }
    }
}
