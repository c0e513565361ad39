//! A month of claims and server reports with planted differences. The expected findings follow from the plan alone.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Operator, name and user agent. The bot table doesn't contain the last one.
pub(super) const AGENTS: [(&str, &str, &str); 4] = [
    ("OpenAI", "ChatGPT-User/1.0", "Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)"),
    ("Anthropic", "ClaudeBot", "Mozilla/5.0 (compatible; ClaudeBot/1.0; +claudebot@anthropic.com)"),
    ("Perplexity", "PerplexityBot/1.0", "Mozilla/5.0 (compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)"),
    ("", "reader", "reader"),
];
const UNKNOWN: usize = 3;
const PERSON: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0";
/// Hosts by verified domain.
pub(super) const DOMAINS: [&str; 2] = ["paper.example", "shop.example"];
const HOSTS: [&[&str]; 2] = [&["www.paper.example", "blog.paper.example"], &["shop.example"]];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sender {
    Agent(usize),
    /// The agent's key, with a signature that isn't valid.
    Forger(usize),
    Owner,
    Partner,
    /// An agent of the partner.
    PartnersAgent,
    Stranger,
    StrangersLog,
    PartnersLog,
    /// A drain of the first domain alone.
    PaperDrain,
    /// A drain of both domains.
    SharedDrain,
}

#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) url: String,
    pub(super) operator: &'static str,
    pub(super) finding: &'static str,
    /// All reports of the fetch are in this hour.
    pub(super) at: DateTime<Utc>,
}

/// An hour of a host.
#[derive(Clone, Copy)]
struct Slot {
    host: &'static str,
    begin: DateTime<Utc>,
    /// Whether the servers log correlation ids on this day.
    logs_ids: bool,
    /// Whether the servers of all hosts of the domain log ids.
    all_log_ids: bool,
    /// Whether agents claim no fetch with an id that a server saw on this day.
    is_unclaimed: bool,
    /// Whether the servers of all hosts of the domain report.
    is_busy: bool,
    is_covered: bool,
}

#[derive(Clone)]
struct Fetch {
    host: &'static str,
    path: String,
    id: Option<String>,
    at: DateTime<Utc>,
}

impl Fetch {
    fn url(&self) -> String {
        format!("https://{}{}", self.host, self.path)
    }
}

pub(super) struct Month {
    /// Events of each sender, or lines of a drain.
    pub(super) reports: BTreeMap<Sender, Vec<Value>>,
    pub(super) expected: Vec<Expected>,
    random: StdRng,
    number: u64,
}

impl Month {
    /// Plans 30 days from `begin`.
    pub(super) fn plan(random: StdRng, begin: DateTime<Utc>) -> Self {
        let mut month = Self { reports: BTreeMap::new(), expected: Vec::new(), random, number: 0 };
        for day in 0..30 {
            for hosts in HOSTS {
                // Whether the servers log ids, and whether agents claim nothing that a server saw with one.
                let days: Vec<[bool; 2]> =
                    hosts.iter().map(|_| [0.8, 0.2].map(|share| month.random.random_bool(share))).collect();
                let hours: Vec<i64> = (0..24).filter(|hour| *hour == 12 || month.random.random_bool(0.3)).collect();
                for hour in hours {
                    let begin = begin + TimeDelta::days(day) + TimeDelta::hours(hour);
                    let slot = |(host, [logs_ids, is_unclaimed]): (&&'static str, &[bool; 2])| Slot {
                        host,
                        begin,
                        logs_ids: *logs_ids,
                        all_log_ids: days.iter().all(|[logs_ids, _]| *logs_ids),
                        is_unclaimed: *is_unclaimed,
                        is_busy: hour == 12,
                        is_covered: false,
                    };
                    let slots: Vec<Slot> = hosts.iter().zip(&days).map(slot).collect();
                    month.plan_hour(&slots);
                }
            }
        }
        month
    }

    /// Plans the same hour of all hosts of a domain. In a busy one, the servers of all hosts report.
    fn plan_hour(&mut self, slots: &[Slot]) {
        let is_busy = slots[0].is_busy;
        let reporting = self.random.random_range(0..slots.len() + 2);
        let only_visitors = !is_busy && reporting == slots.len();
        let is_paper = slots[0].host.ends_with(DOMAINS[0]);
        if only_visitors {
            // The shared drain serves both domains, so a person's line could be for either host.
            let drain = if is_paper { Sender::PaperDrain } else { Sender::SharedDrain };
            let fetch = self.fetch(&slots[0]);
            self.line(drain, &fetch, PERSON, 200);
        }
        for (nth, slot) in slots.iter().enumerate() {
            let is_reporting = is_busy || reporting == nth;
            let slot = Slot { is_covered: is_reporting || (only_visitors && is_paper), ..*slot };
            if is_reporting {
                self.plan_sign_of_life(&slot);
            }
            for _ in 0..self.random.random_range(1..4) {
                if is_reporting { self.plan_seen(&slot) } else { self.plan_claim_only(&slot) }
            }
        }
    }

