//! S1 for CDN logs: random histories of an edge log and an origin log of the same requests, with agents' claims and edge events that share
//! their correlation ids. Bodies are repeated, cut off and sent again, reordered, sent by overlapping jobs with the drain's or the owner's
//! key, and imported as a file. Summary, series, crawlers and coverage must equal the model.
//!
//! `TEST_ROUNDS` sets the number of histories. A body that was cut off is never the first accepted report of its observations while another
//! report is in flight, because the order is determined by the responses.

use super::logs::{Log, requests};
use super::model::{BOTS, Model, Org, Report, Role, Window, agent_name};
use super::{drain_key, import, send_log, send_part_and_disconnect};
use crate::demo::{Demo, DemoApp, caught_up};
use chrono::{DateTime, DurationRound, SecondsFormat, TimeDelta, Utc};
use loadgen::log_lines::Request;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{random_seed, size};
use std::collections::{BTreeMap, BTreeSet};

const SESSIONS: [&str; 2] = ["67e55044-10b1-426f-9247-bb680e5fe0c8", "67e55044-10b1-426f-9247-bb680e5fe0c9"];
const SPLITS: [&str; 8] = ["none", "role", "operator", "bot", "purpose", "verified", "status", "outcome"];

/// Returns a random report of a request, and its body.
fn posted(random: &mut StdRng, request: &Request) -> (Report, Value) {
    let Request { path, telemetry_id, .. } = request;
    // With a correlation id, an event reported by the owner would be the second report of the observer that sends log lines with the
    // owner's key.
    let orgs: &[Org] =
        if telemetry_id.is_empty() { &[Org::Owner, Org::Network, Org::Agent] } else { &[Org::Network, Org::Agent] };
    let org = *orgs.choose(random).unwrap();
    let id = format!("{org:?} {} {path}", request.at.timestamp());
    let at = request.at + TimeDelta::minutes(random.random_range(-90..90));
    let spelled = ["https://www.example.com{}", "http://example.com{}/?utm_source=a", "https://www.example.com{}#part"];
    let mut event = json!({"type": "content_retrieved", "timestamp": at.to_rfc3339_opts(SecondsFormat::Secs, true), "id": id,
        "content_url": spelled.choose(random).unwrap().replace("{}", path)});
    if !telemetry_id.is_empty() {
        event["content_telemetry_id"] = telemetry_id.as_str().into();
    }
    let role = if org == Org::Agent { Role::Agent } else { Role::Edge };
    event["source_role"] = role.name().into();
    let key = if telemetry_id.is_empty() { id } else { format!("{telemetry_id} {path}") };
    let mut report = Report { key, org, role, at, bot: None, status: 0, bytes: 0, session: None };
    if role == Role::Agent {
        let session = random.random_range(0..SESSIONS.len());
        report.session = Some(session);
        return (report, json!({"agent_id": agent_name(session), "session_id": SESSIONS[session], "events": [event]}));
    }
    let mut data = json!({});
    if random.random_bool(0.7) {
        let (bot, verified) = (random.random_range(0..BOTS.len()), *[None, Some(false), Some(true)].choose(random).unwrap());
        data["user_agent"] = BOTS[bot].user_agent.into();
        if verified.is_some() {
            data["verified"] = verified.into();
        }
        report.bot = Some((bot, verified));
    }
    if random.random_bool(0.7) {
        (report.status, report.bytes) = (*[200, 206, 404].choose(random).unwrap(), random.random_range(1..9_999));
        data["response_status"] = report.status.into();
        data["response_bytes"] = report.bytes.into();
    }
    event["data"] = data;
    (report, json!({"events": [event]}))
}

struct History<'a> {
    demo: &'a DemoApp,
    model: Model,
    begin: DateTime<Utc>,
    trace: String,
}

