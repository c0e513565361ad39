//! Series with every split.

use super::fixture::{MOST, OwnerRead};
use super::model::{Event, ShownReport, sessions};
use super::{MOST_COMPARISONS, Round, compare, failed_fetches};
use crate::reads::list_limits::model::{is_standard, listed_for_owner};
use crate::reads::series::Split;
use crate::reads::series_cells;
use crate::reads::{BucketLength, Cell, Extent, Value};
use rand::RngExt;
use schemas::log::FailedFetch;
use schemas::signature::SignatureResult;
use std::collections::{BTreeMap, BTreeSet};

const SPLITS: [Split; 14] = [
    Split::Nothing,
    Split::Type,
    Split::Role,
    Split::Agent,
    Split::Platform,
    Split::AgentOrBot,
    Split::Operator,
    Split::Bot,
    Split::Purpose,
    Split::Verified,
    Split::Status,
    Split::Outcome,
    Split::Evidence,
    Split::Signature,
];

/// Returns an event's values, each with its reports.
fn values<'a>(event: &Event<'a>, split: Split, read: &OwnerRead) -> BTreeMap<Value, Vec<ShownReport<'a>>> {
    let fetch = event.fetch();
    let one = |name: &str| Some((false, String::new(), name.to_owned()));
    let of_all = match split {
        Split::Nothing => one(""),
        Split::Type => one(event.event_type()),
        Split::AgentOrBot => one(&event.agent_or_bot(read)),
        Split::Operator => one(&fetch.operator),
        Split::Bot => one(&fetch.bot),
        Split::Purpose => one(&fetch.purpose),
        Split::Verified => one(["", "no", "yes"][usize::from(fetch.verified)]),
        Split::Status => {
            one(&Some(fetch.status).filter(|status| *status != 0).map_or_else(String::new, |status| status.to_string()))
        }
        Split::Outcome => one(event.outcome().map_or("", |outcome| outcome.as_str())),
        Split::Evidence => one(event.evidence(read)),
        Split::Signature => one(event.signature().as_str()),
        Split::Role | Split::Agent | Split::Platform => None,
    };
    let mut values: BTreeMap<Value, Vec<ShownReport<'a>>> = BTreeMap::new();
    for shown in event.all_shown(read) {
        let of_report = match split {
            Split::Role => (shown.role != 0).then(|| (false, String::new(), shown.role.to_string())),
            Split::Agent => shown.has_agent().then(|| (false, shown.named().0, shown.named().1)),
            Split::Platform => shown.has_agent().then(|| (false, shown.named().0, String::new())),
            _ => None,
        };
        if let Some(value) = of_all.clone().or(of_report) {
            values.entry(value).or_default().push(shown);
        }
    }
    if split == Split::Evidence && event.signature() == SignatureResult::Valid {
        values.insert((false, String::new(), "signed".to_owned()), event.all_shown(read));
    }
    values
}

/// Returns a log line's values; none if the series doesn't contain it.
fn line_names(line: &FailedFetch, split: Split, asked: Option<&str>) -> Vec<String> {
    let is_signed = split == Split::Evidence && failed_fetches::signature(line) == SignatureResult::Valid;
    let name = line_name(line, split, asked);
    let signed = name.as_ref().filter(|_| is_signed).map(|_| "signed".to_owned());
    name.into_iter().chain(signed).collect()
}

fn line_name(line: &FailedFetch, split: Split, asked: Option<&str>) -> Option<String> {
    let of_line = failed_fetches::outcome(line);
    match split {
        Split::Outcome => Some(of_line.as_str().to_owned()),
        _ if asked != Some(of_line.as_str()) => None,
        Split::Nothing => Some(String::new()),
        Split::Operator => Some(line.operator.clone()),
        Split::Bot | Split::AgentOrBot => Some(line.bot.clone()),
        Split::Purpose => Some(line.purpose.as_str().to_owned()),
        Split::Verified => Some(line.verified.map_or("", |verified| if verified { "yes" } else { "no" }).to_owned()),
        Split::Status => Some(line.status.to_string()),
        Split::Evidence => Some("observed".to_owned()),
        Split::Signature => Some(failed_fetches::signature(line).as_str().to_owned()),
        Split::Type | Split::Role | Split::Agent | Split::Platform => None,
    }
}

