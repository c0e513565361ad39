//! Reads each surface of one tenant and checks every response immediately. Reads are sequential, because each must include what earlier
//! ones returned.

use super::read_counts::ReadCounts;
use super::responses::{Document, PageRequest, as_url, lines, steps_of};
use super::sender::LoadState;
use crate::client::{Connection, Endpoint, Exchange, HttpResponse};
use crate::drive::lock;
use crate::oracle::{Figures, Observed, Rule};
use crate::workload::{AGENT, EDGE, TYPES};
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::paged_responses::{Corroboration, EventItem, FunnelItem, Page, UrlMetric};
use schemas::series_responses::{AgentSeriesItem, AgentSummary, Series, SeriesItem};
use schemas::summary_responses::Summary;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(10);
const PAGE: u64 = 200;
/// Higher than the number of days or agents of any tenant.
const WHOLE: u64 = 1_000;

/// The report's names for the surfaces that read all events. Also the name for reads of a session's document.
const DOCUMENT: &str = "document";

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
    DOCUMENT,
];

#[derive(Clone, Copy)]
pub(super) enum By {
    Agent,
    Day,
}

/// Reads one tenant, alternating between the query processes. None may return less than another one did before.
pub(super) struct Reader {
    pub(super) front: Arc<LoadState>,
    pub(super) tenant: usize,
    connections: Vec<Connection>,
    random: SmallRng,
    pub(super) watched: ReadCounts,
    /// Whether all parts of a response are from the same moment, which is the case on a single server and while no data changes.
    pub(super) is_one_moment: bool,
    /// Status or error of the most recent failed request.
    pub(super) met: String,
}

impl Reader {
    pub(super) fn new(front: &Arc<LoadState>, queries: &[Endpoint], tenant: usize, is_one_moment: bool) -> Self {
        let random = SmallRng::seed_from_u64(front.shape.seed ^ (tenant as u64) << 32);
        let connections = queries.iter().map(|query| Connection::new(query.clone(), DEADLINE)).collect();
        let (front, watched) = (Arc::clone(front), ReadCounts::default());
        Self { front, tenant, connections, random, watched, is_one_moment, met: String::new() }
    }

    fn next(&mut self) -> &mut Connection {
        self.connections.rotate_left(1);
        self.connections.first_mut().expect("a run has query processes")
    }