    /// Plans what shows that the host's servers report in this hour; in a busy one, also whether they log ids.
    fn plan_sign_of_life(&mut self, slot: &Slot) {
        let (fetch, agent) = (self.fetch(slot), self.random.random_range(0..UNKNOWN));
        if !slot.is_busy && self.random.random_bool(0.3) {
            return self.line(Sender::SharedDrain, &fetch, AGENTS[agent].2, 404);
        }
        self.seen(&Fetch { id: fetch.id.clone().filter(|_| slot.logs_ids), ..fetch.clone() }, agent, 200);
        let is_claimed = slot.logs_ids && !slot.is_unclaimed;
        if is_claimed {
            self.claim(&fetch, agent);
        }
        self.expect(&fetch, agent, if is_claimed { "matched" } else { "missing" });
    }

    /// Plans a fetch in an hour in which the host's servers report.
    fn plan_seen(&mut self, slot: &Slot) {
        match (slot.logs_ids, slot.is_unclaimed) {
            (false, _) => self.plan_without_ids(slot),
            (true, true) => self.plan_unclaimed(slot),
            (true, false) => match self.random.random_range(0..4) {
                0 => self.plan_without_ids(slot),
                1 => self.plan_unclaimed(slot),
                _ => self.plan_claimed(slot),
            },
        }
    }

    /// Plans fetches whose reports by servers have no ids, and log lines without content.
    fn plan_without_ids(&mut self, slot: &Slot) {
        let (fetch, agent) = (self.fetch(slot), self.random.random_range(0..UNKNOWN));
        let unmatched = if slot.logs_ids { "extra" } else { "no_coverage" };
        let near = Fetch { at: fetch.at + TimeDelta::milliseconds(self.skew()), ..fetch.clone() };
        let other_path = Fetch { path: format!("{}/other", fetch.path), ..near.clone() };
        let far = Fetch { at: fetch.at + TimeDelta::milliseconds(self.far_skew().clamp(-3_999, 3_999)), ..fetch.clone() };
        let other_host = HOSTS[0].iter().find(|host| **host != slot.host && slot.is_busy && HOSTS[0].contains(&slot.host));
        let other_host =
            Fetch { host: other_host.unwrap_or(&slot.host), ..if other_host.is_some() { near.clone() } else { far.clone() } };
        let (log, of_other) = (Sender::SharedDrain, AGENTS[(agent + 1) % UNKNOWN].2);
        let (by, line, user_agent, status, finding) = match self.random.random_range(0..10) {
            0 => return self.plan_claim_only(slot),
            1 => {
                // Without the header of the id.
                self.seen(&Fetch { id: None, ..fetch.clone() }, agent, 200);
                return self.expect(&fetch, agent, "missing");
            }
            2 => (log, near, AGENTS[agent].2, 304, "matched"),
            3 => (log, near, AGENTS[agent].2, 403, "content_mismatch"),
            4 => (log, other_path, AGENTS[agent].2, 403, unmatched),
            5 => (log, far, AGENTS[agent].2, 304, unmatched),
            6 => (log, other_host, AGENTS[agent].2, 403, unmatched),
            7 => (log, near, of_other, 403, unmatched),
            8 => {
                // A server confirms no claim of its own organization.
                self.claim_by(Sender::PartnersAgent, &fetch);
                self.line(Sender::PartnersLog, &near, AGENTS[0].2, 304);
                return self.expect(&fetch, 0, unmatched);
            }
            _ => (Sender::StrangersLog, near, AGENTS[agent].2, 403, "content_mismatch"),
        };
        self.claim(&fetch, agent);
        self.line(by, &line, user_agent, status);
        self.expect(&fetch, agent, finding);
    }

