//! Reads of crawlers and hours.

use super::fixture::OwnerRead;
use super::model::Event;
use super::reports::{ORGANIZATIONS, TestReport};
use super::{HOUR_MS, Round, compare};
use crate::parameters::event_filter::Outcome;
use crate::reads::{BotRow, Requests};
use rand::RngExt;
use rand::rngs::StdRng;
use schemas::crawler_responses::ClaimCounts;
use schemas::log::FailedFetch;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Operator, bot, purpose, verified.
type Bot = (String, String, String, i8);

/// Fetches, bytes, corroborated fetches, fetches by status.
type Counts = (u64, u64, u64, BTreeMap<u16, u64>);

/// Claimed, cited, presented, clicks.
type Claims = [u64; 4];

fn bots(events: &[Event<'_>], read: &OwnerRead) -> BTreeMap<Bot, Counts> {
    let mut bots: BTreeMap<Bot, Counts> = BTreeMap::new();
    for event in events.iter().filter(|event| event.outcome() == Some(Outcome::Fetch)) {
        let fetch = event.fetch();
        if fetch.bot.is_empty() {
            continue;
        }
        let verified = i8::try_from(fetch.verified).unwrap();
        let counts = bots.entry((fetch.operator, fetch.bot, fetch.purpose, verified)).or_default();
        counts.0 += 1;
        counts.1 += fetch.bytes;
        counts.2 += u64::from(event.corroboration(read) == (true, true));
        *counts.3.entry(fetch.status).or_default() += 1;
    }
    bots
}

fn claims(events: &[Event<'_>], read: &OwnerRead) -> BTreeMap<String, Claims> {
    let mut claims: BTreeMap<String, Claims> = BTreeMap::new();
    for event in events {
        let report = event.representing();
        let claimant = event.claimant(read).map(|(_, agent)| agent);
        // A click uses another organization's token and leads to the host of the token's link.
        let is_click = report.facts.platform != report.observer.org && report.facts.link_site.is_empty();
        let claim = match event.event_type() {
            "content_engaged" if is_click => Some((report.facts.agent.clone(), 3)),
            // An agent claims the fetch, possibly together with others.
            "content_retrieved" if event.outcome() == Some(Outcome::Fetch) && event.corroboration(read).0 => {
                Some((claimant.unwrap_or_default(), 0))
            }
            "content_cited" => Some((claimant.unwrap_or_default(), 1)),
            "content_presented" => Some((claimant.unwrap_or_default(), 2)),
            _ => None,
        };
        if let Some((agent, claim)) = claim {
            claims.entry(agent).or_default()[claim] += 1;
        }
    }
    claims
}

/// Returns the requests without content by operator, bot and status.
fn refused(events: &[Event<'_>], lines: &[&FailedFetch]) -> BTreeMap<(String, String, u16), u64> {
    let mut refused = BTreeMap::new();
    let fetches = events.iter().filter(|event| event.is_retrieval()).map(Event::fetch);
    let of_events = fetches.filter(|fetch| !fetch.bot.is_empty() && !matches!(fetch.status, 0 | 200..=299));
    let of_events = of_events.map(|fetch| (fetch.operator, fetch.bot, fetch.status));
    let of_lines = lines.iter().map(|line| (line.operator.clone(), line.bot.clone(), line.status));
    of_events.chain(of_lines).for_each(|of| *refused.entry(of).or_default() += 1);
    refused
}

fn found(rows: &[BotRow]) -> BTreeMap<Bot, Counts> {
    let counts = |row: &BotRow| (row.retrievals, row.bytes_sent, row.corroborated, row.statuses.iter().copied().collect());
    let bot = |row: &BotRow| (row.operator_name.clone(), row.bot_name.clone(), row.purpose_name.clone(), row.verified_code);
    rows.iter().map(|row| (bot(row), counts(row))).collect()
}

#[tokio::test]
async fn crawlers_equal_the_model() {
    compare(12, async |round: &Round<'_>, _| {
        let Round { world, read, filter, events, lines, trace, .. } = round;
        let mut agents = BTreeMap::new();
        let add = |agent: &str, ClaimCounts { claimed, cited, presented, clicks }: ClaimCounts| {
            assert!(agents.insert(agent.to_owned(), [claimed, cited, presented, clicks]).is_none());
        };
        let rows = world.reads.crawlers(&read.seen, &read.period, filter, add).await;
        let Requests { bots: rows, refused } = rows.unwrap_or_else(|error| panic!("{error:?} {trace}"));
        assert!(rows.is_sorted_by(|a, b| a.retrievals >= b.retrievals));
        assert_eq!(refused, self::refused(events, lines), "{trace}");
        let bots = bots(events, read);
        assert_eq!((rows.len(), found(&rows)), (bots.len(), bots), "{trace}");
        assert_eq!(agents, claims(events, read), "{trace}");
    })
    .await;
}

#[tokio::test]
async fn coverage_hours_equal_the_model() {
    compare(12, async |round: &Round<'_>, random: &mut StdRng| {
        let Round { world, read, events, trace, filters, .. } = round;
        if !filters.is_empty() {
            return;
        }
        let observers: Vec<Uuid> = ORGANIZATIONS.map(Uuid::from_u128).into_iter().filter(|_| random.random()).collect();
        let covers = |report: &&TestReport| report.facts.role > 1 && observers.contains(&report.observer.org.0);
        let is_seen = |event: &&Event<'_>| event.reports.iter().any(covers);
        let hours: BTreeSet<i64> = events.iter().filter(is_seen).map(|event| event.at_ms().div_euclid(HOUR_MS)).collect();
        let found = world.reads.hours_seen(&read.seen, &read.period, &observers).await;
        let found = found.unwrap_or_else(|error| panic!("{error:?} {trace}"));
        assert_eq!(found, hours.into_iter().collect::<Vec<_>>(), "{observers:?} {trace}");
    })
    .await;
}
