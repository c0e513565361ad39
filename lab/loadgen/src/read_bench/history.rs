//! The reports in one store. One in `share` is about the measured owner. Sites, pages, agents and session lengths follow Zipf's law, and a
//! server also reports 30 percent of the events.

use super::{DAY_MS, instant};
use crate::options::ReadBenchOptions;
use crate::workload::Skew;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, FetchedContent, OwnId};
use schemas::ids::{OrgId, SessionId};
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION, RecordKind};
use schemas::site::Site;
use serde_json::value::RawValue;
use std::ops::Range;
use uuid::Uuid;

/// Time of the last event: the end of 2025, in milliseconds.
const END_MS: i64 = 1_767_225_600_000;
const RECORD: usize = 500;
const OTHER_SITES: usize = 200;
const PAGES: usize = 5_000;
const PLATFORMS: u128 = 17;
const AGENTS: usize = 60;
/// Hosts of the owner, without its domain.
const HOSTS: [&str; 5] = ["www.", "blog.", "shop.", "", "docs."];
const TYPES: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
const DATA: [&str; 5] = [
    r#"{"user_agent":"ExampleBot/1.0 (+https://bot.example)","response_status":200}"#,
    r#"{"scope":"full","cached":false,"tokens":412}"#,
    r#"{"citation_type":"direct_quote","position":"primary"}"#,
    r#"{"presentation_kind":"reference","presentation_type":"card"}"#,
    r#"{"engagement_type":"link_click"}"#,
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) begin_ms: i64,
    pub(super) days: i64,
}

impl Span {
    /// Returns the last `days` days of 2025.
    pub(super) fn last_days(days: i64) -> Self {
        Self { begin_ms: END_MS - days * DAY_MS, days }
    }

    /// Returns a period of this length as query parameters, or an empty string if it covers everything. `pick` chooses when the period
    /// starts.
    pub(super) fn window(self, length_ms: i64, pick: impl FnOnce(Range<i64>) -> i64) -> String {
        let free = self.days * DAY_MS - length_ms;
        if free <= 0 {
            return String::new();
        }
        let since = self.begin_ms + pick(0..free);
        format!("since={}&until={}", instant(since), instant(since + length_ms))
    }
}

/// Generates records in the order of their acceptance.
pub(super) struct ReportGenerator {
    random: SmallRng,
    span: Span,
    domain: String,
    sites: Skew,
    hosts: Skew,
    pages: Skew,
    agents: Skew,
    reports: u64,
    share: u32,
    made: u64,
    session: Session,
}

/// A sequence of events by one agent for one owner.
struct Session {
    id: Uuid,
    remaining: u32,
    is_owners: bool,
    agent: usize,
}

impl ReportGenerator {
    pub(super) fn new(options: &ReadBenchOptions, domain: &str) -> Self {
        Self {
            random: SmallRng::seed_from_u64(options.seed),
            span: Span::last_days(options.days.into()),
            domain: domain.to_owned(),
            sites: Skew::new(OTHER_SITES, 1.0),
            hosts: Skew::new(HOSTS.len(), 1.0),
            pages: Skew::new(PAGES, 1.0),
            agents: Skew::new(AGENTS, 1.0),
            reports: options.reports,
            share: options.share,
            made: 0,
            session: Session { id: Uuid::nil(), remaining: 0, is_owners: false, agent: 0 },
        }
    }

    fn uuid(&mut self) -> Uuid {
        uuid::Builder::from_random_bytes(self.random.random()).into_uuid()
    }

