//! Random rows against a second, naive reading of docs/api/counting.md#figures, in memory.

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, seen};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::reads::{AgentCount, SourceCount, Summary, TypeCount};
use schemas::site::Site;
use service_kit::retrieval_index::Compactor;
use service_kit::testing::{SeededOrg, random_seed, size};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

const READS_PER_ROUND: usize = 4;

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
    "content_cited",
    "content_grounded",
    "content_presented",
    "content_engaged",
    "com.example.shared",
    "turn_started",
];

/// The owner of the longest verified suffix, and from when on it may see the host.
fn owner_of(host: &str) -> Option<(usize, i64)> {
    let covering = VERIFIED.iter().filter(|(_, verified, _)| is_within(host, verified));
    covering.max_by_key(|(_, verified, _)| verified.len()).map(|(owner, _, from)| (*owner, *from))
}

/// Paths with queries: of sections and of none, written alike, and with what patterns are made of.
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

pub(crate) fn host_of(row: &Observation) -> String {
    row.site.rsplit('.').collect::<Vec<_>>().join(".")
}

/// The first millisecond in which the host of an observation is its owner's.
pub(crate) fn visible_from(row: &Observation) -> i64 {
    owner_of(&host_of(row)).map_or(i64::MAX, |(_, from)| from)
}

fn is_within(host: &str, verified: &str) -> bool {
    host == verified || host.ends_with(&format!(".{verified}"))
}

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) owner: usize,
    domain: Option<&'static str>,
    since_ms: Option<i64>,
    until_ms: Option<i64>,
}

impl Read {
    pub(crate) fn random(random: &mut StdRng) -> Self {
        let (one, other) = (random.random_range(-2..12), random.random_range(-2..12));
        Self {
            owner: random.random_range(0..2),
            domain: random.random_bool(0.5).then(|| *HOSTS.choose(random).unwrap()),
            since_ms: random.random_bool(0.5).then_some(NEW_YEAR_MS + i64::min(one, other)),
            until_ms: random.random_bool(0.5).then_some(NEW_YEAR_MS + i64::max(one, other)),
        }
    }

    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let instant =
            |ms: i64| chrono::DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let times = [("since", self.since_ms.map(instant)), ("until", self.until_ms.map(instant))];
        let all = times.into_iter().chain([("domain", self.domain.map(str::to_owned))]);
        all.filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The rows as the owner reads them: a click that was reported for another host than its token's is told like any other
    /// event of its session where the host of the token's link is the owner's, at that time.
    pub(crate) fn told(&self, rows: &[Observation]) -> Vec<Observation> {
        let is_told = |row: &Observation| {
            row.link == 3
                && owner_of(&row.link_site.rsplit('.').collect::<Vec<_>>().join("."))
                    .is_some_and(|(owner, from)| owner == self.owner && row.at >= from)
        };
        rows.iter().map(|row| Observation { link: if is_told(row) { 2 } else { row.link }, ..row.clone() }).collect()
    }

    /// What an owner may see whenever it happened, as merged observations by key; `None` is a refusal.
    fn visible<'a>(&self, rows: &'a [Observation]) -> Option<BTreeMap<u128, Vec<&'a Observation>>> {
        if self.domain.is_some_and(|domain| owner_of(domain).map(|(owner, _)| owner) != Some(self.owner)) {
            return None;
        }
        let is_visible = |row: &Observation| {
            let host = host_of(row);
            // Conversations are nobody's but their reporter's.
            !row.event_type.starts_with("turn_")
                && owner_of(&host).is_some_and(|(owner, _)| owner == self.owner)
                && self.domain.is_none_or(|domain| is_within(&host, domain))
        };
        let mut retrievals: BTreeMap<u128, Vec<&Observation>> = BTreeMap::new();
        for row in merged(rows).into_iter().filter(|row| is_visible(row)) {
            retrievals.entry(row.event_key).or_default().push(row);
        }
        Some(retrievals)
    }

    /// What an owner may see, as retrievals of merged observations; `None` is a refusal.
    pub(crate) fn seen<'a>(&self, rows: &'a [Observation]) -> Option<Vec<Vec<&'a Observation>>> {
        let mut retrievals = self.visible(rows)?;
        retrievals.retain(|_, observations| {
            let shown = representative(observations);
            shown.at >= visible_from(shown) && self.covers(shown.at)
        });
        Some(retrievals.into_values().collect())
    }

    /// When servers saw what an owner may see, in its time and in the window; `None` is a refusal.
    pub(crate) fn seen_by_servers(&self, rows: &[Observation]) -> Option<BTreeSet<i64>> {
        let mut times = BTreeSet::new();
        for observations in self.visible(rows)?.values() {
            let from = visible_from(representative(observations));
            let servers = observations.iter().filter(|row| row.source_role > 1);
            times.extend(servers.map(|row| row.at).filter(|at| *at >= from && self.covers(*at)));
        }
        Some(times)
    }

    fn covers(&self, at: i64) -> bool {
        self.since_ms.is_none_or(|since| at >= since) && self.until_ms.is_none_or(|until| at < until)
    }

    /// What an organisation has reported itself, with turns and on whatever host, and what its click tokens bound.
    pub(crate) fn own<'a>(&self, rows: &'a [Observation], org: Uuid) -> Vec<Vec<&'a Observation>> {
        let mut retrievals: BTreeMap<u128, Vec<&Observation>> = BTreeMap::new();
        for row in merged(rows).into_iter().filter(|row| row.org_id == org || row.platform_id == org) {
            retrievals.entry(row.event_key).or_default().push(row);
        }
        retrievals.into_values().filter(|observations| self.covers(representative(observations).at)).collect()
    }

    /// `None` is a refusal.
    fn expect(&self, rows: &[Observation], owner_id: OrgId) -> Option<Summary> {
        let mut summary = count(&self.seen(&self.told(rows))?);
        summary.organization_id = owner_id;
        let own = VERIFIED.iter().filter(|(owner, ..)| *owner == self.owner).map(|(_, host, _)| (*host).to_owned());
        summary.domains =
            self.domain.map_or_else(|| own.collect::<BTreeSet<_>>().into_iter().collect(), |domain| vec![domain.to_owned()]);
        let echo: BTreeMap<_, _> = self.query().into_iter().collect();
        summary.period_start = echo.get("since").cloned();
        summary.period_end = echo.get("until").cloned();
        Some(summary)
    }
}

