//! Reads every item of every surface after the load, and checks that all sums agree.
//!
//! It never pages through a whole tenant: a page costs as much as all items before it, so a million events would take an hour. Owners are
//! read host by host and agents' own reports by time slices, and the sums are compared with the totals.

use super::read_loop::{ReadLoop, TABLE};
use super::reader::{By, Reader};
use super::responses::PageRequest;
use crate::drive::lock;
use crate::oracle::{Figures, Rule};
use crate::workload::{AGENT, SHELVES, shelf_host};
use futures::future::join_all;
use std::ops::AddAssign;
use std::time::Duration;
use tokio::time::sleep;

const PAGE: u64 = 1_000;
/// Attempts per read, because the machine may be busy.
const TRIES: u32 = 20;
const ASK_AGAIN: Duration = Duration::from_millis(250);
const SLICE: u64 = 10_000;
/// Number of session documents to read per tenant.
const DOCUMENTS: u32 = 200;

macro_rules! patiently {
    ($asked:expr, $what:expr) => {{
        let mut answered = None;
        for _ in 0..TRIES {
            answered = $asked.await;
            if answered.is_some() {
                break;
            }
            sleep(ASK_AGAIN).await;
        }
        answered.ok_or(concat!($what, " could not be read"))?
    }};
}

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

#[derive(Clone, Copy)]
enum List {
    Events,
    OwnEvents,
    Urls,
    FunnelOfUrls,
}

impl ReadLoop {
    /// Reads everything. Every read must succeed, and the results must be complete and consistent.
    pub(super) async fn read_everything(&mut self) {
        let looks = self.readers.iter_mut().map(async |reader| {
            if let Err(why) = reader.everything().await {
                reader.report_violation(Rule::Lost, format!("at the end {why}: {}", reader.met));
            }
        });
        join_all(looks).await;
        let looked = self.table.raw.check_everything(&self.front).await;
        self.table.watched.count(TABLE, looked.is_ok());
        if let Err(error) = looked {
            lock(&self.front.oracle).report_violation(0, Rule::Lost, format!("the tables cannot be read: {error:#}"));
        }
    }
}

