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

/// Claimed, confirmed, cited, presented, clicks.
type Claims = [u64; 5];

fn bots(events: &[Event<'_>], read: &OwnerRead) -> BTreeMap<Bot, Counts> {
    let mut bots: BTreeMap<Bot, Counts> = BTreeMap::new();
    for event in events.iter().filter(|event| event.outcome() == Some(Outcome::Fetch)) {
        let fetch = event.fetch();
        let verified = i8::try_from(fetch.verified).unwrap();
        let counts = bots.entry((fetch.operator, fetch.bot, fetch.purpose, verified)).or_default();
        counts.0 += 1;
        counts.1 += fetch.bytes;
        counts.2 += u64::from(event.corroboration(read) == (true, true));
        *counts.3.entry(fetch.status).or_default() += 1;
    }
    bots
}

/// Returns the time of a bot's last fetch with this IP check result.
fn fetched_at(events: &[Event<'_>], (bot, verified, operator): (&str, i8, &str)) -> Option<i64> {
    let is_of = |event: &&Event<'_>| {
        let fetch = event.fetch();
        let is_bots = fetch.bot == bot && fetch.operator == operator && i8::try_from(fetch.verified) == Ok(verified);
        is_bots && event.outcome() == Some(Outcome::Fetch)
    };
    events.iter().filter(is_of).map(Event::at_ms).max()
}

fn claims(events: &[Event<'_>], read: &OwnerRead) -> BTreeMap<(Uuid, String), Claims> {
    let mut claims: BTreeMap<(Uuid, String), Claims> = BTreeMap::new();
    for event in events {
        let report = event.representing();
        let claimant = event.claimant(read).map(|(platform, agent)| (platform.parse().unwrap(), agent)).unwrap_or_default();
        let (is_claimed, is_seen) = event.corroboration(read);
        let claim = match event.event_type() {
            "content_engaged" if event.is_visit() => Some(((report.facts.platform.0, report.facts.agent.clone()), 4)),
            // An agent claims the fetch, possibly together with others.
            "content_retrieved" if event.outcome() == Some(Outcome::Fetch) && is_claimed => Some((claimant, 0)),
            "content_cited" => Some((claimant, 2)),
            "content_presented" => Some((claimant, 3)),
            _ => None,
        };
        if let Some((agent, claim)) = claim {
            let counts = claims.entry(agent).or_default();
            counts[claim] += 1;
            counts[1] += u64::from(claim == 0 && is_seen);
        }
    }
    claims
}

/// Returns the requests without content by operator, bot and status.
fn refused(events: &[Event<'_>], lines: &[&FailedFetch]) -> BTreeMap<(String, String, u16), u64> {
    let mut refused = BTreeMap::new();
    let fetches = events.iter().filter(|event| event.is_retrieval()).map(Event::fetch);
    let of_events = fetches.filter(|fetch| !matches!(fetch.status, 0 | 200..=299));
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
        let add = |platform: Uuid, agent: String, of: ClaimCounts| {
            let counts = [of.claimed, of.confirmed, of.cited, of.presented, of.clicks];
            assert!(agents.insert((platform, agent), counts).is_none());
        };
        let rows = world.reads.crawlers(&read.seen, &read.period, filter, add).await;
        let Requests { bots: rows, unknown, refused } = rows.unwrap_or_else(|error| panic!("{error:?} {trace}"));
        assert!(rows.is_sorted_by(|a, b| a.retrievals >= b.retrievals));
        assert_eq!(refused, self::refused(events, lines), "{trace}");
        let (bots, nameless): (BTreeMap<_, _>, BTreeMap<_, _>) =
            bots(events, read).into_iter().partition(|((_, bot, ..), _)| !bot.is_empty());
        assert_eq!(unknown, nameless.values().map(|counts| counts.0).sum::<u64>(), "{trace}");
        let last = |row: &BotRow| fetched_at(events, (&row.bot_name, row.verified_code, &row.operator_name));
        assert!(rows.iter().all(|row| Some(row.last_ms) == last(row)), "{trace}");
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
