//! Series of every split.

use super::model::{Event, Shown, sessions};
use super::world::Read;
use super::{Round, compare};
use crate::reads::cells::Cells;
use crate::reads::series::Split;
use crate::reads::{By, Cell, Extent, Value};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};

const SPLITS: [Split; 11] = [
    Split::Nothing,
    Split::Type,
    Split::Role,
    Split::Agent,
    Split::Platform,
    Split::Operator,
    Split::Bot,
    Split::Purpose,
    Split::Verified,
    Split::Status,
    Split::Outcome,
];

/// The values of an event, each with the reports under it.
fn values<'a>(event: &Event<'a>, split: Split, read: &Read) -> BTreeMap<Value, Vec<Shown<'a>>> {
    let fetch = event.fetch();
    let one = |name: &str| Some((String::new(), name.to_owned()));
    let of_all = match split {
        Split::Nothing => one(""),
        Split::Type => one(event.event_type()),
        Split::Operator => one(&fetch.operator),
        Split::Bot => one(&fetch.bot),
        Split::Purpose => one(&fetch.purpose),
        Split::Verified => one(["", "no", "yes"][usize::from(fetch.verified)]),
        Split::Status => {
            one(&Some(fetch.status).filter(|status| *status != 0).map_or_else(String::new, |status| status.to_string()))
        }
        Split::Outcome => one(event.outcome().map_or("", |outcome| outcome.as_str())),
        Split::Role | Split::Agent | Split::Platform => None,
    };
    let mut values: BTreeMap<Value, Vec<Shown<'a>>> = BTreeMap::new();
    for shown in event.all_shown(read) {
        let of_report = match split {
            Split::Role => (shown.role != 0).then(|| (String::new(), shown.role.to_string())),
            Split::Agent => shown.has_agent().then(|| shown.named()),
            Split::Platform => shown.has_agent().then(|| (shown.named().0, String::new())),
            _ => None,
        };
        if let Some(value) = of_all.clone().or(of_report) {
            values.entry(value).or_default().push(shown);
        }
    }
    values
}

/// The cells of a series, and its extent.
fn expected(events: &[Event<'_>], (by, split): (By, Split), read: &Read) -> (Extent, Vec<Cell>) {
    let mut reports: BTreeMap<(i64, Value), Vec<Vec<Shown<'_>>>> = BTreeMap::new();
    let mut buckets = BTreeSet::new();
    for event in events {
        let bucket = event.at_ms().div_euclid(by.ms());
        buckets.insert(bucket);
        for (value, shown) in values(event, split, read) {
            reports.entry((bucket, value)).or_default().push(shown);
        }
    }
    let cell = |((bucket, value), events): ((i64, Value), Vec<Vec<Shown<'_>>>)| {
        let sessions = sessions(events.iter().flatten());
        Cell { bucket, value, events: events.len() as u64, sessions, ..Cell::default() }
    };
    let cells: Vec<Cell> = reports.into_iter().map(cell).collect();
    let values: BTreeSet<&Value> = cells.iter().map(|cell| &cell.value).collect();
    let extent = Extent {
        buckets: buckets.first().copied().zip(buckets.last().copied()),
        values: values.len() as u64,
        bytes: values.iter().map(|(owner, name)| owner.len() + name.len()).sum::<usize>() as u64,
        cells: cells.len() as u64,
    };
    (extent, cells)
}

async fn rest(cells: &mut Cells) -> Vec<Cell> {
    let mut rest = Vec::new();
    while let Some(cell) = cells.next().await.unwrap() {
        rest.push(cell);
    }
    rest
}

#[tokio::test]
async fn series_equal_the_model() {
    compare(8, async |round: &Round<'_>, random| {
        let Round { world, read, outcome, events, trace } = round;
        let by = if random.random() { By::Hour } else { By::Day };
        for split in SPLITS {
            let series = world.reads.series(&read.seen, &read.period, (by, split), *outcome).await;
            let mut series = series.unwrap_or_else(|error| panic!("{split:?} {error:?} {trace}"));
            let (extent, cells) = expected(events, (by, split), read);
            assert_eq!(series.extent, extent, "{by:?} {split:?} {trace}");
            if random.random() {
                let values: BTreeSet<Value> = cells.iter().map(|cell| cell.value.clone()).collect();
                assert_eq!(series.values().await.unwrap(), values.into_iter().collect::<Vec<_>>(), "{by:?} {split:?} {trace}");
            }
            assert_eq!(rest(&mut series).await, cells, "{by:?} {split:?} {trace}");
        }
    })
    .await;
}