    /// Plans fetches that a server saw with an id, but no agent claims.
    fn plan_unclaimed(&mut self, slot: &Slot) {
        let (fetch, agent) = (self.fetch(slot), self.random.random_range(0..UNKNOWN));
        match self.random.random_range(0..3) {
            0 => return self.plan_without_ids(slot),
            // Without content, nobody has to claim it.
            1 => {
                let status = *[304, 404].choose(&mut self.random).unwrap();
                return self.event(Sender::Owner, "origin", &fetch, agent, status);
            }
            _ => self.seen(&fetch, agent, 200),
        }
        self.expect(&fetch, agent, "missing");
    }

    /// Plans a fetch that an agent claims and a server saw, with the same id.
    fn plan_claimed(&mut self, slot: &Slot) {
        let (fetch, agent, skew) = (self.fetch(slot), self.random.random_range(0..UNKNOWN), self.skew());
        let later = |ms: i64| Fetch { at: fetch.at + TimeDelta::milliseconds(ms), ..fetch.clone() };
        let other_page = Fetch { path: format!("{}/other", fetch.path), ..later(skew) };
        match self.random.random_range(0..12) {
            kind @ (0 | 1) => {
                let (status, finding) = [(304, "matched"), (404, "content_mismatch")][kind];
                self.claim(&fetch, agent);
                self.event(Sender::Owner, "origin", &later(skew), agent, status);
                self.expect(&fetch, agent, finding);
            }
            2 => {
                let offset = self.far_skew();
                self.claim(&fetch, agent);
                self.seen(&later(offset), agent, 200);
                self.expect(&fetch, agent, "timestamp_mismatch");
            }
            3 => {
                self.claim(&fetch, agent);
                self.seen(&fetch, (agent + 1) % UNKNOWN, 200);
                self.expect(&fetch, agent, "identity_mismatch");
            }
            4 => {
                self.claim(&fetch, agent);
                self.seen(&other_page, agent, 200);
                self.expect(&fetch, agent, "content_mismatch");
                self.expect(&other_page, agent, "content_mismatch");
            }
            kind @ (5 | 6) => self.plan_repeated(&fetch, agent, kind == 5),
            7 => {
                // The operator is known from the bot alone.
                self.claim(&fetch, UNKNOWN);
                self.seen(&later(skew), agent, 200);
                self.expect(&fetch, agent, "matched");
            }
            8 => {
                self.claim_by(Sender::Forger(agent), &fetch);
                self.seen(&later(skew), (agent + 1) % UNKNOWN, 200);
                self.expect(&fetch, agent, "signature_unverified");
            }
            9 => {
                // A server confirms no claim of its own organization.
                self.claim_by(Sender::PartnersAgent, &fetch);
                self.event(Sender::Partner, "edge", &later(skew), 0, 200);
                self.expect(&fetch, 0, "extra");
            }
            10 if slot.is_busy && slot.all_log_ids && slot.host == HOSTS[0][0] => {
                // Another host is another fetch, even with the same id.
                let elsewhere = Fetch { host: HOSTS[0][1], ..other_page };
                self.claim(&fetch, agent);
                self.event(Sender::Owner, "origin", &elsewhere, agent, 200);
                self.expect(&fetch, agent, "extra");
                self.expect(&elsewhere, agent, "missing");
            }
            _ => {
                self.claim(&fetch, agent);
                self.event(Sender::Owner, "origin", &later(skew), agent, 200);
                self.event(Sender::Partner, "edge", &later(90_000), agent, 200);
                self.expect(&fetch, agent, "matched");
            }
        }
    }

    /// Plans a fetch that the agent or a server reports twice, and a server's report of another page with the same id.
    fn plan_repeated(&mut self, fetch: &Fetch, agent: usize, is_agents: bool) {
        let again = Fetch { at: fetch.at + TimeDelta::milliseconds(self.skew() / 2), ..fetch.clone() };
        let other_page = Fetch { path: format!("{}/other", fetch.path), ..again.clone() };
        self.claim(fetch, agent);
        self.event(Sender::Partner, "edge", fetch, agent, 200);
        if is_agents {
            self.claim(&again, agent);
            self.event(Sender::Owner, "origin", &other_page, agent, 200);
        } else {
            self.event(Sender::Partner, "edge", &again, agent, 200);
            self.claim(&other_page, agent);
        }
        self.expect(fetch, agent, "matched");
        self.expect(fetch, agent, "duplicate_report");
        self.expect(&other_page, agent, if is_agents { "missing" } else { "extra" });
    }

    /// Returns a difference of times that doesn't matter, in milliseconds.
    fn skew(&mut self) -> i64 {
        let near = self.random.random_range(-2_000..=2_000);
        *[2_000, near, -2_000].choose(&mut self.random).unwrap()
    }