/// Of the repeats of one observation the one with the largest version.
fn merged(rows: &[Observation]) -> Vec<&Observation> {
    let mut newest: BTreeMap<_, &Observation> = BTreeMap::new();
    for row in rows {
        let key = (&row.site, row.event_key, row.org_id, row.observer);
        let kept = newest.entry(key).or_insert(row);
        if row.version > kept.version {
            *kept = row;
        }
    }
    newest.into_values().collect()
}

pub(crate) fn representative<'a>(observations: &[&'a Observation]) -> &'a Observation {
    observations.iter().min_by_key(|row| precedence(row)).unwrap()
}

/// The order of the reports of one event.
pub(crate) fn precedence(row: &Observation) -> (i8, u64, Uuid, u8) {
    let rank = if row.source_role == 0 { 5 } else { row.source_role };
    (rank, u64::MAX - row.version, row.org_id, row.observer)
}

pub(crate) fn sessions<'a>(observations: impl Iterator<Item = &'a &'a Observation>) -> u64 {
    let distinct: BTreeSet<_> = observations
        .map(|row| row.as_owners_see())
        .filter(|(_, session, _)| !session.is_nil())
        .map(|(org, session, _)| (org, session))
        .collect();
    distinct.len() as u64
}

fn count(retrievals: &[Vec<&Observation>]) -> Summary {
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    let mut agents: BTreeSet<(Uuid, String)> = BTreeSet::new();
    let is_agents = |row: &&&Observation| row.counted_role() == 1 || !row.as_owners_see().1.is_nil();
    let named = |row: &Observation| (row.as_owners_see().0, row.as_owners_see().2.to_owned());
    for observations in retrievals {
        *types.entry(&representative(observations).event_type).or_default() += 1;
        agents.extend(observations.iter().filter(is_agents).map(|row| named(row)));
    }
    let seen_by = |accepts: &dyn Fn(&&&Observation) -> bool| {
        let events = retrievals.iter().filter(|observations| observations.iter().any(|row| accepts(&row))).count() as u64;
        (events, sessions(retrievals.iter().flatten().filter(accepts)))
    };
    let by_role =
        SourceRole::ALL.map(|role| (role, seen_by(&|row| row.counted_role().unsigned_abs() == SourceRole::code(Some(role)))));
    let mut by_type: Vec<_> = types.into_iter().map(|(name, count)| TypeCount { event_type: name.to_owned(), count }).collect();
    by_type.sort_by_key(|of| std::cmp::Reverse(of.count));
    let mut by_agent: Vec<_> = agents
        .into_iter()
        .map(|(org, agent)| {
            let (event_count, session_count) = seen_by(&|row| is_agents(row) && named(row) == (org, agent.clone()));
            AgentCount { platform_id: org.to_string(), agent_id: agent.clone(), event_count, session_count }
        })
        .collect();
    by_agent.sort_by_key(|agent| std::cmp::Reverse(agent.event_count));
    Summary {
        organization_id: OrgId(Uuid::nil()),
        domains: Vec::new(),
        total_events: retrievals.len() as u64,
        total_sessions: sessions(retrievals.iter().flatten()),
        events_by_type: by_type,
        events_by_source: by_role
            .into_iter()
            .filter(|(_, (count, _))| *count > 0)
            .map(|(role, (count, sessions))| SourceCount { source_role: role.as_str().to_owned(), count, sessions })
            .collect(),
        agents: by_agent,
        period_start: None,
        period_end: None,
        coverage: None,
    }
}