    /// Returns the reports of one event: the agent's, and in 30 percent of the cases a server's.
    fn event(&mut self, at_ms: i64) -> Vec<(OrgId, LogEvent)> {
        if self.session.remaining == 0 {
            // Most sessions are short; a few are long.
            let left = 1 + (1.0 / self.random.random_range(0.01..1.0_f64)) as u32;
            let (id, is_owners, agent) =
                (self.uuid(), self.random.random_ratio(1, self.share), self.agents.pick(self.random.random()));
            self.session = Session { id, remaining: left, is_owners, agent };
        }
        self.session.remaining -= 1;
        let host = if self.session.is_owners {
            format!("{}{}", HOSTS[self.hosts.pick(self.random.random())], self.domain)
        } else {
            format!("www.site{}.example.net", self.sites.pick(self.random.random()))
        };
        let page = self.pages.pick(self.random.random());
        let is_seen_twice = self.random.random_ratio(3, 10);
        let kind = if is_seen_twice { 0 } else { self.random.random_range(0..9_usize).saturating_sub(4) };
        let org = OrgId(Uuid::from_u128(0x5000 + self.session.agent as u128 % PLATFORMS));
        let correlation = self.uuid().to_string();
        let mut reports = vec![(org, self.report(&host, page, kind, &correlation, at_ms, org, SourceRole::Agent))];
        if is_seen_twice {
            let role = if self.random.random() { SourceRole::Edge } else { SourceRole::Origin };
            let server = OrgId(Uuid::from_u128(0x6000));
            reports.push((server, self.report(&host, page, kind, &correlation, at_ms + 7, server, role)));
        }
        reports
    }

    #[expect(clippy::too_many_arguments, reason = "one report has as many aspects")]
    fn report(
        &mut self,
        host: &str,
        page: usize,
        kind: usize,
        correlation: &str,
        at_ms: i64,
        org: OrgId,
        role: SourceRole,
    ) -> LogEvent {
        let site: Site = host.parse().expect("the hosts of a history are valid");
        let path = format!("{host}/articles/{page}/how-to-{}", page * 7_919 % 1_000);
        let (id, is_agents, is_retrieval) = (self.uuid().to_string(), role == SourceRole::Agent, kind == 0);
        LogEvent {
            own_key: EventKey::own(&OwnId::Reported { org, id: &id }),
            correlation_key: is_retrieval.then(|| EventKey::correlation(correlation, FetchedContent::Page(&path))),
            id: Some(id),
            event_type: TYPES[kind].to_owned(),
            at_ms,
            source_role: Some(role),
            site: site.as_str().to_owned(),
            content_url: Some(format!("https://{path}")),
            content_id: None,
            content_telemetry_id: is_retrieval.then(|| correlation.to_owned()),
            session_id: is_agents.then_some(SessionId(self.session.id)),
            session_org: None,
            link: None,
            link_site: String::new(),
            ctx_hash: None,
            kept_ctx_hash: None,
            crawler: None,
            signature: None,
            agent_id: is_agents.then(|| format!("agent-{}", self.session.agent)),
            turn_id: (kind == 2).then(|| format!("turn-{}", self.random.random_range(0..1_000_000))),
            output_id: None,
            data: RawValue::from_string(DATA[kind].to_owned()).ok(),
            extra: None,
        }
    }
}

/// Returns the records of about 500 reports per call, until there are enough reports.
impl Iterator for ReportGenerator {
    type Item = Vec<LogRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.made >= self.reports {
            return None;
        }
        let share = i128::from(self.span.days * DAY_MS) * i128::from(self.made) / i128::from(self.reports);
        let at_ms = self.span.begin_ms + i64::try_from(share).unwrap_or(0);
        let mut records: Vec<LogRecord> = Vec::new();
        let mut events = 0;
        while events < RECORD {
            for (org, event) in self.event(at_ms) {
                events += 1;
                match records.iter_mut().find(|record| record.org == org) {
                    Some(record) => record.events.push(event),
                    None => records.push(LogRecord {
                        v: RECORD_VERSION,
                        org,
                        is_owners: false,
                        received_at_us: (at_ms + 200) * 1_000,
                        kind: RecordKind::Events,
                        drain: None,
                        session: None,
                        named_sessions: Vec::new(),
                        events: vec![event],
                        failed_fetches: Vec::new(),
                        signature: None,
                    }),
                }
            }
        }
        self.made += events as u64;
        Some(records)
    }
}
