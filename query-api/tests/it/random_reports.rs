//! Random reports with few hosts, organizations and times, so that keys, sessions, observers and times collide, and random
//! reads of them.

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, accept_apart, fetch_on};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use schemas::bots::Purpose;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::identity::OrgType;
use schemas::ids::{DrainId, OrgId};
use schemas::instant;
use schemas::site::Site;
use service_kit::testing::SeededOrg;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

/// Every owner's read, as a whole and in part.
pub(crate) const OWNERS: [&str; 30] = [
    "/content-owners/summary",
    "/content-owners/summary?domain=example.com",
    "/content-owners/summary?outcome=fetch",
    "/content-owners/events?limit=1000",
    "/content-owners/events?limit=3&offset=2",
    "/content-owners/events/a",
    "/content-owners/events/b",
    "/content-owners/documents",
    "/content-owners/documents?limit=3&source_role=edge",
    "/content-owners/urls?limit=1000",
    "/content-owners/urls?limit=2&offset=1&by=section",
    "/content-owners/corroboration?limit=1000",
    "/content-owners/corroboration?limit=1000&by=day",
    "/content-owners/reconciliation?limit=1000&by=event",
    "/content-owners/reconciliation?limit=1000&by=url",
    "/content-owners/funnel?limit=1000&by=agent",
    "/content-owners/funnel?limit=1000&by=url",
    "/content-owners/funnel?limit=1000&by=day",
    "/content-owners/series?by=hour",
    "/content-owners/series?split=type",
    "/content-owners/series?split=role",
    "/content-owners/series?split=agent",
    "/content-owners/series?split=platform",
    "/content-owners/series?split=operator",
    "/content-owners/series?split=status",
    "/content-owners/crawlers?limit=1000",
    "/content-owners/coverage",
    "/content-owners/urls?limit=1000&by=page,agent",
    "/content-owners/series?split=evidence&operator=OpenAI",
    "/content-owners/summary?evidence=observed&status=2xx",
];

/// Verified hosts: owner, host, first visible millisecond.
const VERIFIED: [(usize, &str, i64); 7] = [
    (0, "example.com", i64::MIN),
    (1, "blog.example.com", i64::MIN),
    (0, "deep.blog.example.com", i64::MIN),
    (0, "late.example.com", NEW_YEAR_MS + 4),
    (1, "x.late.example.com", NEW_YEAR_MS + 2),
    (1, "other.test", i64::MIN),
    (0, "sub.other.test", NEW_YEAR_MS + 5),
];

const HOSTS: [&str; 16] = [
    "example.com",
    "news.example.com",
    "blog.example.com",
    "a.blog.example.com",
    "deep.blog.example.com",
    "b.deep.blog.example.com",
    "late.example.com",
    "c.late.example.com",
    "x.late.example.com",
    "other.test",
    "sub.other.test",
    "d.sub.other.test",
    "notexample.com",
    "example-x.com",
    "example.com.evil.test",
    "nobody.test",
];

const TYPES: [&str; 8] = [
    "content_retrieved",
    "content_retrieved",
    "content_retrieved",
    "content_cited",
    "content_grounded",
    "content_presented",
    "content_engaged",
    "com.example.shared",
];

/// Bots with their operators and purposes. The first entry means no bot.
pub(crate) const BOTS: [(&str, &str, Option<Purpose>); 4] = [
    ("", "", None),
    ("GPTBot", "OpenAI", Some(Purpose::Training)),
    ("ChatGPT-User", "OpenAI", Some(Purpose::User)),
    ("ClaudeBot", "Anthropic", Some(Purpose::Training)),
];

/// Delays between an event and its acceptance in milliseconds: none, in time, too late, in another month, and before the event.
const DELAYS_MS: [i64; 8] = [0, 0, 1, 5_000, 2 * HOUR_MS, 25 * HOUR_MS, 40 * 24 * HOUR_MS, -2 * HOUR_MS];

