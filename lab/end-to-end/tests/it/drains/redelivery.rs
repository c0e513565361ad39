//! D3: reads return the same if a log is sent twice, reordered, truncated at any byte and sent again, sent by overlapping jobs, or imported
//! as a file.
//!
//! `TEST_ROUNDS` sets the number of logs. Each log has its own day and format.

use super::logs::correlation_id;
use super::{BOTS, drain_key, import, request, send_log, send_part_and_disconnect};
use crate::demo::{Demo, DemoApp, caught_up, retrieval};
use chrono::{DateTime, TimeDelta, Utc};
use loadgen::log_lines::{Format, Request};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use service_kit::testing::{random_seed, size};
use std::collections::BTreeMap;

const PERSON: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0";
const READS: [&str; 8] = [
    "summary?",
    "urls?limit=1000&",
    "series?by=hour&split=bot&",
    "series?by=day&split=status&",
    "series?by=day&split=outcome&",
    "crawlers?limit=1000&",
    "events?limit=1000&",
    "corroboration?limit=1000&",
];

/// A day's log, and the counts that it must lead to.
struct Log {
    format: Format,
    begin: DateTime<Utc>,
    lines: Vec<String>,
    kept: usize,
    /// Number of bots' requests that returned no content.
    refused: usize,
    /// Correlation ids and paths of the fetches that an agent claims.
    claims: Vec<(String, String)>,
}

impl Log {
    /// Returns a log of requests by bots and people. Some lines have a correlation id, some requests were rejected, and some lines have no
    /// request id.
    fn random(random: &mut StdRng, nth: usize) -> Self {
        let begin = DateTime::from_timestamp(1_704_067_200, 0).unwrap() + TimeDelta::days(i64::try_from(nth % 700).unwrap());
        let format = *Format::ALL.choose(random).unwrap();
        let (mut lines, mut kept, mut refused, mut claims) = (Vec::new(), 0, 0, Vec::new());
        for n in 0..random.random_range(20..150) {
            // Logs of the same provider contain different requests.
            let mut request = Request { id: format!("request-{nth}-{n}"), ..request(begin, n * 500) };
            if random.random_bool(0.4) {
                PERSON.clone_into(&mut request.user_agent);
            }
            if random.random_bool(0.1) {
                request.status = 403;
            }
            if random.random_bool(0.3) {
                request.id.clear();
            }
            if random.random_bool(0.3) && format.logs_telemetry_id() {
                request.telemetry_id = correlation_id(nth, n as u64);
            }
            let is_bots = BOTS.contains(&request.user_agent.as_str());
            let is_kept = is_bots && request.status == 200;
            kept += usize::from(is_kept);
            refused += usize::from(is_bots && !is_kept);
            if is_kept && !request.telemetry_id.is_empty() && random.random_bool(0.5) {
                claims.push((request.telemetry_id.clone(), request.path.clone()));
            }
            lines.push(format.line(&request));
        }
        Self { format, begin, lines, kept, refused, claims }
    }

    fn body(&self, lines: &[String]) -> String {
        self.format.body(lines)
    }

    fn whole(&self) -> String {
        self.body(&self.lines)
    }
}

/// A log that is sent to a service.
struct LogDelivery<'a> {
    demo: &'a DemoApp,
    log: Log,
    /// The keys of the drain and of its owner.
    keys: [String; 2],
    trace: String,
}

