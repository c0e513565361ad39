//! 5 DEDUPE: equal observations of one block collapse, and what is left is sorted as the table is. Pure.
//!
//! Must choose among repeats as the table does, by the larger version, and among equal versions by the content: the table
//! would keep whichever it was given last. The digest of the report comes first, so that another organisation's session decides
//! nothing. Blocks hold whole requests, so that different reports of one event in one request, which share their time, are
//! decided here, and the same way in every replay.

use super::row::ObservationRow;

/// What is left of a block, and what was left out: a block that must be cut needs both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Folded {
    /// The first of each observation, as the table is sorted.
    pub(crate) rows: Vec<ObservationRow>,
    /// Later reports of the same.
    pub(crate) repeats: Vec<ObservationRow>,
}

/// Folds in place; the rows that stay do not depend on the order of the input.
pub(crate) fn fold(mut rows: Vec<ObservationRow>) -> Folded {
    sort(&mut rows);
    let repeats = if rows.windows(2).any(|pair| pair[0].key() == pair[1].key()) { take_repeats(&mut rows) } else { Vec::new() };
    Folded { rows, repeats }
}

/// Sorts places and then moves each row once: a row is some 400 bytes, and a sort moves what it sorts many times.
fn sort(rows: &mut [ObservationRow]) {
    let mut places: Vec<usize> = (0..rows.len()).collect();
    places.sort_unstable_by(|a, b| {
        let (a, b) = (&rows[*a], &rows[*b]);
        a.key().cmp(&b.key()).then(b.version.cmp(&a.version)).then_with(|| a.cmp(b))
    });
    for to in 0..rows.len() {
        // What was there may have been moved on already, as often as it takes.
        let mut from = places[to];
        while from < to {
            from = places[from];
        }
        places[to] = from;
        rows.swap(to, from);
    }
}

fn take_repeats(rows: &mut Vec<ObservationRow>) -> Vec<ObservationRow> {
    let mut repeats = Vec::new();
    let mut firsts: Vec<ObservationRow> = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        let is_repeat = firsts.last().is_some_and(|first| first.key() == row.key());
        if is_repeat { &mut repeats } else { &mut firsts }.push(row);
    }
    *rows = firsts;
    repeats
}

impl Folded {
    /// Two halves of whole records, the older first, so that no request is visible by half; itself when it is of one
    /// record. The halves are folded anew: a repeat may now be the only one of its half.
    pub(crate) fn halved(self) -> Result<[Self; 2], Self> {
        // All rows of a record say this; two records that say it stay together, which is as good.
        let record = |row: &ObservationRow| (row.received_at_us(), row.org_id);
        let mut records: Vec<_> = self.rows.iter().chain(&self.repeats).map(record).collect();
        records.sort_unstable();
        // The middle, unless it still belongs to the oldest record; then right behind that.
        let is_later = |of: &&_| records.first() < Some(*of);
        let middle = records.get(records.len() / 2).filter(is_later);
        let Some(cut) = middle.or_else(|| records.iter().find(is_later)).copied() else { return Err(self) };
        let (older, newer) = self.rows.into_iter().chain(self.repeats).partition(|row| record(row) < cut);
        Ok([fold(older), fold(newer)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn of_equal_versions_the_content_decides_whatever_the_order() {
        let told = |data: &str| ObservationRow { data: data.to_owned(), ..row(1, 1, 7) };
        let kept = |order: [&str; 3]| fold(order.into_iter().map(told).collect()).rows;
        assert_eq!(kept(["a", "b", "c"]), [told("a")]);
        for order in [["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]] {
            assert_eq!(kept(order), [told("a")], "{order:?}");
        }
    }

    #[test]
    fn e11_only_what_one_organisation_reports_again_of_one_host_in_one_role_is_a_repeat() {
        let of = |site: &str, org: u128, key, observer, version| {
            let (site, org_id) = (site.to_owned(), uuid::Uuid::from_u128(org));
            ObservationRow { site, org_id, ..row(key, observer, version) }
        };
        // In the order of the table, and each different from the first in one part of its key.
        let one_each = [
            of("com.example", 1, 1, 1, 9),
            of("com.example", 1, 1, 2, 9),
            of("com.example", 2, 1, 1, 9),
            of("com.example", 1, 2, 1, 9),
            of("com.example.blog", 1, 1, 1, 9),
        ];
        let folded = fold(one_each.iter().rev().cloned().collect());
        assert_eq!((folded.rows, folded.repeats), (one_each.to_vec(), Vec::new()));
        let again = one_each.clone().map(|row| ObservationRow { version: 8, ..row });
        let folded = fold([again.to_vec(), one_each.to_vec()].concat());
        assert_eq!((folded.rows, folded.repeats), (one_each.to_vec(), again.to_vec()));
    }

    fn row(key: u128, observer: u8, version: u64) -> ObservationRow {
        let record = r#"{"v":1,"org":"00000000-0000-0000-0000-000000000000","received_at_us":0,"kind":"events",
            "events":[{"own_key":"0000000000000000000000000000000a","type":"content_retrieved","at_ms":0}]}"#;
        let mut row = ObservationRow::of(serde_json::from_str(record).unwrap(), (0, 0)).remove(0);
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
            let reports = shuffled.len();
            let folded = fold(shuffled);
            prop_assert_eq!(&folded.rows, &fold(rows).rows);
            prop_assert_eq!(folded.rows.len(), expected.len());
            prop_assert_eq!(folded.rows.len() + folded.repeats.len(), reports);
            for row in folded.rows {
                prop_assert_eq!(expected[&(row.event_key, row.observer)], row.version);
            }
        }

        #[test]
        fn a_block_cut_in_half_keeps_records_whole_and_loses_nothing(
            made in prop::collection::vec((0..9_u128, 0..3_u8, 0..6_u64), 0..40),
        ) {
            // The record is what stands above the tie bits of `version`.
            let rows: Vec<_> = made.iter().map(|(key, observer, record)| row(*key, *observer, !(record << 12))).collect();
            let records: HashSet<u64> = made.iter().map(|(_, _, record)| *record).collect();
            let whole = fold(rows.clone());
            let all = |folded: &Folded| folded.rows.iter().chain(&folded.repeats).cloned().collect::<Vec<_>>();
            match whole.clone().halved() {
                Err(back) => {
                    prop_assert!(records.len() < 2);
                    prop_assert_eq!(back, whole);
                }
                Ok([older, newer]) => {
                    prop_assert!(!older.rows.is_empty() && !newer.rows.is_empty());
                    let latest = older.rows.iter().chain(&older.repeats).map(ObservationRow::received_at_us).max();
                    prop_assert!(newer.rows.iter().chain(&newer.repeats).all(|row| Some(row.received_at_us()) > latest));
                    let again = [all(&older), all(&newer)].concat();
                    prop_assert_eq!(again.len(), rows.len());
                    prop_assert_eq!(fold(again).rows, whole.rows);
                }
            }
        }
    }
}
