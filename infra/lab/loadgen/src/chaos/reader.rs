//! Reads of one tenant, surface by surface, each answer judged as it comes.
//!
//! Must read one after the other: what one read has shown, the next must show too.

use super::answers::{Document, Part, as_url, lines, steps_of};
use super::sender::Front;
use super::watched::Watched;
use crate::client::{Connection, Endpoint, Exchange, HttpResponse};
use crate::drive::lock;
use crate::oracle::{Figures, Observed, Rule};
use crate::workload::{AGENT, EDGE, TYPES};
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::pages::{Corroboration, EventItem, FunnelItem, Page, UrlMetric};
use schemas::reads::Summary;
use schemas::series::{AgentSeriesItem, AgentSummary, Series, SeriesItem};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(10);
const PAGE: u64 = 200;
/// More days and agents than a tenant has.
const WHOLE: u64 = 1_000;

/// Reads of everything, in the words of the report.
pub(super) const SURFACES: [&str; 11] = [
    "summary",
    "delegated summary",
    "series",
    "events",
    "urls",
    "corroboration",
    "funnel",
    "own summary",
    "own series",
    "own events",
    "document",
];

/// What funnels are added up by.
#[derive(Clone, Copy)]
pub(super) enum By {
    Agent,
    Day,
}

/// Reads one tenant, of each process in turn: what one has shown no other may take back.
pub(super) struct Reader {
    pub(super) front: Arc<Front>,
    pub(super) tenant: usize,
    connections: Vec<Connection>,
    random: SmallRng,
    pub(super) watched: Watched,
    /// Whether all parts of a response are of one moment: on one server, and of several while nothing changes.
    pub(super) is_one_moment: bool,
    /// What the last request that was not answered met.
    pub(super) met: String,
}

impl Reader {
    pub(super) fn new(front: &Arc<Front>, queries: &[Endpoint], tenant: usize, is_one_moment: bool) -> Self {
        let random = SmallRng::seed_from_u64(front.shape.seed ^ (tenant as u64) << 32);
        let connections = queries.iter().map(|query| Connection::new(query.clone(), DEADLINE)).collect();
        let (front, watched) = (Arc::clone(front), Watched::default());
        Self { front, tenant, connections, random, watched, is_one_moment, met: String::new() }
    }

    /// The way to the process whose turn it is.
    fn next(&mut self) -> &mut Connection {
        self.connections.rotate_left(1);
        self.connections.first_mut().expect("a run has processes that answer reads")
    }

    /// Every surface once.
    pub(super) async fn look(&mut self) {
        self.summary().await;
        let most = lock(&self.front.oracle).bounds(self.tenant).1.total;
        let offset = self.random.random_range(0..=most);
        self.events(Part { offset, limit: PAGE, only: "" }).await;
        self.own_events(Part { offset, limit: PAGE, only: "" }).await;
        let requests = most / u64::from(self.front.shape.request_length(self.tenant));
        let offset = self.random.random_range(0..=requests);
        self.urls(Part { offset, limit: PAGE, only: "" }).await;
        self.corroboration().await;
        let by = if self.random.random() { By::Agent } else { By::Day };
        self.funnel(by).await;
        self.series().await;
        self.own_summary().await;
        self.own_series().await;
        self.delegated_summary().await;
        let sessions = lock(&self.front.oracle).ledger(self.tenant).sessions();
        if sessions > 0 {
            let session = self.random.random_range(0..sessions);
            self.document(session).await;
        }
    }

    /// Whether everything acknowledged is readable.
    pub(super) async fn is_caught_up(&mut self) -> bool {
        let observed = self.summary().await;
        observed.is_some_and(|observed| lock(&self.front.oracle).is_caught_up(self.tenant, &observed))
    }

    pub(super) async fn summary(&mut self) -> Option<Observed> {
        let body = self.get("summary", "/content-owners/summary", &self.owner()).await?;
        self.judge_summary("summary", &body)
    }

    /// The same read by the network that the owner has delegated to.
    async fn delegated_summary(&mut self) -> Option<Observed> {
        let body = self.delegated().await?;
        self.judge_summary("delegated summary", &body)
    }

    async fn delegated(&mut self) -> Option<Bytes> {
        let whose = &self.front.tenants[self.tenant];
        let (path, key) = (format!("/content-owners/summary?delegated_from={}", whose.owner?), whose.keys[EDGE].clone());
        self.get("delegated summary", &path, &key).await
    }

    /// Owner's and network's answer, which must be the same to the byte when nothing changes any more.
    pub(super) async fn both_summaries(&mut self) -> Option<(Bytes, Bytes)> {
        let own = self.get("summary", "/content-owners/summary", &self.owner()).await?;
        Some((own, self.delegated().await?))
    }