    pub(super) async fn read_all_surfaces(&mut self) {
        self.summary().await;
        let most = lock(&self.front.oracle).bounds(self.tenant).1.total;
        let offset = self.random.random_range(0..=most);
        self.events(PageRequest { offset, limit: PAGE, only: "" }).await;
        self.own_events(PageRequest { offset, limit: PAGE, only: "" }).await;
        let requests = most / u64::from(self.front.shape.request_length(self.tenant));
        let offset = self.random.random_range(0..=requests);
        self.urls(PageRequest { offset, limit: PAGE, only: "" }).await;
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

    pub(super) async fn is_caught_up(&mut self) -> bool {
        let observed = self.summary().await;
        observed.is_some_and(|observed| lock(&self.front.oracle).is_caught_up(self.tenant, &observed))
    }

    pub(super) async fn summary(&mut self) -> Option<Observed> {
        let body = self.get("summary", "/content-owners/summary", &self.owner()).await?;
        self.check_summary("summary", &body)
    }

    /// Reads the summary as the network with the delegation.
    async fn delegated_summary(&mut self) -> Option<Observed> {
        let body = self.delegated().await?;
        self.check_summary("delegated summary", &body)
    }

    async fn delegated(&mut self) -> Option<Bytes> {
        let whose = &self.front.tenants[self.tenant];
        let (path, key) = (format!("/content-owners/summary?delegated_from={}", whose.owner?), whose.keys[EDGE].clone());
        self.get("delegated summary", &path, &key).await
    }

    /// Returns the owner's and the network's summaries, which must be identical while no data changes.
    pub(super) async fn both_summaries(&mut self) -> Option<(Bytes, Bytes)> {
        let own = self.get("summary", "/content-owners/summary", &self.owner()).await?;
        Some((own, self.delegated().await?))
    }

    fn check_summary(&self, surface: &'static str, body: &[u8]) -> Option<Observed> {
        let summary: Summary = self.parsed(surface, body)?;
        let whose = &self.front.tenants[self.tenant];
        let mut oracle = lock(&self.front.oracle);
        if whose.owner != Some(summary.organization_id) || summary.domains != [whose.domain.clone()] {
            oracle.report_foreign(self.tenant, format!("the {surface} is about {}", summary.domains.join(", ")));
        }
        let observed = Observed::from_summary(&summary);
        oracle.check_read(self.tenant, &observed);
        Some(observed)
    }

    /// Half of these reads use NDJSON, because an incomplete response must not look complete.
    pub(super) async fn events(&mut self, part: PageRequest<'_>) -> Option<Vec<u32>> {
        let path = part.query_path("/content-owners/events?");
        let items: Vec<EventItem> = if self.random.random() {
            let owner = self.owner();
            let answered = self.next().get_lines(&path, &owner).await;
            let answer = self.answer("events", answered)?;
            let items = lines(&answer.body);
            let got = items.as_ref().map(|items| items.len() as u64);
            if !self.are_due(&part, got, answer.total) {
                self.report_violation(Rule::Sum, format!("{path}: {got:?} lines, but the total is {:?}", answer.total));
                return None;
            }
            items?
        } else {
            let page: Page<EventItem> = self.read("events", &path, &self.owner()).await?;
            self.is_possible(&path, page.total, |most| most.total);
            page.items
        };
        Some(self.front.check_events(self.tenant, &items, false))
    }

    /// Returns whether a page has as many lines as its total requires. With several shards, events may arrive after the total was computed.
    fn are_due(&self, part: &PageRequest<'_>, got: Option<u64>, total: Option<u64>) -> bool {
        let (Some(got), Some(total)) = (got, total) else { return false };
        let due = total.saturating_sub(part.offset).min(part.limit);
        let most = if self.is_one_moment { due } else { part.limit };
        (due..=most).contains(&got)
    }

    pub(super) async fn own_events(&mut self, part: PageRequest<'_>) -> Option<Vec<u32>> {
        let path = part.query_path("/agent/events?");
        let page: Page<EventItem> = self.read("own events", &path, &self.agent()).await?;
        self.is_possible(&path, page.total, |most| most.by_role[AGENT]);
        Some(self.front.check_events(self.tenant, &page.items, true))
    }

    fn is_possible(&self, path: &str, total: u64, of: impl Fn(&Figures) -> u64) {
        let most = of(lock(&self.front.oracle).bounds(self.tenant).1);
        if total > most {
            self.report_violation(Rule::TooMany, format!("{path}: the total is {total}, at most {most} are possible"));
        }
    }

    pub(super) async fn totals(&mut self) -> Option<[u64; 3]> {
        let one = PageRequest { offset: 0, limit: 1, only: "" };
        let events: Page<EventItem> = self.read("events", &one.query_path("/content-owners/events?"), &self.owner()).await?;
        let urls: Page<UrlMetric> = self.read("urls", &one.query_path("/content-owners/urls?"), &self.owner()).await?;
        let own: Page<EventItem> = self.read("own events", &one.query_path("/agent/events?"), &self.agent()).await?;
        Some([events.total, urls.total, own.total])
    }

    /// Returns the number of URLs on the page and the sum of their events.
    pub(super) async fn urls(&mut self, part: PageRequest<'_>) -> Option<(u64, u64)> {
        let page: Page<UrlMetric> = self.read("urls", &part.query_path("/content-owners/urls?"), &self.owner()).await?;
        Some((page.items.len() as u64, self.front.check_urls(self.tenant, &page.items)))
    }

    /// Returns the number of URLs on a page of the funnel and the sum of their events. Each URL must have the steps that its request
    /// implies.
    pub(super) async fn funnel_of_urls(&mut self, part: PageRequest<'_>) -> Option<(u64, u64)> {
        let path = part.query_path("/content-owners/funnel?by=url&");
        let page: Page<FunnelItem> = self.read("funnel", &path, &self.owner()).await?;
        let items: Vec<UrlMetric> = page.items.iter().filter_map(as_url).collect();
        if items.len() != page.items.len() {
            self.report_violation(Rule::Foreign, format!("{path}: an item without a URL"));
        }
        Some((items.len() as u64, self.front.check_urls(self.tenant, &items)))
    }

    /// Returns the number of events of each of the [`TYPES`], as sums of the funnel's steps.
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
        lock(&self.front.oracle).check_types(self.tenant, &path, &steps);
        Some(steps)
    }