    /// Returns a difference of times that matters.
    fn far_skew(&mut self) -> i64 {
        let far = self.random.random_range(2_001..60_000);
        *[2_001, far, -2_001, -far].choose(&mut self.random).unwrap()
    }

    /// Plans a fetch that no server of the owner saw, but perhaps one of a stranger, who covers no hour.
    fn plan_claim_only(&mut self, slot: &Slot) {
        let fetch = self.fetch(slot);
        let agent = self.random.random_range(0..UNKNOWN);
        let unseen = if slot.is_covered && slot.logs_ids { "extra" } else { "no_coverage" };
        let (mut claimed, mut seen) = (Some(unseen), None);
        match self.random.random_range(0..5) {
            0 => (claimed, seen) = (None, Some((Sender::Stranger, "missing"))),
            1 if fetch.id.is_some() => (claimed, seen) = (Some("matched"), Some((Sender::Stranger, ""))),
            1 => seen = Some((Sender::Stranger, "missing")),
            // Without an id, nothing shows that it is the agent's own claim.
            2 => seen = Some((Sender::Agent(agent), if fetch.id.is_some() { "" } else { "missing" })),
            3 => {
                let other = Fetch { path: format!("{}/other", fetch.path), ..fetch.clone() };
                self.line(Sender::StrangersLog, &other, AGENTS[agent].2, 404);
                self.claim(&fetch, UNKNOWN);
                return self.expect(&fetch, UNKNOWN, unseen);
            }
            _ => {}
        }
        if let Some(finding) = claimed {
            self.claim(&fetch, agent);
            self.expect(&fetch, agent, finding);
        }
        if let Some((by, finding)) = seen {
            self.event(by, "edge", &fetch, agent, 200);
            if !finding.is_empty() {
                self.expect(&fetch, agent, finding);
            }
        }
    }

    fn fetch(&mut self, slot: &Slot) -> Fetch {
        self.number += 1;
        let second_ms = self.random.random_range(5 * 60_000..55 * 60_000);
        let id = slot.logs_ids || self.random.random_bool(0.5);
        Fetch {
            host: slot.host,
            path: format!("/page/{}", self.number),
            id: id.then(|| Uuid::from_u64_pair(7, self.random.random()).to_string()),
            at: slot.begin + TimeDelta::milliseconds(second_ms),
        }
    }

    fn expect(&mut self, fetch: &Fetch, agent: usize, finding: &'static str) {
        self.expected.push(Expected { url: fetch.url(), operator: AGENTS[agent].0, finding, at: fetch.at });
    }

    /// Reports the fetch by a random server.
    fn seen(&mut self, fetch: &Fetch, agent: usize, status: u16) {
        match self.random.random_range(0..3) {
            0 => self.event(Sender::Owner, "origin", fetch, agent, status),
            1 => self.event(Sender::Partner, "edge", fetch, agent, status),
            _ => self.line(Sender::SharedDrain, fetch, AGENTS[agent].2, status),
        }
    }

    fn claim(&mut self, fetch: &Fetch, agent: usize) {
        self.claim_by(Sender::Agent(agent), fetch);
    }

    fn claim_by(&mut self, sender: Sender, fetch: &Fetch) {
        let event = self.reported("agent", fetch);
        self.reports.entry(sender).or_default().push(event);
    }

    fn event(&mut self, by: Sender, role: &str, fetch: &Fetch, agent: usize, status: u16) {
        let mut event = self.reported(role, fetch);
        event["data"] = json!({"user_agent": AGENTS[agent].2, "response_status": status});
        self.reports.entry(by).or_default().push(event);
    }

    fn reported(&mut self, role: &str, fetch: &Fetch) -> Value {
        let at = fetch.at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut event = json!({"type": "content_retrieved", "timestamp": at, "source_role": role, "content_url": fetch.url(),
            "id": format!("e{}", self.random.random::<u64>())});
        if let Some(id) = &fetch.id {
            event["content_telemetry_id"] = id.as_str().into();
        }
        event
    }

    fn line(&mut self, drain: Sender, fetch: &Fetch, user_agent: &str, status: u16) {
        let at = fetch.at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let line = json!({"timestamp": at, "host": fetch.host, "url": fetch.path, "request_method": "GET",
            "request_user_agent": user_agent, "response_status": status, "response_body_size": 10,
            "content_telemetry_id": fetch.id.as_deref().unwrap_or_default()});
        self.reports.entry(drain).or_default().push(line);
    }
}