/// Paths with and without a section, with a query, similar to others, and with pattern characters.
const PAGES: [&str; 14] = [
    "/",
    "/blog",
    "/blog/",
    "/blog/a",
    "/blog/a?q=/blog/b",
    "/blog/b_",
    "/blog/b%25",
    "/blog/b/c",
    "/Blog/a",
    "/blogs/a",
    "/bl_g/a",
    "/b%C3%A4/a",
    "//a",
    "/a\\*",
];

/// Returns the number of fetches with several observers, of ids that an observer reused, of copies, and of acceptance months.
pub(crate) fn variety(rows: &[Observation]) -> [usize; 4] {
    let identities: BTreeSet<EventKey> = rows.iter().map(|row| row.keys().identity).collect();
    let mut fetches: BTreeMap<EventKey, BTreeMap<_, BTreeSet<EventKey>>> = BTreeMap::new();
    for row in rows {
        let (keys, observer) = (row.keys(), (row.org_id, row.source_role, row.drain));
        if let Some(shared) = keys.shared {
            fetches.entry(shared).or_default().entry(observer).or_default().insert(keys.identity);
        }
    }
    let again = fetches.values().flat_map(BTreeMap::values).filter(|reports| reports.len() > 1).count();
    let accepted = rows.iter().filter_map(|row| chrono::DateTime::from_timestamp_micros(row.accepted_us()));
    let months: BTreeSet<String> = accepted.map(|at| at.format("%Y%m").to_string()).collect();
    [fetches.values().filter(|by| by.len() > 1).count(), again, rows.len() - identities.len(), months.len()]
}

/// Narrows the read to part of the random reports' period.
pub(crate) fn in_window(path: &str) -> String {
    let joined = if path.contains('?') { "&" } else { "?" };
    format!("{path}{joined}since=2026-01-01T00:00:00.003Z&until=2026-01-01T00:00:00.007Z")
}

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) owner: usize,
    pub(crate) query: Vec<(&'static str, String)>,
}

impl Read {
    pub(crate) fn random(random: &mut StdRng) -> Self {
        let (one, other) = (random.random_range(-2..12), random.random_range(-2..12));
        let at = |ms: i64| instant::text(chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + ms).unwrap());
        let domain = (*HOSTS.choose(random).unwrap()).to_owned();
        let all = [("since", at(one.min(other))), ("until", at(one.max(other))), ("domain", domain)];
        Self { owner: random.random_range(0..2), query: all.into_iter().filter(|_| random.random()).collect() }
    }
}

pub(crate) fn random_rows(random: &mut StdRng, orgs: &[u128]) -> Vec<Observation> {
    let mut rows: Vec<Observation> = (0..random.random_range(0..100)).map(|_| random_row(random, orgs)).collect();
    accept_apart(&mut rows);
    let again: Vec<_> = rows.sample(random, rows.len() / 4).cloned().collect();
    rows.extend(again);
    rows
}

fn random_row(random: &mut StdRng, orgs: &[u128]) -> Observation {
    let event_type = if random.random_bool(0.05) { "turn_started" } else { TYPES.choose(random).unwrap() };
    // On few hosts, fetches share one key and many have the same reporter. So some have several observers, and some are reported twice.
    let is_fetch = event_type == "content_retrieved";
    let org = if is_fetch && random.random_bool(0.6) { orgs[0] } else { orgs.choose(random).copied().unwrap() };
    let host = if is_fetch { HOSTS[random.random_range(0..6) * 2] } else { *HOSTS.choose(random).unwrap() };
    let row = fetch_on(host, if is_fetch { 0 } else { random.random_range(0..12) }).again(random.random_range(0..2));
    let row = row.by(org).named(event_type).after(random.random_range(0..10));
    let row = row.session(random.random_range(0..4)).agent(["", "alpha", "beta"].choose(random).unwrap());
    let row = row.url(&format!("{}://{host}{}", ["https", "http"].choose(random).unwrap(), PAGES.choose(random).unwrap()));
    // A report's id is part of its identity, so copies have the same id.
    let number = row.event_key + 3 * u128::from(row.own) + org % 7 + host.len() as u128;
    let row = row.id(["", "a", "b", "B", "\u{e4}"][usize::try_from(number % 5).unwrap()]);
    let row = row.data(&format!("{{\"org.example.n\":{}.0,\"n\":1}}", random.random_range(0..3)));
    let row = match random.random_range(0..5) {
        0 => row,
        role => row.role(SourceRole::ALL[role - 1]),
    };
    let row = if is_fetch { fetched(row, random) } else { bound(row, orgs, random) };
    let accepted_us = (row.at + DELAYS_MS.choose(random).unwrap()) * 1_000 + random.random_range(0..2);
    Observation { accepted_us: Some(accepted_us), ..row }
}