/// The reports by bucket and value, grouped by event.
type Cells<'a> = BTreeMap<(i64, Value), Vec<Vec<ShownReport<'a>>>>;

/// Merges the unlisted values.
fn without_others<'a>(reports: Cells<'a>, own: &BTreeMap<Value, u64>, split: Split) -> Cells<'a> {
    let most = match split {
        Split::Role => return reports,
        Split::Type | Split::Agent | Split::Platform | Split::AgentOrBot => MOST.in_series,
        _ => MOST.others_in_series,
    };
    let mut events: BTreeMap<Value, u64> = BTreeMap::new();
    reports.iter().for_each(|((_, value), of_cell)| *events.entry(value.clone()).or_default() += of_cell.len() as u64);
    let listed = listed_for_owner((&events, own), most, |(_, _, name)| split == Split::Type && is_standard(name));
    let mut shown: Cells<'_> = BTreeMap::new();
    for ((bucket, value), of_cell) in reports {
        let value = if listed.contains(&value) { value } else { (true, String::new(), String::new()) };
        shown.entry((bucket, value)).or_default().extend(of_cell);
    }
    shown
}

/// Returns a series' cells and its extent.
fn expected(round: &Round<'_>, (by, split): (BucketLength, Split)) -> (Extent, Vec<Cell>) {
    let Round { events, lines, filters, read, .. } = round;
    let mut reports: Cells<'_> = BTreeMap::new();
    let (mut buckets, mut own) = (BTreeSet::new(), BTreeMap::new());
    for event in events {
        let bucket = event.at_ms().div_euclid(by.ms());
        buckets.insert(bucket);
        for (value, shown) in values(event, split, read) {
            if split == Split::Type && event.is_owners(read) {
                *own.entry(value.clone()).or_default() += 1;
            }
            reports.entry((bucket, value)).or_default().push(shown);
        }
    }
    for line in lines {
        for name in line_names(line, split, filters.get("outcome")) {
            let bucket = line.at_ms.div_euclid(by.ms());
            buckets.insert(bucket);
            // Log lines have no session.
            reports.entry((bucket, (false, String::new(), name))).or_default().push(Vec::new());
        }
    }
    let reports = without_others(reports, &own, split);
    let cell = |((bucket, value), events): ((i64, Value), Vec<Vec<ShownReport<'_>>>)| {
        let sessions = sessions(events.iter().flatten());
        Cell { bucket, value, events: events.len() as u64, sessions, ..Cell::default() }
    };
    let cells: Vec<Cell> = reports.into_iter().map(cell).collect();
    let values: BTreeSet<&Value> = cells.iter().map(|cell| &cell.value).collect();
    let extent = Extent {
        buckets: buckets.first().copied().zip(buckets.last().copied()),
        values: values.len() as u64,
        longest: values.iter().map(|(_, owner, name)| owner.len() + name.len()).max().unwrap_or_default() as u64,
        cells: cells.len() as u64,
    };
    (extent, cells)
}

async fn rest(cells: &mut series_cells::Cells) -> Vec<Cell> {
    let mut rest = Vec::new();
    while let Some(cell) = cells.next().await.unwrap() {
        rest.push(cell);
    }
    rest
}

#[tokio::test]
async fn series_equal_the_model() {
    let mut bounded = BTreeSet::new();
    // Few random histories have unlisted values in many splits.
    for _ in 0..MOST_COMPARISONS {
        compare_series(&mut bounded).await;
        if bounded.len() > 4 {
            return;
        }
    }
    panic!("too few splits had more values than are listed: {bounded:?}");
}

/// Compares the series of random histories with the model, and adds the splits that had unlisted values.
async fn compare_series(bounded: &mut BTreeSet<String>) {
    compare(8, async |round: &Round<'_>, random| {
        let Round { world, read, filter, trace, .. } = round;
        let by = if random.random() { BucketLength::Hour } else { BucketLength::Day };
        for split in SPLITS {
            let series = world.reads.series(&read.seen, &read.period, (by, split), filter).await;
            let mut series = series.unwrap_or_else(|error| panic!("{split:?} {error:?} {trace}"));
            let (extent, cells) = expected(round, (by, split));
            bounded.extend(cells.iter().filter(|cell| cell.value.0).map(|_| format!("{split:?}")));
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
