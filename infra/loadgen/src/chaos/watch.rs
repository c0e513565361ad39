//! Reads every surface of every tenant, again and again while faults are injected.
//!
//! Must take a read that fails for what it is, no proof of anything, and never for a violation.

use super::raw::Raw;
use super::sender::Front;
use crate::client::{Answer, Connection, Exchange, Place};
use crate::drive::lock;
use crate::oracle::{Observed, Rule};
use crate::workload::AGENT;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::pages::{EventItem, Page, UrlMetric};
use schemas::reads::Summary;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Between the begins of two rounds.
const ROUND: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);
/// Items of a page.
const PAGE: u64 = 200;
/// How long everything acknowledged may take to be readable once everything is well.
pub(super) const QUIESCE_PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// What was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Answers that were checked, by surface.
    pub(super) checked: BTreeMap<&'static str, u64>,
    /// Reads that were not answered, by surface.
    pub(super) failed: BTreeMap<&'static str, u64>,
    pub(super) rounds: u64,
    /// When a round showed more events than the one before, or as many.
    pub(super) grown: Vec<(Instant, u64)>,
}

impl Watched {
    /// How long after `moment` the first read showed something new.
    pub(super) fn first_news_after(&self, moment: Instant) -> Option<Duration> {
        let before = self.grown.iter().take_while(|(at, _)| *at < moment).map(|(_, total)| *total).max().unwrap_or(0);
        let news = self.grown.iter().find(|(at, total)| *at >= moment && *total > before)?;
        Some(news.0 - moment)
    }
}

/// Reads and has everything judged.
pub(super) struct Watcher {
    pub(super) front: Arc<Front>,
    connection: Connection,
    pub(super) raw: Raw,
    random: SmallRng,
    pub(super) watched: Watched,
}

impl Watcher {
    pub(super) fn new(front: &Arc<Front>, query: Place, raw: Raw) -> Self {
        let random = SmallRng::seed_from_u64(front.shape.seed);
        let connection = Connection::new(query, DEADLINE);
        Self { front: Arc::clone(front), connection, raw, random, watched: Watched::default() }
    }