impl History<'_> {
    /// Posts reports of some requests, and repeats a few of them.
    async fn post_some(&mut self, random: &mut StdRng, made: &[Request]) {
        for request in made {
            if !random.random_bool(0.4) {
                continue;
            }
            let (report, body) = posted(random, request);
            let key = self.demo.env(match report.org {
                Org::Owner => "OWNER_KEY",
                Org::Network => "NETWORK_KEY",
                Org::Agent => "AGENT_KEY",
            });
            for _ in 0..random.random_range(1..3) {
                let taken = self.demo.report(key, &body).await;
                assert_eq!(taken.status, 201, "{}: {}", self.trace, taken.body);
            }
            self.model.reports.push(report);
        }
    }

    /// Sends these lines as one body, with a random key.
    async fn deliver(&mut self, random: &mut StdRng, log: &Log, keys: &[String; 2], of: &[usize]) {
        let (key, lines) = (random.random_range(0..keys.len()), log.lines(of));
        let taken = send_log(self.demo, log.format, &keys[key], &log.format.body(&lines), random.random_bool(0.5)).await;
        assert_eq!(taken.status, 200, "{}: {} {lines:?}", self.trace, taken.body);
        self.accepted(log, key, of, lines);
    }

    fn accepted(&mut self, log: &Log, key: usize, of: &[usize], lines: Vec<String>) {
        self.model.reports.extend(of.iter().filter_map(|n| log.report(*n)));
        // Empty bodies don't count.
        if !of.is_empty() {
            self.model.bodies.insert((log.format.provider(), key, lines), of.iter().map(|n| log.line(*n)).collect());
        }
    }

    async fn deliver_in_some_way(&mut self, random: &mut StdRng, log: &Log, keys: &[String; 2]) {
        let whole: Vec<usize> = (0..log.requests.len()).collect();
        match random.random_range(0..5) {
            0 => {
                let key = keys.choose(random).unwrap();
                send_part_and_disconnect(self.demo, random, log.format, key, &log.format.body(&log.lines(&whole)));
            }
            1 => {
                let key = random.random_range(0..keys.len());
                import(self.demo, random, log.format, &keys[key], &log.lines(&whole), &self.trace).await;
                self.accepted(log, key, &whole, log.lines(&whole));
            }
            2 => self.deliver(random, log, keys, &whole).await,
            _ => {
                let (one, other) = (random.random_range(0..=whole.len()), random.random_range(0..=whole.len()));
                for part in [&whole[..one.max(other)], &whole[one.min(other)..]] {
                    let mut part = part.to_vec();
                    part.shuffle(random);
                    self.deliver(random, log, keys, &part).await;
                }
            }
        }
    }

    /// Delivers the log in random ways, and finally the whole log.
    async fn deliver_all(&mut self, random: &mut StdRng, log: &Log, keys: &[String; 2]) {
        let whole: Vec<usize> = (0..log.requests.len()).collect();
        for _ in 0..random.random_range(0..3) {
            self.deliver_in_some_way(random, log, keys).await;
        }
        self.deliver(random, log, keys, &whole).await;
        for _ in 0..random.random_range(1..4) {
            self.deliver_in_some_way(random, log, keys).await;
        }
    }

    async fn get(&self, read: &str, window: Window, more: &str) -> Value {
        let text = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
        let domain = if window.is_narrowed { "&domain=example.com" } else { "" };
        let asked = format!("/content-owners/{read}?since={}&until={}{domain}{more}", text(window.since), text(window.until));
        let answer = self.demo.get(self.demo.env("OWNER_KEY"), &asked).await;
        assert_eq!(answer.status, 200, "{}: {asked}: {}", self.trace, answer.body);
        answer.body
    }

    /// Compares reads for the whole day, with all splits, and for a part of it.
    async fn compare_day(&self, random: &mut StdRng, compared: &mut Compared) {
        caught_up(self.demo, self.demo).await;
        let day = Window { since: self.begin, until: self.begin + TimeDelta::days(1), is_narrowed: false };
        self.compare_window(day, "hour", &SPLITS, compared).await;
        self.compare_part(random, compared).await;
    }

    /// Compares reads for a random part of the day, for the owner's domain or all domains, with some splits.
    async fn compare_part(&self, random: &mut StdRng, compared: &mut Compared) {
        caught_up(self.demo, self.demo).await;
        let mut minute = || self.begin + TimeDelta::minutes(random.random_range(-120..1_560));
        let (one, other) = (minute(), minute());
        let part = Window { since: one.min(other), until: one.max(other), is_narrowed: random.random_bool(0.5) };
        let by = if random.random_bool(0.5) { "hour" } else { "day" };
        let splits: Vec<&str> = SPLITS.sample(random, 3).copied().collect();
        self.compare_window(part, by, &splits, compared).await;
    }

    async fn compare_window(&self, window: Window, by: &str, splits: &[&str], compared: &mut Compared) {
        let same = |read: &str, found: &Value, expected: &Value| {
            for (member, expected) in expected.as_object().unwrap() {
                assert_eq!(&found[member], expected, "{}: {member} of {read}, {window:?}", self.trace);
            }
        };
        let summary = self.get("summary", window, "").await;
        same("summary", &summary, &self.model.summary(window, self.demo.env("AGENT_ORG_ID")));
        for split in splits {
            let items = self.model.series(window, by, split);
            let expected = json!({"total": items.len(), "items": items, "filled": true, "coverage": self.model.coverage(window)});
            let more = format!("&by={by}&split={split}");
            same(&more, &self.get("series", window, &more).await, &expected);
        }
        let crawlers = self.model.crawlers(window);
        same("crawlers", &self.get("crawlers", window, "&limit=1000").await, &crawlers);
        let coverage = self.model.coverage(window);
        same("coverage", &self.get("coverage", window, "").await, &json!({"coverage": coverage}));
        compared.add(&self.model, window, &crawlers, &coverage);
    }
}