/// Adds the facts of a server's report, and sometimes a drain.
fn fetched(row: Observation, random: &mut StdRng) -> Observation {
    let drain = (row.source_role == 2 && random.random()).then(|| DrainId(Uuid::from_u128(7)));
    let (bot, operator, purpose) = BOTS.choose(random).copied().unwrap();
    let response_status = [200, 206, 0, 304].choose(random).copied().unwrap();
    let crawler = Crawler {
        bot: bot.to_owned(),
        operator: operator.to_owned(),
        purpose,
        verified: if bot.is_empty() { None } else { [None, Some(false), Some(true)].choose(random).copied().unwrap() },
        response_status,
        response_bytes: random.random_range(0..1_000),
        ..Crawler::default()
    };
    let is_described = row.source_role > 1 && (!bot.is_empty() || response_status != 0 || random.random());
    Observation { drain, crawler: Some(crawler).filter(|_| is_described), ..row }
}

/// Adds another organization's click token to some reports. Fetches can't have one.
fn bound(row: Observation, orgs: &[u128], random: &mut StdRng) -> Observation {
    let issuer = OrgId(Uuid::from_u128(orgs.choose(random).copied().unwrap()));
    if issuer.0 == row.org_id || random.random_bool(0.7) {
        return row;
    }
    let row = row.bound(issuer, random.random_range(1..4));
    let link_site = match row.link {
        3 if random.random() => Site::from_domain(HOSTS.choose(random).unwrap()).unwrap().as_str().to_owned(),
        _ => String::new(),
    };
    Observation { link_site, ..row }
}

/// Creates the owners of the hosts.
pub(crate) async fn owners(app: &TestApp) -> [SeededOrg; 2] {
    let owners = [app.seed().org("A", OrgType::ContentOwner).await, app.seed().org("B", OrgType::ContentOwner).await];
    for (owner, host, from) in VERIFIED {
        app.seed().verify(owners[owner].id, host).await;
        if from > i64::MIN {
            sqlx::query("UPDATE domains SET visible_from = $1 WHERE domain = $2")
                .bind(chrono::DateTime::from_timestamp_millis(from).unwrap())
                .bind(host)
                .execute(&app.stores.pool)
                .await
                .unwrap();
        }
    }
    owners
}

/// Replaces all stored reports by these.
pub(crate) async fn refill(app: &TestApp, rows: &[Observation], random: &mut StdRng) {
    app.empty().await;
    add(app, rows, random).await;
}

/// Stores reports in blocks of random size, with merges and new writers in between.
pub(crate) async fn add(app: &TestApp, rows: &[Observation], random: &mut StdRng) {
    let mut rest = rows;
    while !rest.is_empty() {
        let (block, later) = rest.split_at(random.random_range(1..=rest.len()));
        app.insert(block).await;
        match random.random_range(0..8) {
            0 => app.merge().await,
            // The new writer has no rows in memory and must fetch them.
            1 => app.restart_writer().await,
            _ => {}
        }
        rest = later;
    }
}
