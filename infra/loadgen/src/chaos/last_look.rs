//! The last look, nothing being under way any more: every item of every surface, and all of it adds up.
//!
//! Must not turn the pages of a whole tenant: a page costs what lies before it, so that a million events would take an
//! hour. Owners are read host by host, agents' own reports by slices of time; what the parts add up to is held to the whole.

use super::watch::Watcher;
use crate::drive::lock;
use crate::oracle::Rule;
use crate::workload::{AGENT, SHELVES, shelf_host};
use std::ops::AddAssign;
use std::time::Duration;
use tokio::time::sleep;

/// Items of a page.
const PAGE: u64 = 1_000;
/// A read is asked for so often, on a machine that may be busy.
const TRIES: u32 = 20;
/// Between two of these.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Of an agent's reports in a slice of time.
const SLICE: u64 = 10_000;

macro_rules! patiently {
    ($asked:expr, $what:literal) => {{
        let mut answered = None;
        for _ in 0..TRIES {
            answered = $asked.await;
            if answered.is_some() {
                break;
            }
            sleep(ASK_AGAIN).await;
        }
        answered.ok_or(concat!($what, " was not answered"))?
    }};
}

/// What the pages of a list hold together.
#[derive(Debug, Default)]
struct Listed {
    numbers: Vec<u32>,
    items: u64,
    events: u64,
}

impl AddAssign for Listed {
    fn add_assign(&mut self, other: Self) {
        self.numbers.extend(other.numbers);
        self.items += other.items;
        self.events += other.events;
    }
}

impl Watcher {
    /// Reads everything: all of it must be answered, agree, and leave nothing out.
    pub(super) async fn look_at_everything(&mut self) {
        for tenant in 0..self.front.tenants.len() {
            if let Err(why) = self.everything_of(tenant).await {
                lock(&self.front.oracle).accuse(tenant, Rule::Lost, format!("at the end {why}"));
            }
        }
        if let Err(error) = self.raw.look_at_everything(&self.front).await {
            lock(&self.front.oracle).accuse(0, Rule::Lost, format!("the table cannot be read: {error:#}"));
        }
        self.count("clickhouse", true);
    }

    async fn everything_of(&mut self, tenant: usize) -> Result<(), &'static str> {
        let observed = patiently!(self.summary(tenant), "the summary");
        lock(&self.front.oracle).read_last(tenant, &observed, &observed);
        let (mut events, mut urls) = (Listed::default(), Listed::default());
        for shelf in 0..SHELVES {
            let only = format!("&domain={}", shelf_host(&self.front.tenants[tenant].domain, shelf));
            events += self.all_events(tenant, &only).await?;
            urls += self.all_urls(tenant, &only).await?;
        }
        let mut own = Listed::default();
        for slice in self.slices_of_time(observed.figures.by_role[AGENT] / SLICE + 1) {
            own += self.all_own_events(tenant, &slice).await?;
        }
        let (total, of_agent) = (observed.figures.total, observed.figures.by_role[AGENT]);
        self.adds_up(tenant, "/content-owners/events", events, total);
        self.adds_up(tenant, "/agent/events", own, of_agent);
        if urls.events != total {
            let what = format!("/content-owners/urls adds up to {}, the summary says {total}", urls.events);
            lock(&self.front.oracle).accuse(tenant, Rule::Sum, what);
        }
        Ok(())
    }

    async fn all_events(&mut self, tenant: usize, only: &str) -> Result<Listed, &'static str> {
        let mut listed = Listed::default();
        for offset in (0..).step_by(PAGE as usize) {
            let numbers = patiently!(self.events(tenant, offset, PAGE, only), "a page of events");
            if listed.is_last(numbers) {
                break;
            }
        }
        Ok(listed)
    }

    async fn all_own_events(&mut self, tenant: usize, only: &str) -> Result<Listed, &'static str> {
        let mut listed = Listed::default();
        for offset in (0..).step_by(PAGE as usize) {
            let numbers = patiently!(self.own_events(tenant, offset, PAGE, only), "a page of own events");
            if listed.is_last(numbers) {
                break;
            }
        }
        Ok(listed)
    }

    async fn all_urls(&mut self, tenant: usize, only: &str) -> Result<Listed, &'static str> {
        let mut listed = Listed::default();
        for offset in (0..).step_by(PAGE as usize) {
            let (urls, events) = patiently!(self.urls(tenant, offset, PAGE, only), "a page of URLs");
            listed += Listed { numbers: Vec::new(), items: urls, events };
            if urls < PAGE {
                break;
            }
        }
        Ok(listed)
    }

    /// Adjacent windows from the beginning to the end of time.
    fn slices_of_time(&self, slices: u64) -> Vec<String> {
        let cuts: Vec<String> = self.front.shape.cuts_of_time(slices).collect();
        let first = cuts.first().map(|first| format!("&until={first}"));
        let last = cuts.last().map(|last| format!("&since={last}"));
        let between = cuts.windows(2).map(|cut| format!("&since={}&until={}", cut[0], cut[1]));
        first.into_iter().chain(between).chain(last).collect()
    }

    fn adds_up(&self, tenant: usize, what: &str, listed: Listed, total: u64) {
        let Listed { mut numbers, items, .. } = listed;
        numbers.sort_unstable();
        numbers.dedup();
        let twice = items - numbers.len() as u64;
        let mut oracle = lock(&self.front.oracle);
        if twice > 0 {
            oracle.accuse(tenant, Rule::Double, format!("{what}: {twice} of {items} are on two pages"));
        }
        if items != total {
            oracle.accuse(tenant, Rule::Sum, format!("{what}: its pages hold {items}, the summary says {total}"));
        }
    }
}

impl Listed {
    /// Takes a page in; whether it was the last.
    fn is_last(&mut self, page: Vec<u32>) -> bool {
        let items = page.len() as u64;
        *self += Self { numbers: page, items, events: items };
        items < PAGE
    }
}