impl Reader {
    async fn everything(&mut self) -> Result<(), &'static str> {
        self.is_one_moment = true;
        let observed = patiently!(self.summary(), "the summary");
        lock(&self.front.oracle).check_last_read(self.tenant, &observed, &observed);
        let figures = observed.figures;
        let [mut events, mut urls, mut funnel, mut own] = std::array::from_fn(|_| Listed::default());
        for shelf in 0..SHELVES {
            let only = format!("&domain={}", shelf_host(&self.front.tenants[self.tenant].domain, shelf));
            events += self.all(List::Events, &only).await?;
            urls += self.all(List::Urls, &only).await?;
            funnel += self.all(List::FunnelOfUrls, &only).await?;
        }
        for slice in self.slices_of_time(figures.by_role[AGENT] / SLICE + 1) {
            own += self.all(List::OwnEvents, &slice).await?;
        }
        self.adds_up("/content-owners/urls", urls.events, figures.total);
        self.adds_up("/content-owners/funnel by url", funnel.events, figures.total);
        self.is_listed_once("/content-owners/events", events, figures.total);
        self.is_listed_once("/agent/events", own, figures.by_role[AGENT]);
        let totals = patiently!(self.totals(), "the totals of the lists");
        for (list, told, counted) in [
            ("/content-owners/events", totals[0], figures.total),
            ("/content-owners/urls", totals[1], urls.items),
            ("/agent/events", totals[2], figures.by_role[AGENT]),
        ] {
            self.adds_up(&format!("the total of {list}"), told, counted);
        }
        self.all_figures(&figures).await?;
        self.documents().await
    }

    /// Checks that other surfaces count the same as the summary.
    async fn all_figures(&mut self, figures: &Figures) -> Result<(), &'static str> {
        for by in [By::Agent, By::Day] {
            let steps = patiently!(self.funnel(by), "a funnel");
            if steps != figures.by_type {
                self.report_violation(Rule::Sum, format!("the funnel has {steps:?}, the summary {:?}", figures.by_type));
            }
        }
        let types = patiently!(self.series(), "a series");
        if types != figures.by_type {
            self.report_violation(Rule::Sum, format!("the series has {types:?}, the summary {:?}", figures.by_type));
        }
        let own = patiently!(self.own_summary(), "an agent's summary");
        self.adds_up("/agent/summary", own, figures.by_role[AGENT]);
        let own = patiently!(self.own_series(), "an agent's series");
        self.adds_up("/agent/series", own, figures.by_role[AGENT]);
        let (retrievals, by_both) = patiently!(self.corroboration(), "corroboration");
        self.adds_up("/content-owners/corroboration", retrievals, figures.by_type[0]);
        let least = self.front.corroborated(self.tenant).0;
        if by_both < least {
            self.report_violation(Rule::Lost, format!("{by_both} retrievals are seen by both, but {least} were acknowledged"));
        }
        let (own, delegated) = patiently!(self.both_summaries(), "a summary");
        if own != delegated {
            self.report_violation(Rule::Foreign, "the delegated summary differs from the owner's".to_owned());
        }
        Ok(())
    }

    /// Checks the documents of evenly spaced sessions.
    async fn documents(&mut self) -> Result<(), &'static str> {
        let sessions = lock(&self.front.oracle).ledger(self.tenant).sessions();
        for session in (0..sessions).step_by((sessions / DOCUMENTS).max(1) as usize) {
            let due = self.front.due_in_document(self.tenant, session);
            if due.is_empty() {
                continue;
            }
            let told = patiently!(self.document(session), "a session's document");
            if let Some(missing) = due.iter().find(|number| !told.contains(number)) {
                self.report_violation(Rule::Lost, format!("event {missing} is not in the document of session {session}"));
            }
        }
        Ok(())
    }

    async fn all(&mut self, list: List, only: &str) -> Result<Listed, &'static str> {
        let mut listed = Listed::default();
        for offset in (0..).step_by(PAGE as usize) {
            let page = patiently!(self.page(list, PageRequest { offset, limit: PAGE, only }), "a page");
            let is_last = page.items < PAGE;
            listed += page;
            if is_last {
                break;
            }
        }
        Ok(listed)
    }

    async fn page(&mut self, list: List, part: PageRequest<'_>) -> Option<Listed> {
        let of_urls = |(items, events)| Listed { numbers: Vec::new(), items, events };
        let of_events = |numbers: Vec<u32>| {
            let items = numbers.len() as u64;
            Listed { numbers, items, events: items }
        };
        match list {
            List::Events => self.events(part).await.map(of_events),
            List::OwnEvents => self.own_events(part).await.map(of_events),
            List::Urls => self.urls(part).await.map(of_urls),
            List::FunnelOfUrls => self.funnel_of_urls(part).await.map(of_urls),
        }
    }

    /// Returns adjacent periods that together cover all time.
    fn slices_of_time(&self, slices: u64) -> Vec<String> {
        let cuts: Vec<String> = self.front.shape.cuts_of_time(slices).collect();
        let first = cuts.first().map(|first| format!("&until={first}"));
        let last = cuts.last().map(|last| format!("&since={last}"));
        let between = cuts.windows(2).map(|cut| format!("&since={}&until={}", cut[0], cut[1]));
        first.into_iter().chain(between).chain(last).collect()
    }

    fn is_listed_once(&self, what: &str, listed: Listed, total: u64) {
        let Listed { mut numbers, items, .. } = listed;
        numbers.sort_unstable();
        numbers.dedup();
        let twice = items - numbers.len() as u64;
        if twice > 0 {
            self.report_violation(Rule::Double, format!("{what}: {twice} of {items} are on two pages"));
        }
        self.adds_up(what, items, total);
    }

    fn adds_up(&self, what: &str, counted: u64, total: u64) {
        if counted != total {
            self.report_violation(Rule::Sum, format!("{what} adds up to {counted}, the summary has {total}"));
        }
    }
}