    /// Returns the number of events of each of the [`TYPES`], as sums over the days in the series.
    pub(super) async fn series(&mut self) -> Option<[u64; TYPES.len()]> {
        let path = "/content-owners/series?by=day&split=type";
        let read: Series<SeriesItem> = self.read("series", path, &self.owner()).await?;
        let of_type = |name| read.items.iter().filter(move |item| item.event_type.as_deref() == Some(name));
        let types = TYPES.map(|name| of_type(name).map(|item| item.total_events).sum());
        lock(&self.front.oracle).check_types(self.tenant, path, &types);
        Some(types)
    }

    /// Returns the number of the agent's own events plus clicks on its links, which is also the total of its list.
    pub(super) async fn own_summary(&mut self) -> Option<u64> {
        let path = "/agent/summary";
        let read: AgentSummary = self.read("own summary", path, &self.agent()).await?;
        let total = read.total_events + read.clicks.total_events;
        self.is_possible(path, total, |most| most.by_role[AGENT]);
        Some(total)
    }

    /// Returns the same number as [`Self::own_summary`], as the sum over the days in the series.
    pub(super) async fn own_series(&mut self) -> Option<u64> {
        let path = "/agent/series?by=day";
        let read: Series<AgentSeriesItem> = self.read("own series", path, &self.agent()).await?;
        let of = |item: &AgentSeriesItem| item.total_events.unwrap_or_default() + item.clicks.unwrap_or_default();
        let total = read.items.iter().map(of).sum();
        self.is_possible(path, total, |most| most.by_role[AGENT]);
        Some(total)
    }

    /// Returns the number of all fetches, and of those reported by both the agent and a server.
    pub(super) async fn corroboration(&mut self) -> Option<(u64, u64)> {
        let path = format!("/content-owners/corroboration?limit={WHOLE}");
        let read: Corroboration = self.read("corroboration", &path, &self.owner()).await?;
        if self.front.tenants[self.tenant].owner != Some(read.organization_id) {
            self.report_violation(Rule::Foreign, format!("{path}: the organization is {}", read.organization_id));
        }
        let items = read.page.items;
        for item in &items {
            let parts = item.seen_by_both + item.claimed_by_agent_only + item.seen_by_server_only + item.seen_by_neither;
            if parts != item.retrievals {
                self.report_violation(
                    Rule::Sum,
                    format!("{path}: the parts add up to {parts}, the total is {}", item.retrievals),
                );
            }
        }
        let sum = |part: fn(&schemas::paged_responses::CorroborationItem) -> u64| items.iter().map(part).sum::<u64>();
        let (retrievals, by_both) = (sum(|item| item.retrievals), sum(|item| item.seen_by_both));
        lock(&self.front.oracle).check_types(self.tenant, &path, &[retrievals]);
        let most = self.front.corroborated(self.tenant).1;
        if by_both > most {
            self.report_violation(Rule::TooMany, format!("{path}: {by_both} seen by both, at most {most} are possible"));
        }
        Some((retrievals, by_both))
    }

    /// Returns the events in a session's document, or `None` if there is no such session.
    pub(super) async fn document(&mut self, session: u32) -> Option<Vec<u32>> {
        let path = format!("/sessions/{}/document", self.front.shape.session_id(self.tenant, session));
        let document: Document = self.read(DOCUMENT, &path, &self.agent()).await?;
        Some(self.front.check_document(self.tenant, session, &document.ids()))
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
            self.report_violation(Rule::Foreign, format!("{surface}: invalid response with status 200"));
        }
        read
    }

    fn answer(&mut self, surface: &'static str, answered: Exchange) -> Option<HttpResponse> {
        let answer = match answered {
            Exchange::Responded(answer) if answer.status == 200 => Some(answer),
            // The worker stores the sessions that events name, and may lag behind.
            Exchange::Responded(answer) if answer.status == 404 && surface == DOCUMENT => {
                self.watched.count(surface, true);
                return self.unanswered("404: no such session".to_owned());
            }
            Exchange::Responded(answer) => {
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

    pub(super) fn report_violation(&self, rule: Rule, what: String) {
        lock(&self.front.oracle).report_violation(self.tenant, rule, what);
    }
}
