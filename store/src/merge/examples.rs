//! Examples of the merge function, one for each rule.

use super::{Changes, CurrentRows, MAX_OBSERVERS, keys_to_look_up, merge};
use crate::reference_model::{Facts, Spec};
use crate::report::Home;
use crate::row::{EventRow, EventWrite};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;

const AGENT: u8 = 0;
const EDGE: u8 = 1;
const DAY_S: i64 = 86_400;

fn spec(observer: u8, id: u8, accepted_s: i64) -> Spec {
    Spec { key: Some(0), observer, id, accepted_s, at_s: 0 }
}

/// Merges these blocks one after another. Returns the rows, and the last block's changes.
fn after(blocks: &[&[Spec]]) -> (CurrentRows<Facts>, Changes<Facts>) {
    let (mut rows, mut last): (Vec<EventRow<Facts>>, _) = (Vec::new(), Changes::default());
    let mut copies = 0..;
    for block in blocks {
        let new: Vec<_> = block.iter().zip(&mut copies).map(|(spec, copy)| spec.report(copy)).collect();
        last = merge(&split(rows.clone()), &new);
        for write in last.events_first.iter().chain(&last.events) {
            let place = write.place();
            rows.retain(|row| row.place() != place);
            if let EventWrite::Row(row) = write {
                rows.push(row.clone());
            }
        }
    }
    (split(rows), last)
}

fn split(mut rows: Vec<EventRow<Facts>>) -> CurrentRows<Facts> {
    let joined = rows.iter().position(|row| row.key == EventKey(0)).map(|n| rows.swap_remove(n));
    rows.sort_by_key(|row| row.key);
    CurrentRows { joined, standalone: rows, ..CurrentRows::default() }
}

fn joined(current: &CurrentRows<Facts>) -> Vec<Facts> {
    current.joined.iter().flat_map(|row| &row.reports).map(|report| report.facts).collect()
}

fn standalone(current: &CurrentRows<Facts>) -> Vec<Facts> {
    current.standalone.iter().flat_map(|row| &row.reports).map(|report| report.facts).collect()
}

#[test]
fn earlier_reports_displace_later_ones() {
    let (current, _) = after(&[&[spec(AGENT, 0, 2)], &[spec(AGENT, 1, 1)]]);
    assert_eq!((joined(&current), standalone(&current)), (vec![1], vec![0]));
}

#[test]
fn first_accepted_copy_counts() {
    let (current, last) = after(&[&[spec(AGENT, 0, 2)], &[spec(AGENT, 0, 1)], &[spec(AGENT, 0, 3)]]);
    assert_eq!((joined(&current), standalone(&current)), (vec![1], vec![]));
    assert!(last.is_empty());
}

#[test]
fn equal_reports_do_not_change_the_event() {
    let (current, last) = after(&[&[spec(AGENT, 0, 1)], &[spec(AGENT, 0, 1)]]);
    assert_eq!(joined(&current), [0]);
    assert!(last.is_empty());
}

#[test]
fn observer_33_joins_only_if_earlier() {
    let many: Vec<Spec> = (0..32).map(|n| spec(n, 0, 10 + i64::from(n))).collect();
    let (current, _) = after(&[&many, &[spec(32, 0, 100)]]);
    assert_eq!((joined(&current).len(), standalone(&current)), (MAX_OBSERVERS, vec![32]));
    let (current, _) = after(&[&many, &[spec(32, 0, 1)]]);
    assert_eq!((joined(&current)[0], standalone(&current)), (32, vec![31]));
}

#[test]
fn late_reports_do_not_change_the_event_time() {
    let backdated = Spec { at_s: -2 * DAY_S, ..spec(AGENT, 0, 0) };
    let (current, _) = after(&[&[backdated], &[spec(EDGE, 0, 60)], &[spec(2, 0, 70)]]);
    let row = current.joined.unwrap();
    assert_eq!(row.at_ms(), spec(EDGE, 0, 60).report(0).at_ms);
    assert_eq!(row.representative().unwrap().observer.role, Some(SourceRole::Agent));
    let (current, _) = after(&[&[backdated]]);
    assert_eq!(current.joined.unwrap().at_ms(), backdated.report(0).at_ms, "the event has no timely report");
}

#[test]
fn events_keep_their_partition() {
    let (current, _) = after(&[&[spec(EDGE, 0, 5 * DAY_S)], &[spec(AGENT, 0, 0)], &[spec(AGENT, 1, 40 * DAY_S)]]);
    assert_eq!(current.joined.as_ref().unwrap().home, Home(202_602), "the month of the first write");
    assert_eq!(current.standalone[0].home, Home(202_603), "a report of its own month");
    let homes: Vec<Home> = current.joined.unwrap().reports.iter().map(|report| report.home).collect();
    assert_eq!(homes, [Home(202_601), Home(202_602)], "each row of reports has its own home");
}

#[test]
fn moves_between_partitions_come_first() {
    // The first copy of report 1 arrives last and displaces report 0.
    let (current, last) = after(&[&[spec(AGENT, 0, 1)], &[spec(AGENT, 1, 40 * DAY_S)], &[spec(AGENT, 1, 0)]]);
    assert_eq!((joined(&current), standalone(&current)), (vec![2], vec![0]));
    let homes: Vec<Home> = last.events_first.iter().map(|write| write.place().home).collect();
    assert_eq!(homes, [Home(202_603); 2], "a row and a tombstone");
    assert!(last.events.iter().all(|write| write.place().home == Home(202_601)));
}

#[test]
fn repeats_stay_separate_after_retention() {
    let (mut current, _) = after(&[&[spec(AGENT, 0, 1)], &[spec(AGENT, 1, 40 * DAY_S)]]);
    current.joined = None;
    assert!(merge(&current, &[spec(AGENT, 1, 40 * DAY_S).report(9)]).is_empty());
    let other = merge(&current, &[spec(AGENT, 2, 41 * DAY_S).report(9)]);
    assert_eq!(other.events.len(), 1, "the next report creates the event again");
}

#[test]
fn merging_without_reports_writes_nothing() {
    let (current, _) = after(&[&[spec(AGENT, 0, 1)]]);
    assert!(merge(&current, &[]).is_empty());
    assert_eq!(keys_to_look_up(current.joined.as_ref(), &[]).len(), 1);
}