impl LogDelivery<'_> {
    async fn deliver(&self, random: &mut StdRng, body: &str) {
        let key = self.keys.choose(random).unwrap();
        let taken = send_log(self.demo, self.log.format, key, body, random.random_bool(0.5)).await;
        assert_eq!(taken.status, 200, "{}: {}", self.trace, taken.body);
    }

    /// Sends the log as two overlapping parts, each shuffled.
    async fn deliver_overlapping(&self, random: &mut StdRng) {
        let (one, other) = (random.random_range(0..=self.log.lines.len()), random.random_range(0..=self.log.lines.len()));
        for part in [&self.log.lines[..one.max(other)], &self.log.lines[one.min(other)..]] {
            let mut part = part.to_vec();
            part.shuffle(random);
            self.deliver(random, &self.log.body(&part)).await;
        }
    }

    fn deliver_half(&self, random: &mut StdRng) {
        let key = self.keys.choose(random).unwrap();
        send_part_and_disconnect(self.demo, random, self.log.format, key, &self.log.whole());
    }

    async fn import(&self, random: &mut StdRng) {
        let key = self.keys.choose(random).unwrap();
        import(self.demo, random, self.log.format, key, &self.log.lines, &self.trace).await;
    }

    /// Returns the responses of all reads for the day, once everything acknowledged is counted.
    async fn reads(&self) -> Vec<Value> {
        caught_up(self.demo, self.demo).await;
        let day = |at: DateTime<Utc>| at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let window = format!("since={}&until={}", day(self.log.begin), day(self.log.begin + TimeDelta::days(1)));
        let mut said = Vec::new();
        for read in READS {
            let answer = self.demo.get(self.demo.env("OWNER_KEY"), &format!("/content-owners/{read}{window}")).await;
            assert_eq!(answer.status, 200, "{}: {read}: {}", self.trace, answer.body);
            said.push(answer.body);
        }
        said
    }

    /// Checks the reads against the generated log.
    fn check_reads(&self, reads: &[Value]) {
        let [summary, urls, by_bot, _, outcomes, crawlers, events, _] = reads else {
            panic!("{}: {} reads", self.trace, reads.len())
        };
        let (kept, refused) = (self.log.kept as u64, self.log.refused as u64);
        let sum = |items: &Value, member: &str| {
            items.as_array().unwrap().iter().map(|item| item[member].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(summary["total_events"], kept, "{}: {summary}", self.trace);
        // Each request has its own URL. URLs include those with only failed fetches.
        assert_eq!((&urls["total"], &events["total"]), (&(kept + refused).into(), &kept.into()), "{}", self.trace);
        assert_eq!((sum(&urls["items"], "fetched"), sum(&urls["items"], "failed")), (kept, refused), "{}: {urls}", self.trace);
        assert_eq!(sum(&by_bot["items"], "total_events"), kept, "{}: {by_bot}", self.trace);
        assert_eq!(sum(&crawlers["items"], "retrievals"), kept, "{}: {crawlers}", self.trace);
        assert_eq!(sum(&crawlers["refused"], "count"), refused, "{}: {crawlers}", self.trace);
        let failed = outcomes["items"].as_array().unwrap().iter().filter(|item| item["outcome"] == "failed");
        assert_eq!(failed.map(|item| item["total_events"].as_u64().unwrap()).sum::<u64>(), refused, "{}: {outcomes}", self.trace);
        assert_eq!(sum(&crawlers["items"], "corroborated"), self.log.claims.len() as u64, "{}: {crawlers}", self.trace);
    }
}

async fn claim(demo: &DemoApp, log: &Log) {
    let at = (log.begin + TimeDelta::hours(1)).to_rfc3339();
    for (id, path) in &log.claims {
        let mut claim = retrieval("agent", id);
        claim["events"][0]["timestamp"] = at.as_str().into();
        claim["events"][0]["content_url"] = format!("https://www.example.com{path}").into();
        let taken = demo.report(demo.env("AGENT_KEY"), &claim).await;
        assert_eq!(taken.status, 201, "{}", taken.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_redelivered_logs_do_not_change_reads() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let demo = Demo::start().await;
    let mut drains: BTreeMap<&str, String> = BTreeMap::new();
    for nth in 0..size("TEST_ROUNDS", 2) {
        let log = Log::random(&mut random, nth);
        let trace = format!("seed {seed}, log {nth}, {}", log.format.name());
        claim(&demo, &log).await;
        if !drains.contains_key(log.format.name()) {
            drains.insert(log.format.name(), drain_key(&demo, log.format).await);
        }
        let keys = [drains[log.format.name()].clone(), demo.env("OWNER_KEY").to_owned()];
        let course = LogDelivery { demo: &demo, log, keys, trace };
        // Send incomplete bodies first, while the service doesn't know the log yet.
        (0..3).for_each(|_| course.deliver_half(&mut random));
        course.deliver_overlapping(&mut random).await;
        let whole = course.log.whole();
        for key in &course.keys {
            assert_eq!(send_log(&demo, course.log.format, key, &whole, false).await.status, 200, "{}", course.trace);
        }
        let before = course.reads().await;
        course.check_reads(&before);
        for _ in 0..3 {
            course.deliver(&mut random, &whole).await;
        }
        assert_eq!(course.reads().await, before, "repeated bodies: {}", course.trace);
        for _ in 0..6 {
            match random.random_range(0..4) {
                0 => course.deliver_half(&mut random),
                1 => course.import(&mut random).await,
                2 => course.deliver(&mut random, &whole).await,
                _ => course.deliver_overlapping(&mut random).await,
            }
        }
        course.import(&mut random).await;
        assert_eq!(course.reads().await, before, "{}", course.trace);
    }
}