    /// Reads every second until `stop`.
    pub(super) async fn keep_watching(mut self, stop: CancellationToken) -> Self {
        while !stop.is_cancelled() {
            let next = Instant::now() + ROUND;
            for tenant in 0..self.front.tenants.len() {
                self.look(tenant).await;
            }
            let looked = self.raw.look(&self.front).await;
            self.count("clickhouse", looked.is_some());
            self.watched.rounds += 1;
            let seen = lock(&self.front.oracle).seen();
            self.watched.grown.push((Instant::now(), seen));
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep_until(next) => {}
            }
        }
        self
    }

    async fn look(&mut self, tenant: usize) {
        self.summary(tenant).await;
        let most = lock(&self.front.oracle).bounds(tenant).1.total;
        let from = self.random.random_range(0..=most);
        self.events(tenant, from, PAGE, "").await;
        self.own_events(tenant, from, PAGE, "").await;
        let requests = most / u64::from(self.front.shape.request_length(tenant));
        let from = self.random.random_range(0..=requests);
        self.urls(tenant, from, PAGE, "").await;
    }

    /// Waits until everything acknowledged is readable; how long that took, if it came to that.
    pub(super) async fn settle(&mut self) -> Option<Duration> {
        let begun = Instant::now();
        for tenant in 0..self.front.tenants.len() {
            loop {
                let observed = self.summary(tenant).await;
                if observed.is_some_and(|observed| lock(&self.front.oracle).is_caught_up(tenant, &observed)) {
                    break;
                }
                if begun.elapsed() > QUIESCE_PATIENCE {
                    return None;
                }
                sleep(ASK_AGAIN).await;
            }
        }
        Some(begun.elapsed())
    }

    pub(super) async fn summary(&mut self, tenant: usize) -> Option<Observed> {
        let key = self.front.tenants[tenant].owner_key.clone();
        let answered = self.connection.get("/content-owners/summary", &key).await;
        let summary: Summary = self.read("summary", tenant, answered)?;
        let whose = &self.front.tenants[tenant];
        let mut oracle = lock(&self.front.oracle);
        if whose.owner != Some(summary.organization_id) || summary.domains != [whose.domain.clone()] {
            oracle.foreign(tenant, format!("the summary is of {}", summary.domains.join(", ")));
        }
        let observed = Observed::of(&summary);
        oracle.read(tenant, &observed);
        Some(observed)
    }

    /// Half of these come line by line: what is cut off in the middle must not look whole.
    pub(super) async fn events(&mut self, tenant: usize, offset: u64, limit: u64, only: &str) -> Option<Vec<u32>> {
        let path = format!("/content-owners/events?limit={limit}&offset={offset}{only}");
        let key = self.front.tenants[tenant].owner_key.clone();
        let items: Vec<EventItem> = if self.random.random() {
            let answered = self.connection.get_lines(&path, &key).await;
            let answer = self.answer("events", answered)?;
            let items = lines(&answer.body);
            let due = answer.total.map(|total| total.saturating_sub(offset).min(limit));
            if items.as_ref().map(|items| items.len() as u64) != due || due.is_none() {
                let got = items.map(|items| items.len());
                lock(&self.front.oracle).accuse(tenant, Rule::Sum, format!("{path}: {got:?} lines, {due:?} are due"));
                return None;
            }
            items?
        } else {
            let answered = self.connection.get(&path, &key).await;
            let page: Page<EventItem> = self.read("events", tenant, answered)?;
            let most = lock(&self.front.oracle).bounds(tenant).1.total;
            if page.total > most {
                let what = format!("{path}: total is {}, at most {most} are possible", page.total);
                lock(&self.front.oracle).accuse(tenant, Rule::TooMany, what);
            }
            page.items
        };
        Some(self.front.judge_events(tenant, &items, false))
    }

    pub(super) async fn own_events(&mut self, tenant: usize, offset: u64, limit: u64, only: &str) -> Option<Vec<u32>> {
        let path = format!("/agent/events?limit={limit}&offset={offset}{only}");
        let key = self.front.tenants[tenant].keys[AGENT].clone();
        let answered = self.connection.get(&path, &key).await;
        let page: Page<EventItem> = self.read("own events", tenant, answered)?;
        Some(self.front.judge_events(tenant, &page.items, true))
    }

    /// How many URLs the page has, and the events on them.
    pub(super) async fn urls(&mut self, tenant: usize, offset: u64, limit: u64, only: &str) -> Option<(u64, u64)> {
        let path = format!("/content-owners/urls?limit={limit}&offset={offset}{only}");
        let key = self.front.tenants[tenant].owner_key.clone();
        let answered = self.connection.get(&path, &key).await;
        let page: Page<UrlMetric> = self.read("urls", tenant, answered)?;
        Some((page.items.len() as u64, self.front.judge_urls(tenant, &page.items)))
    }

    fn read<T: DeserializeOwned>(&mut self, surface: &'static str, tenant: usize, answered: Exchange) -> Option<T> {
        let answer = self.answer(surface, answered)?;
        let read = serde_json::from_slice(&answer.body).ok();
        if read.is_none() {
            lock(&self.front.oracle).foreign(tenant, format!("{surface}: an answer 200 that cannot be read"));
        }
        read
    }

    fn answer(&mut self, surface: &'static str, answered: Exchange) -> Option<Answer> {
        let answer = match answered {
            Exchange::Answered(answer) if answer.status == 200 => Some(answer),
            _ => None,
        };
        self.count(surface, answer.is_some());
        answer
    }

    pub(super) fn count(&mut self, surface: &'static str, is_checked: bool) {
        let counts = if is_checked { &mut self.watched.checked } else { &mut self.watched.failed };
        *counts.entry(surface).or_default() += 1;
    }
}

fn lines<T: DeserializeOwned>(body: &[u8]) -> Option<Vec<T>> {
    body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_slice(line).ok()).collect()
}