/// Counts the compared items, to detect histories without data.
#[derive(Debug, Default)]
struct Compared {
    merged: usize,
    corroborated: usize,
    refused: u64,
    uncovered: u64,
    verified: BTreeSet<String>,
    bots: BTreeSet<String>,
}

impl Compared {
    fn add(&mut self, model: &Model, window: Window, crawlers: &Value, coverage: &Value) {
        self.merged += model.seen(window).iter().filter(|of| of.len() > 1).count();
        self.corroborated += model.corroborated(window);
        self.refused += model.refused(window).values().sum::<u64>();
        self.uncovered += coverage["hours_uncovered"].as_u64().unwrap();
        for item in crawlers["items"].as_array().unwrap() {
            self.verified.insert(item["verified"].to_string());
            self.bots.insert(item["bot"].to_string());
        }
    }

    fn is_enough(&self) -> bool {
        self.merged > 20
            && self.corroborated > 5
            && self.refused > 20
            && self.uncovered > 10
            && self.verified.len() == 3
            && self.bots.len() == BOTS.len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_reads_of_random_logs_equal_the_model() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut demo = Demo::start().await;
    let (mut compared, mut drains, rounds) = (Compared::default(), BTreeMap::<&str, String>::new(), size("TEST_ROUNDS", 2));
    for nth in 0.. {
        if nth >= rounds && compared.is_enough() {
            break;
        }
        assert!(nth < 10 * rounds, "too little was compared: {compared:?}, seed {seed}");
        // Histories are days apart, because reports are minutes before or after their requests. After 100 histories, continue in
        // fresh stores.
        if nth > 0 && nth % 100 == 0 {
            demo = Demo::start().await;
            drains.clear();
        }
        // Hours are stored for 400 days.
        let first = Clock::System.now().duration_trunc(TimeDelta::days(1)).unwrap() - TimeDelta::days(360);
        let begin = first + TimeDelta::days(3 * i64::try_from(nth % 100).unwrap());
        let made = requests(&mut random, begin, nth);
        let logs = [Log::of_edge(&mut random, &made), Log::of_origin(&mut random, &made)];
        let trace = format!("seed {seed}, history {nth}, {}", logs[0].format.name());
        let mut history = History { demo: &demo, model: Model::default(), begin, trace };
        history.post_some(&mut random, &made).await;
        for log in &logs {
            if !drains.contains_key(log.format.name()) {
                drains.insert(log.format.name(), drain_key(&demo, log.format).await);
            }
            let keys = [drains[log.format.name()].clone(), demo.env("OWNER_KEY").to_owned()];
            history.deliver_all(&mut random, log, &keys).await;
        }
        history.compare_part(&mut random, &mut compared).await;
        history.post_some(&mut random, &made).await;
        history.compare_day(&mut random, &mut compared).await;
    }
    println!("{compared:?}");
}
