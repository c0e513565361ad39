//! U6: a measure has one number for a window and a filter, in every read that counts it.

use super::{MOST_COMPARISONS, Round, compare};
use crate::parameters::paging::Paging;
use crate::read_limiter::ReadSettings;
use crate::reads::series::{BucketLength, Split};
use crate::reads::{CorroborationBy, FunnelBy, FunnelRow, ListPage as _, PagesBy, Reads, Requests, Rows, UrlRow};
use schemas::crawler_responses::ClaimCounts;
use std::collections::{BTreeMap, BTreeSet};

const WHOLE: Paging = Paging { limit: 1_000_000, offset: 0 };

/// The numbers of each measure, by read.
#[derive(Default)]
struct Numbers(BTreeMap<&'static str, Vec<(String, u64)>>);

impl Numbers {
    fn add(&mut self, read: impl Into<String>, measures: &[(&'static str, u64)]) {
        let read = read.into();
        for (measure, number) in measures {
            self.0.entry(measure).or_default().push((read.clone(), *number));
        }
    }
}

/// Sums figures of all rows.
async fn sum<R: Rows, const N: usize>(mut rows: R, figures: impl Fn(&R::Row) -> [u64; N]) -> [u64; N] {
    let mut sums = [0; N];
    while let Some(row) = rows.next().await.unwrap() {
        sums.iter_mut().zip(figures(&row)).for_each(|(sum, figure)| *sum += figure);
    }
    sums
}

const LISTED: [&str; 8] =
    ["fetch", "failed fetch", "revalidation", "grounding", "citation", "presentation", "engagement", "visit"];

async fn lists(reads: &Reads, round: &Round<'_>, numbers: &mut Numbers) {
    let Round { read, filter, .. } = round;
    for by in [PagesBy::Url, PagesBy::Section, PagesBy::UrlAndAgent] {
        let rows = reads.urls(&read.seen, &read.period, (by, None, filter), WHOLE).await.ok().unwrap();
        let sums = sum(rows, |row| {
            let UrlRow { events, fetched, failed, revalidated, grounded, cited, presented, engagements, visits, .. } = *row;
            [events, fetched, failed, revalidated, grounded, cited, presented, engagements, visits]
        });
        let measures = ["event"].into_iter().chain(LISTED).zip(sums.await);
        numbers.add(format!("urls by {by:?}"), &measures.collect::<Vec<_>>());
    }
    for by in [FunnelBy::Agent, FunnelBy::Url, FunnelBy::Day] {
        let rows = reads.funnel(&read.seen, &read.period, (by, None, filter), WHOLE).await.ok().unwrap();
        let sums = sum(rows, |row| {
            let FunnelRow { fetched, failed, revalidated, grounded, cited, presented, engagements, visits, .. } = *row;
            [fetched, failed, revalidated, grounded, cited, presented, engagements, visits]
        });
        numbers.add(format!("funnel by {by:?}"), &LISTED.into_iter().zip(sums.await).collect::<Vec<_>>());
    }
    for by in [CorroborationBy::Agent, CorroborationBy::Day] {
        let rows = reads.corroboration(&read.seen, &read.period, (by, None, filter), WHOLE).await.ok().unwrap();
        let sums = sum(rows, |row| [row.retrievals, row.both + row.claimed_only, row.both]);
        let [fetches, claims, confirmed] = sums.await;
        numbers.add(format!("corroboration by {by:?}"), &[("fetch", fetches), ("claim", claims), ("confirmed claim", confirmed)]);
    }
    let first = crate::parameters::cursor::Cursor::default();
    let after_all = Paging { limit: 1, offset: 1 << 40 };
    let page = reads.owners_events(&read.seen, &read.period, filter, (after_all, &first)).await.ok().unwrap();
    numbers.add("events", &[("event", page.total())]);
}

async fn series(reads: &Reads, round: &Round<'_>, numbers: &mut Numbers) {
    let Round { read, filter, .. } = round;
    let splits = [Split::Nothing, Split::AgentOrBot, Split::Operator, Split::Bot, Split::Purpose, Split::Verified, Split::Status];
    for by in [BucketLength::Hour, BucketLength::Day] {
        for split in splits {
            // These series also count log lines if the filter selects an outcome.
            if filter.outcome().is_none() {
                let mut series = reads.series(&read.seen, &read.period, (by, split), filter).await.ok().unwrap();
                let mut events = 0;
                while let Some(cell) = series.next().await.unwrap() {
                    events += cell.events;
                }
                numbers.add(format!("series by {by:?} and {split:?}"), &[("event", events)]);
            }
        }
        let mut series = reads.series(&read.seen, &read.period, (by, Split::Outcome), filter).await.ok().unwrap();
        let mut outcomes: BTreeMap<String, u64> = ["fetch", "failed", "revalidation"].map(|name| (name.to_owned(), 0)).into();
        while let Some(cell) = series.next().await.unwrap() {
            outcomes.entry(cell.value.2).and_modify(|count| *count += cell.events);
        }
        numbers.add(
            format!("series by {by:?} and outcome"),
            &[("fetch", outcomes["fetch"]), ("failed fetch", outcomes["failed"]), ("revalidation", outcomes["revalidation"])],
        );
    }
}

async fn crawlers(reads: &Reads, round: &Round<'_>, numbers: &mut Numbers) {
    let Round { read, filter, .. } = round;
    let mut all = ClaimCounts::default();
    let found = reads.crawlers(&read.seen, &read.period, filter, |_, _, counts| all.add(counts)).await;
    let Requests { bots, unknown, refused } = found.ok().unwrap();
    let of = |is: fn(u16) -> bool| refused.iter().filter(|((.., status), _)| is(*status)).map(|(_, count)| count).sum::<u64>();
    numbers.add(
        "crawlers",
        &[
            ("fetch", bots.iter().map(|bot| bot.retrievals).sum::<u64>() + unknown),
            ("failed fetch", of(|status| status != 304)),
            ("revalidation", of(|status| status == 304)),
            ("claim", all.claimed),
            ("confirmed claim", all.confirmed),
            ("citation", all.cited),
            ("presentation", all.presented),
            ("visit", all.clicks),
        ],
    );
}

async fn summary(reads: &Reads, round: &Round<'_>, numbers: &mut Numbers) {
    let Round { read, filter, .. } = round;
    let summary = reads.summary(&read.seen, &read.period, filter).await.ok().unwrap();
    let of = |name: &str| summary.types.get(name).copied().unwrap_or_default();
    let visits = numbers.0["visit"][0].1;
    numbers.add(
        "summary",
        &[
            ("event", summary.events),
            ("grounding", of("content_grounded")),
            ("citation", of("content_cited")),
            ("presentation", of("content_presented")),
            ("engagement", of("content_engaged").saturating_sub(visits)),
        ],
    );
}

#[tokio::test]
async fn u6_measures_have_one_number_equal_the_model() {
    let mut positive = BTreeSet::new();
    // Strict filters can leave only a few measures in all rounds.
    for _ in 0..MOST_COMPARISONS {
        compare_numbers(&mut positive).await;
        if positive.len() > 5 {
            return;
        }
    }
    panic!("only {positive:?} had numbers");
}

/// Compares all numbers of random histories, three filters per round, and adds the measures that had any.
async fn compare_numbers(positive: &mut BTreeSet<&'static str>) {
    compare(6, async |round: &Round<'_>, _| {
        // Without the low limits of the other tests.
        let reads = Reads::new(&round.world.reads.client, &ReadSettings::default());
        let mut numbers = Numbers::default();
        lists(&reads, round, &mut numbers).await;
        series(&reads, round, &mut numbers).await;
        crawlers(&reads, round, &mut numbers).await;
        summary(&reads, round, &mut numbers).await;
        numbers.add("model", &[("event", round.events.len() as u64)]);
        for (measure, numbers) in &numbers.0 {
            assert!(numbers.iter().all(|(_, number)| *number == numbers[0].1), "{measure}: {numbers:?} {}", round.trace);
            positive.extend((numbers[0].1 > 0).then_some(*measure));
        }
    })
    .await;
}
