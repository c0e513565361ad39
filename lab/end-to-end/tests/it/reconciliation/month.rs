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
    Stranger,
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
                let logs_ids: Vec<bool> = hosts.iter().map(|_| month.random.random_bool(0.8)).collect();
                let hours: Vec<i64> = (0..24).filter(|hour| *hour == 12 || month.random.random_bool(0.15)).collect();
                for hour in hours {
                    let begin = begin + TimeDelta::days(day) + TimeDelta::hours(hour);
                    let slot =
                        |(host, logs_ids): (&&'static str, &bool)| Slot { host, begin, logs_ids: *logs_ids, is_covered: false };
                    let slots: Vec<Slot> = hosts.iter().zip(&logs_ids).map(slot).collect();
                    month.plan_hour(&slots, hour == 12);
                }
            }
        }
        month
    }

    /// Plans the same hour of all hosts of a domain. In a busy one, the servers of all hosts report.
    fn plan_hour(&mut self, slots: &[Slot], is_busy: bool) {
        let reporting = self.random.random_range(0..slots.len() + 2);
        let only_visitors = !is_busy && reporting == slots.len();
        let is_paper = slots[0].host.ends_with(DOMAINS[0]);
        if only_visitors {
            // The lines of the shared drain could be of any host.
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

    /// Plans what shows that the host's servers report in this hour, and whether they log ids.
    fn plan_sign_of_life(&mut self, slot: &Slot) {
        let (fetch, agent) = (self.fetch(slot), self.random.random_range(0..UNKNOWN));
        self.seen(&Fetch { id: fetch.id.clone().filter(|_| slot.logs_ids), ..fetch.clone() }, agent, 200);
        if slot.logs_ids {
            self.claim(&fetch, agent);
        }
        self.expect(&fetch, agent, if slot.logs_ids { "matched" } else { "missing" });
    }

    /// Plans a fetch in an hour in which the host's servers report.
    fn plan_seen(&mut self, slot: &Slot) {
        let kind = self.random.random_range(0..if slot.logs_ids { 15 } else { 4 });
        let (fetch, agent) = (self.fetch(slot), self.random.random_range(0..UNKNOWN));
        let later = |ms: i64| Fetch { at: fetch.at + TimeDelta::milliseconds(ms), ..fetch.clone() };
        let skew: i64 = self.random.random_range(-2_000..=2_000);
        match kind {
            0 => self.plan_claim_only(slot),
            1 => {
                // Without the header of the id.
                self.seen(&Fetch { id: None, ..fetch.clone() }, agent, 200);
                self.expect(&fetch, agent, "missing");
            }
            2 | 3 => {
                let (status, finding) = [(304, "matched"), (403, "content_mismatch")][kind - 2];
                self.claim(&fetch, agent);
                self.line(Sender::SharedDrain, &later(skew), AGENTS[agent].2, status);
                self.expect(&fetch, agent, finding);
            }
            4 => {
                self.seen(&fetch, agent, 200);
                self.expect(&fetch, agent, "missing");
            }
            5 | 6 => {
                let (status, finding) = [(304, "matched"), (404, "content_mismatch")][kind - 5];
                self.claim(&fetch, agent);
                self.event(Sender::Owner, "origin", &later(skew), agent, status);
                self.expect(&fetch, agent, finding);
            }
            7 => {
                let offset = self.random.random_range(2_001..60_000) * [-1, 1].choose(&mut self.random).unwrap();
                self.claim(&fetch, agent);
                self.seen(&later(offset), agent, 200);
                self.expect(&fetch, agent, "timestamp_mismatch");
            }
            8 => {
                self.claim(&fetch, agent);
                self.seen(&fetch, (agent + 1) % UNKNOWN, 200);
                self.expect(&fetch, agent, "identity_mismatch");
            }
            9 => {
                let other = Fetch { path: format!("{}/other", fetch.path), ..later(skew) };
                self.claim(&fetch, agent);
                self.seen(&other, agent, 200);
                self.expect(&fetch, agent, "content_mismatch");
                self.expect(&other, agent, "content_mismatch");
            }
            10 | 11 => {
                // One side reports the fetch twice.
                let again = later(skew / 2);
                self.claim(&fetch, agent);
                self.event(Sender::Partner, "edge", &fetch, agent, 200);
                if kind == 10 {
                    self.claim(&again, agent)
                } else {
                    self.event(Sender::Partner, "edge", &again, agent, 200)
                }
                self.expect(&fetch, agent, "matched");
                self.expect(&fetch, agent, "duplicate_report");
            }
            12 => {
                // The operator is known from the bot alone.
                self.claim(&fetch, UNKNOWN);
                self.seen(&later(skew), agent, 200);
                self.expect(&fetch, agent, "matched");
            }
            13 => {
                let event = self.reported("agent", &fetch);
                self.reports.entry(Sender::Forger(agent)).or_default().push(event);
                self.seen(&later(skew), (agent + skew.unsigned_abs() as usize) % UNKNOWN, 200);
                self.expect(&fetch, agent, "signature_unverified");
            }
            _ => {
                self.claim(&fetch, agent);
                self.event(Sender::Owner, "origin", &later(skew), agent, 200);
                self.event(Sender::Partner, "edge", &later(90_000), agent, 200);
                self.expect(&fetch, agent, "matched");
            }
        }
    }

    /// Plans a claim that no server of the owner confirms, or a fetch that only a stranger saw.
    fn plan_claim_only(&mut self, slot: &Slot) {
        let fetch = self.fetch(slot);
        let agent = self.random.random_range(0..AGENTS.len());
        let finding = if slot.is_covered && slot.logs_ids { "extra" } else { "no_coverage" };
        match self.random.random_range(0..4) {
            0 => self.event(Sender::Stranger, "edge", &fetch, agent, 200),
            1 => {
                let by = *[Sender::Stranger, Sender::Agent(agent)].choose(&mut self.random).unwrap();
                self.claim(&fetch, agent);
                self.event(by, "edge", &fetch, if by == Sender::Stranger { agent } else { UNKNOWN }, 200);
                self.expect(&fetch, agent, finding);
            }
            _ => {
                self.claim(&fetch, agent);
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
        let event = self.reported("agent", fetch);
        self.reports.entry(Sender::Agent(agent)).or_default().push(event);
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
