//! Sends a CDN log during the load, in bodies that are repeated, cut at other lines, incomplete, or retried after a 503. The log's owner
//! has no other reports, and each line is a fetch of a different page.

use super::operation_log::OperationLog;
use super::requests::Requests;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::{fate, lock};
use crate::log_lines::{Format, Request};
use crate::oracle::Fate;
use crate::tenants::Tenant;
use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use schemas::summary_responses::Summary;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const PATH: &str = "/drains/ndjson";
const BOT: &str = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot";
const PERSON: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0";
/// Lines per body. The longest body is split into several records.
const LENGTHS: [u32; 5] = [5, 5, 40, 40, 900];
/// One in this many lines belongs to a person.
const PERSON_EVERY: u32 = 3;
const DEADLINE: Duration = Duration::from_secs(10);
const MOST_RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit after the faults until all acknowledged lines are readable.
const PATIENCE: Duration = Duration::from_secs(300);
const ROUND: Duration = Duration::from_secs(1);

/// An owner whose log is sent, and what has been sent so far.
#[derive(Debug)]
pub(super) struct CdnLog {
    tenant: Tenant,
    gateways: Vec<Endpoint>,
    query: Endpoint,
    begin: DateTime<Utc>,
    history: Arc<OperationLog>,
    pub(super) requests: Mutex<Requests>,
    ledger: Mutex<LineLedger>,
}

/// The lines that were sent, and what happened to them.
#[derive(Debug, Default)]
struct LineLedger {
    /// By line number: whether the line may be counted, and whether it must be.
    lines: Vec<(bool, bool)>,
    previous: u64,
    totals: LogTotals,
    /// The first violation of each rule.
    violations: BTreeMap<&'static str, String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct LogTotals {
    bodies: u64,
    halves: u64,
    repeats: u64,
    /// Number of bodies retried without ever getting a success response.
    again: u64,
    acked: u64,
    possible: u64,
    reads: u64,
    counted: u64,
}

impl fmt::Display for LogTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bodies, halves, repeats, again, acked, possible, reads, counted } = self;
        write!(
            f,
            "{bodies} bodies, {repeats} of them of lines that had been sent, {halves} that ended early, {again} sent again; "
        )?;
        write!(f, "{acked} lines acknowledged, {possible} possible, {counted} counted in the last of {reads} reads")
    }
}

impl LineLedger {
    fn sent(&mut self, lines: &Range<u32>) {
        if self.lines.len() < lines.end as usize {
            self.lines.resize(lines.end as usize, (false, false));
        }
        self.totals.bodies += 1;
        lines.clone().for_each(|number| self.lines[number as usize].0 = true);
    }

    fn acked(&mut self, lines: &Range<u32>) {
        lines.clone().for_each(|number| self.lines[number as usize].1 = true);
    }

    /// Returns the minimum and maximum number of bot lines that may be counted.
    fn bounds(&self) -> (u64, u64) {
        let of_bots = self.lines.iter().zip(0..).filter(|(_, number)| is_bots(*number));
        of_bots.fold((0, 0), |(acked, possible), ((may, must), _)| (acked + u64::from(*must), possible + u64::from(*may)))
    }

    fn report_violation(&mut self, rule: &'static str, what: String) {
        self.violations.entry(rule).or_insert(what);
    }

    fn check_count(&mut self, counted: u64) {
        let (_, possible) = self.bounds();
        if counted > possible {
            self.report_violation("too many", format!("{counted} lines are counted, at most {possible} are possible"));
        }
        if counted < self.previous {
            self.report_violation("fell", format!("{counted} lines are counted after {}", self.previous));
        }
        self.previous = counted;
        self.totals.reads += 1;
    }
}

fn is_bots(number: u32) -> bool {
    !number.is_multiple_of(PERSON_EVERY)
}

impl CdnLog {
    pub(super) fn new(
        tenant: &Tenant,
        gateways: &[Endpoint],
        query: &Endpoint,
        now: DateTime<Utc>,
        history: &Arc<OperationLog>,
    ) -> Arc<Self> {
        Arc::new(Self {
            tenant: tenant.clone(),
            gateways: gateways.to_vec(),
            query: query.clone(),
            begin: now - TimeDelta::hours(2),
            history: Arc::clone(history),
            requests: Mutex::default(),
            ledger: Mutex::default(),
        })
    }