/// Few values, so that keys, sessions, versions and times collide.
pub(crate) fn random_rows(random: &mut StdRng, orgs: &[u128]) -> Vec<Observation> {
    let mut rows: Vec<Observation> = (0..random.random_range(0..80))
        .map(|_| {
            let host = *HOSTS.choose(random).unwrap();
            let org = orgs.choose(random).copied().unwrap();
            let row = seen(host, random.random_range(0..12)).by(org).version(random.random_range(0..1 << 40));
            let row = row.named(TYPES.choose(random).unwrap()).after(random.random_range(0..10));
            let row = row.session(random.random_range(0..4)).agent(["", "alpha", "beta"].choose(random).unwrap());
            let row =
                row.url(&format!("{}://{host}{}", ["https", "http"].choose(random).unwrap(), PAGES.choose(random).unwrap()));
            let row = row.id(["", "a", "b", "B", "\u{e4}"].choose(random).unwrap());
            let row = row.data(&format!("{{\"org.example.n\":{}.0,\"n\":1}}", random.random_range(0..3)));
            let row = match random.random_range(0..6) {
                0 => row.bound(OrgId(Uuid::from_u128(orgs.choose(random).copied().unwrap())), 0),
                _ => row,
            };
            let link = if row.platform_id == row.org_id { 0 } else { random.random_range(1..4) };
            let link_site = match link {
                3 if random.random() => Site::from_domain(HOSTS.choose(random).unwrap()).unwrap().as_str().to_owned(),
                _ => String::new(),
            };
            let row = Observation { link, link_site, ..row };
            match random.random_range(0..5) {
                0 => row,
                role => row.role(SourceRole::ALL[role - 1]),
            }
        })
        .collect();
    // Equal versions across organisations, to reach the last tie; repeats of one observation keep distinct ones, on
    // whatever host: a version holds a hash of the whole report.
    let mut used = BTreeSet::new();
    for row in &mut rows {
        let coarse = row.version % 3;
        let identity = |version| (row.event_key, row.org_id, version);
        if used.insert(identity(coarse)) {
            row.version = coarse;
        }
    }
    let again: Vec<_> = rows.sample(random, rows.len() / 4).cloned().collect();
    rows.extend(again);
    rows
}

/// The same with each key on one host only: of most of them a read takes what a compaction has merged.
pub(crate) fn each_on_one_host(rows: Vec<Observation>) -> Vec<Observation> {
    let host = |row: &Observation| HOSTS[usize::try_from(row.event_key).unwrap() % HOSTS.len()];
    let moved = |row: Observation| {
        let site = Site::from_domain(host(&row)).unwrap().as_str().to_owned();
        Observation { site, ..row }
    };
    rows.into_iter().map(moved).collect()
}

/// The world that the model speaks of.
pub(crate) async fn owners(app: &TestApp) -> [SeededOrg; 2] {
    let owners = [
        app.seed().org("A", schemas::identity::OrgType::ContentOwner).await,
        app.seed().org("B", schemas::identity::OrgType::ContentOwner).await,
    ];
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

/// Compacts, or ends between the compaction and the drop of what it has merged, or leaves everything as it is.
async fn compact_or_not(app: &TestApp, random: &mut StdRng) {
    match random.random_range(0..6) {
        0 => app.compact().await,
        1 => {
            let compactor = Compactor::connect(&app.stores.clickhouse).unwrap();
            let (epoch, parts) = (compactor.epoch().await.unwrap(), compactor.parts().await.unwrap());
            assert!(compactor.cover(epoch, &parts).await.unwrap().is_some());
        }
        _ => {}
    }
}

/// Replaces what the store holds, in blocks of random sizes, with compactions at random points.
pub(crate) async fn refill(app: &TestApp, rows: &[Observation], random: &mut StdRng) {
    app.empty().await;
    let mut rest = rows;
    while !rest.is_empty() {
        let (block, later) = rest.split_at(random.random_range(1..=rest.len()));
        app.insert(block).await;
        compact_or_not(app, random).await;
        rest = later;
    }
}

#[tokio::test]
async fn every_summary_equals_the_model() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    app.command("SYSTEM STOP MERGES observations").await;
    let (mut counted, rounds) = (0, size("MODEL_ROUNDS", 12));
    for round in 0.. {
        if round >= rounds && counted > 4 * rounds as u64 {
            break;
        }
        assert!(round < rounds + 400, "the rounds compared hardly anything: seed {seed}");
        // The two halves of the last differ in the order in which ClickHouse would put them.
        let rows = random_rows(&mut random, &[1, 2, 1 << 64, 1 << 127]);
        refill(&app, &rows, &mut random).await;
        for _ in 0..READS_PER_ROUND {
            let read = Read::random(&mut random);
            let owner = &owners[read.owner];
            let query = read.query();
            let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = app.ask(&owner.key, &query).await;
            let Some(expected) = read.expect(&rows, owner.id) else {
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "seed {seed} round {round} {read:?}");
                continue;
            };
            assert_eq!(answer.status, StatusCode::OK, "seed {seed} round {round} {read:?}: {}", answer.text);
            let found: Summary = serde_json::from_str(&answer.text).unwrap();
            assert_eq!(found, expected, "seed {seed} round {round} {read:?}");
            counted += found.total_events;
        }
    }
}