    fn judge_summary(&self, surface: &'static str, body: &[u8]) -> Option<Observed> {
        let summary: Summary = self.parsed(surface, body)?;
        let whose = &self.front.tenants[self.tenant];
        let mut oracle = lock(&self.front.oracle);
        if whose.owner != Some(summary.organization_id) || summary.domains != [whose.domain.clone()] {
            oracle.foreign(self.tenant, format!("the {surface} is of {}", summary.domains.join(", ")));
        }
        let observed = Observed::of(&summary);
        oracle.read(self.tenant, &observed);
        Some(observed)
    }

    /// Half of these come line by line: what is cut off in the middle must not look whole.
    pub(super) async fn events(&mut self, part: Part<'_>) -> Option<Vec<u32>> {
        let path = part.of("/content-owners/events?");
        let items: Vec<EventItem> = if self.random.random() {
            let owner = self.owner();
            let answered = self.next().get_lines(&path, &owner).await;
            let answer = self.answer("events", answered)?;
            let items = lines(&answer.body);
            let got = items.as_ref().map(|items| items.len() as u64);
            if !self.are_due(&part, got, answer.total) {
                self.accuse(Rule::Sum, format!("{path}: {got:?} lines, the total is {:?}", answer.total));
                return None;
            }
            items?
        } else {
            let page: Page<EventItem> = self.read("events", &path, &self.owner()).await?;
            self.is_possible(&path, page.total, |most| most.total);
            page.items
        };
        Some(self.front.judge_events(self.tenant, &items, false))
    }

    /// Whether a page has as many lines as its total demands. Over several shards, events may arrive between the total and the page.
    fn are_due(&self, part: &Part<'_>, got: Option<u64>, total: Option<u64>) -> bool {
        let (Some(got), Some(total)) = (got, total) else { return false };
        let due = total.saturating_sub(part.offset).min(part.limit);
        let most = if self.is_one_moment { due } else { part.limit };
        (due..=most).contains(&got)
    }

    pub(super) async fn own_events(&mut self, part: Part<'_>) -> Option<Vec<u32>> {
        let path = part.of("/agent/events?");
        let page: Page<EventItem> = self.read("own events", &path, &self.agent()).await?;
        self.is_possible(&path, page.total, |most| most.by_role[AGENT]);
        Some(self.front.judge_events(self.tenant, &page.items, true))
    }

    fn is_possible(&self, path: &str, total: u64, of: impl Fn(&Figures) -> u64) {
        let most = of(lock(&self.front.oracle).bounds(self.tenant).1);
        if total > most {
            self.accuse(Rule::TooMany, format!("{path}: total is {total}, at most {most} are possible"));
        }
    }

    /// What the lists say that they hold: events, URLs, own events.
    pub(super) async fn totals(&mut self) -> Option<[u64; 3]> {
        let one = Part { offset: 0, limit: 1, only: "" };
        let events: Page<EventItem> = self.read("events", &one.of("/content-owners/events?"), &self.owner()).await?;
        let urls: Page<UrlMetric> = self.read("urls", &one.of("/content-owners/urls?"), &self.owner()).await?;
        let own: Page<EventItem> = self.read("own events", &one.of("/agent/events?"), &self.agent()).await?;
        Some([events.total, urls.total, own.total])
    }

    /// How many URLs the page has, and the events on them.
    pub(super) async fn urls(&mut self, part: Part<'_>) -> Option<(u64, u64)> {
        let page: Page<UrlMetric> = self.read("urls", &part.of("/content-owners/urls?"), &self.owner()).await?;
        Some((page.items.len() as u64, self.front.judge_urls(self.tenant, &page.items)))
    }

    /// How many URLs a page of the funnel has, and the events on them: of each URL as many of each step as of its request.
    pub(super) async fn funnel_of_urls(&mut self, part: Part<'_>) -> Option<(u64, u64)> {
        let path = part.of("/content-owners/funnel?by=url&");
        let page: Page<FunnelItem> = self.read("funnel", &path, &self.owner()).await?;
        let items: Vec<UrlMetric> = page.items.iter().filter_map(as_url).collect();
        if items.len() != page.items.len() {
            self.accuse(Rule::Foreign, format!("{path}: an item without a URL"));
        }
        Some((items.len() as u64, self.front.judge_urls(self.tenant, &items)))
    }

    /// Events of each of [`TYPES`], as the steps of the funnel add up.
    pub(super) async fn funnel(&mut self, by: By) -> Option<[u64; TYPES.len()]> {
        let by = match by {
            By::Agent => "agent",
            By::Day => "day",
        };
        let path = format!("/content-owners/funnel?by={by}&limit={WHOLE}");
        let page: Page<FunnelItem> = self.read("funnel", &path, &self.owner()).await?;
        let mut steps = [0; TYPES.len()];
        for item in &page.items {
            steps.iter_mut().zip(steps_of(item)).for_each(|(sum, step)| *sum += step);
        }
        lock(&self.front.oracle).read_types(self.tenant, &path, &steps);
        Some(steps)
    }