    pub(super) async fn keep_sending(self: Arc<Self>, seed: u64, stop: CancellationToken) {
        let mut random = StdRng::seed_from_u64(seed ^ 0x10_65);
        let connect = |place: &Endpoint| Connection::new(place.clone(), DEADLINE);
        let mut connections: Vec<Connection> = self.gateways.iter().map(connect).collect();
        let mut next = 0;
        while !stop.is_cancelled() {
            let fresh = next..next + LENGTHS[random.random_range(0..LENGTHS.len())];
            match random.random_range(0..100_u8) {
                0..50 => {
                    next = fresh.end;
                    self.deliver(&mut connections, &mut random, &fresh).await;
                }
                // First an incomplete body, while all of its lines are new, then the complete one.
                50..65 => {
                    next = fresh.end;
                    self.deliver_half(&mut random, &fresh).await;
                    self.deliver(&mut connections, &mut random, &fresh).await;
                }
                _ if next == 0 => {}
                drawn => {
                    // The lines of one body, or of several bodies as two overlapping jobs send them.
                    let begin = random.random_range(0..next);
                    let end = next.min(begin + random.random_range(1..700));
                    lock(&self.ledger).totals.repeats += 1;
                    match drawn {
                        65..90 => self.deliver(&mut connections, &mut random, &(begin..end)).await,
                        _ => self.deliver_half(&mut random, &(begin..end)).await,
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends a body and retries until it is acknowledged or rejected.
    async fn deliver(&self, connections: &mut [Connection], random: &mut StdRng, lines: &Range<u32>) {
        let (body, kept) = (self.body(lines), lines.clone().filter(|number| is_bots(*number)).count() as u64);
        for attempt in 0..=MOST_RETRIES {
            let gateway = random.random_range(0..connections.len());
            lock(&self.ledger).sent(lines);
            let id = lock(&self.requests).begin_log(kept);
            let exchange = connections[gateway].post_gzip(PATH, &self.tenant.owner_key, &id, body.clone()).await;
            let fate = fate(&exchange);
            lock(&self.requests).record_fate(&id, fate);
            self.history.write_line(&format!("{}\tlog\t{lines:?}\t{fate:?}", gateway + 1));
            lock(&self.ledger).totals.again += u64::from(attempt > 0);
            match (fate, exchange) {
                (Fate::Acked, _) => return lock(&self.ledger).acked(lines),
                (Fate::Refused, Exchange::Responded(answer)) => {
                    let what = format!("a valid body was rejected with {}", answer.status);
                    return lock(&self.ledger).report_violation("refused", what);
                }
                _ => sleep(PAUSE).await,
            }
        }
    }

    /// Sends a random part of a body and closes the connection.
    async fn deliver_half(&self, random: &mut StdRng, lines: &Range<u32>) {
        let body = self.body(lines);
        let place = &self.gateways[random.random_range(0..self.gateways.len())];
        lock(&self.ledger).sent(lines);
        lock(&self.ledger).totals.halves += 1;
        let id = lock(&self.requests).begin_log(0);
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\nx-request-id: {id}\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
            place.address,
            self.tenant.owner_key.to_str().unwrap_or_default(),
            body.len()
        );
        let sent = async {
            let mut stream = TcpStream::connect(place.address).await?;
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body[..random.random_range(0..body.len())]).await?;
            stream.flush().await
        };
        // The request may fail while the gateway is down.
        let sent = tokio::time::timeout(DEADLINE, sent).await;
        self.history.write_line(&format!("\tlog\t{lines:?}\thalf, {sent:?}"));
    }

    fn body(&self, lines: &Range<u32>) -> Bytes {
        let lines: Vec<String> = lines.clone().map(|number| Format::Ndjson.line(&self.request(number))).collect();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(Format::Ndjson.body(&lines).as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default().into()
    }

    fn request(&self, number: u32) -> Request {
        Request {
            at: self.begin + TimeDelta::milliseconds(i64::from(number)),
            id: format!("line-{number}"),
            telemetry_id: String::new(),
            address: "203.0.113.9".to_owned(),
            user_agent: if is_bots(number) { BOT } else { PERSON }.to_owned(),
            host: self.host(),
            path: format!("/lines/{number}"),
            status: 200,
            bytes: 4_711,
            country: "de",
            cache: "hit",
        }
    }

    fn host(&self) -> String {
        format!("www.{}", self.tenant.domain)
    }

    pub(super) fn is_page(&self, content_url: &str) -> bool {
        let path = content_url.strip_prefix("https://").and_then(|rest| rest.strip_prefix(self.host().as_str()));
        let number = path.and_then(|path| path.strip_prefix("/lines/")?.parse::<u32>().ok());
        let ledger = lock(&self.ledger);
        number.is_some_and(|number| is_bots(number) && ledger.lines.get(number as usize).is_some_and(|(may, _)| *may))
    }

    pub(super) async fn keep_reading(self: Arc<Self>, stop: CancellationToken) {
        let mut connection = Connection::new(self.query.clone(), DEADLINE);
        while !stop.is_cancelled() {
            self.summary(&mut connection).await;
            sleep(ROUND).await;
        }
    }

    async fn summary(&self, connection: &mut Connection) -> Option<u64> {
        let body = self.get(connection, "/content-owners/summary").await?;
        let summary: Option<Summary> = serde_json::from_slice(&body).ok();
        let mut ledger = lock(&self.ledger);
        let own = summary.filter(|summary| {
            summary.domains == [self.tenant.domain.clone()] && Some(summary.organization_id) == self.tenant.owner
        });
        let Some(summary) = own else {
            ledger.report_violation("foreign", "the summary is another owner's".to_owned());
            return None;
        };
        ledger.check_count(summary.total_events);
        Some(summary.total_events)
    }

    async fn get(&self, connection: &mut Connection, path: &str) -> Option<Bytes> {
        match connection.get(path, &self.tenant.owner_key).await {
            Exchange::Responded(answer) if answer.status == 200 => Some(answer.body),
            _ => None,
        }
    }

    async fn json(&self, connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
        let body = self.get(connection, path).await.with_context(|| format!("{path} failed"))?;
        serde_json::from_slice(&body).with_context(|| format!("{path} returned invalid JSON"))
    }

    /// Waits until all acknowledged lines are readable, then compares the results of other reads. Returns the counts and the violations.
    pub(super) async fn wait_and_compare(&self) -> (LogTotals, Vec<String>) {
        let mut connection = Connection::new(self.query.clone(), DEADLINE);
        let begun = Instant::now();
        while self.summary(&mut connection).await.is_none_or(|counted| counted < lock(&self.ledger).bounds().0) {
            if begun.elapsed() > PATIENCE {
                lock(&self.ledger).report_violation("lost", "acknowledged lines are still missing".to_owned());
                break;
            }
            sleep(ROUND).await;
        }
        if let Err(error) = self.compare(&mut connection).await {
            lock(&self.ledger).report_violation("unread", format!("{error:#}"));
        }
        let mut ledger = lock(&self.ledger);
        let (acked, possible) = ledger.bounds();
        if acked == 0 || ledger.totals.halves == 0 || ledger.totals.repeats == 0 {
            ledger.report_violation("idle", "no body was acknowledged, incomplete or repeated".to_owned());
        }
        let told = LogTotals { acked, possible, counted: ledger.previous, ..ledger.totals.clone() };
        (told, ledger.violations.iter().map(|(rule, what)| format!("CDN log, {rule}: {what}")).collect())
    }

    /// Checks that every line counts as one page and as one fetch by a bot.
    async fn compare(&self, connection: &mut Connection) -> anyhow::Result<()> {
        let counted = self.summary(connection).await.context("the summary failed")?;
        let urls = self.json(connection, "/content-owners/urls?limit=1").await?;
        let crawlers = self.json(connection, "/content-owners/crawlers?limit=1000").await?;
        let items = crawlers["items"].as_array().into_iter().flatten();
        let retrievals: u64 = items.filter_map(|item| item["retrievals"].as_u64()).sum();
        if urls["total"] != counted || retrievals != counted {
            let what = format!("{counted} in the summary, {} pages, {retrievals} bot fetches", urls["total"]);
            lock(&self.ledger).report_violation("sum", what);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> LineLedger {
        let mut ledger = LineLedger::default();
        ledger.sent(&(0..9));
        ledger.sent(&(6..12));
        ledger.acked(&(6..12));
        ledger
    }

    #[test]
    fn counts_overlapping_bot_lines_once() {
        assert_eq!(ledger().bounds(), (4, 8));
    }

    #[test]
    fn reports_excessive_and_decreasing_counts() {
        let wrong = |counted: &[u64]| {
            let mut ledger = ledger();
            counted.iter().for_each(|counted| ledger.check_count(*counted));
            ledger.violations.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(wrong(&[0, 4, 8]), [""; 0]);
        assert_eq!(wrong(&[9]), ["too many"]);
        assert_eq!(wrong(&[4, 3]), ["fell"]);
    }
}