    /// Events of each of [`TYPES`], as the days of the series add up.
    pub(super) async fn series(&mut self) -> Option<[u64; TYPES.len()]> {
        let path = "/content-owners/series?by=day&split=type";
        let read: Series<SeriesItem> = self.read("series", path, &self.owner()).await?;
        let of_type = |name| read.items.iter().filter(move |item| item.event_type.as_deref() == Some(name));
        let types = TYPES.map(|name| of_type(name).map(|item| item.total_events).sum());
        lock(&self.front.oracle).read_types(self.tenant, path, &types);
        Some(types)
    }

    /// What is the agent's own and what others did with its tokens, which is what its list holds.
    pub(super) async fn own_summary(&mut self) -> Option<u64> {
        let path = "/agent/summary";
        let read: AgentSummary = self.read("own summary", path, &self.agent()).await?;
        let total = read.total_events + read.clicks.total_events;
        self.is_possible(path, total, |most| most.by_role[AGENT]);
        Some(total)
    }

    /// The same as the days of its series add up.
    pub(super) async fn own_series(&mut self) -> Option<u64> {
        let path = "/agent/series?by=day";
        let read: Series<AgentSeriesItem> = self.read("own series", path, &self.agent()).await?;
        let of = |item: &AgentSeriesItem| item.total_events.unwrap_or_default() + item.clicks.unwrap_or_default();
        let total = read.items.iter().map(of).sum();
        self.is_possible(path, total, |most| most.by_role[AGENT]);
        Some(total)
    }

    /// All retrievals, as corroboration counts them, and those that agent and server have both reported.
    pub(super) async fn corroboration(&mut self) -> Option<(u64, u64)> {
        let path = format!("/content-owners/corroboration?limit={WHOLE}");
        let read: Corroboration = self.read("corroboration", &path, &self.owner()).await?;
        if self.front.tenants[self.tenant].owner != Some(read.organization_id) {
            self.accuse(Rule::Foreign, format!("{path}: it is of {}", read.organization_id));
        }
        let items = read.page.items;
        for item in &items {
            let parts = item.seen_by_both + item.claimed_by_agent_only + item.seen_by_server_only + item.seen_by_neither;
            if parts != item.retrievals {
                self.accuse(Rule::Sum, format!("{path}: {parts} in parts, {} in all", item.retrievals));
            }
        }
        let sum = |part: fn(&schemas::pages::CorroborationItem) -> u64| items.iter().map(part).sum::<u64>();
        let (retrievals, by_both) = (sum(|item| item.retrievals), sum(|item| item.seen_by_both));
        lock(&self.front.oracle).read_types(self.tenant, &path, &[retrievals]);
        let most = self.front.corroborated(self.tenant).1;
        if by_both > most {
            self.accuse(Rule::TooMany, format!("{path}: {by_both} seen by both, at most {most} are possible"));
        }
        Some((retrievals, by_both))
    }

    /// The events of a session's document; none as well when there is no such session.
    pub(super) async fn document(&mut self, session: u32) -> Option<Vec<u32>> {
        let path = format!("/sessions/{}/document", self.front.shape.session_id(self.tenant, session));
        let document: Document = self.read("document", &path, &self.agent()).await?;
        Some(self.front.judge_document(self.tenant, session, &document.ids()))
    }

    fn owner(&self) -> HeaderValue {
        self.front.tenants[self.tenant].owner_key.clone()
    }

    fn agent(&self) -> HeaderValue {
        self.front.tenants[self.tenant].keys[AGENT].clone()
    }

    async fn read<T: DeserializeOwned>(&mut self, surface: &'static str, path: &str, key: &HeaderValue) -> Option<T> {
        let body = self.get(surface, path, key).await?;
        self.parsed(surface, &body)
    }

    async fn get(&mut self, surface: &'static str, path: &str, key: &HeaderValue) -> Option<Bytes> {
        let answered = self.next().get(path, key).await;
        Some(self.answer(surface, answered)?.body)
    }

    fn parsed<T: DeserializeOwned>(&self, surface: &str, body: &[u8]) -> Option<T> {
        let read = serde_json::from_slice(body).ok();
        if read.is_none() {
            self.accuse(Rule::Foreign, format!("{surface}: an answer 200 that cannot be read"));
        }
        read
    }

    fn answer(&mut self, surface: &'static str, answered: Exchange) -> Option<HttpResponse> {
        let answer = match answered {
            Exchange::Answered(answer) if answer.status == 200 => Some(answer),
            Exchange::Answered(answer) => {
                self.unanswered(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)))
            }
            Exchange::NeverSent(why) | Exchange::Lost(why) => self.unanswered(why.to_owned()),
        };
        self.watched.count(surface, answer.is_some());
        answer
    }

    fn unanswered<T>(&mut self, met: String) -> Option<T> {
        self.met = met;
        None
    }

    pub(super) fn accuse(&self, rule: Rule, what: String) {
        lock(&self.front.oracle).accuse(self.tenant, rule, what);
    }
}
