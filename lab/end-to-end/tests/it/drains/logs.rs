//! A day's requests, and the logs that a CDN and the server behind it write.

use super::model::{BOTS, Line, Org, Report, Role};
use chrono::{DateTime, TimeDelta, Utc};
use loadgen::log_lines::{Format, Request};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use uuid::Uuid;

const PERSON: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0";
/// An IP address that belongs to no operator.
const ELSEWHERE: &str = "203.0.113.9";

/// Returns the correlation id of a fetch. Requests with the same number share it.
pub(super) fn correlation_id(log: usize, number: u64) -> String {
    Uuid::from_u64_pair(log as u64 + 1, number).to_string()
}

/// Returns a day's requests, in chronological order.
pub(super) fn requests(random: &mut StdRng, begin: DateTime<Utc>, nth: usize) -> Vec<Request> {
    let hours: Vec<i64> = (0..24).filter(|hour| *hour == 12 || random.random_bool(0.4)).collect();
    let count = random.random_range(20..50);
    let request = |n: i64| {
        let bot = BOTS.choose(random).unwrap();
        let is_own = random.random_bool(0.5);
        let is_asset = random.random_bool(0.05);
        Request {
            // 53 and 3,600 are coprime, so no two requests share a second.
            at: begin + TimeDelta::hours(*hours.choose(random).unwrap()) + TimeDelta::seconds(n * 53 % 3_600),
            id: if random.random_bool(0.3) { String::new() } else { format!("request-{nth}-{n}") },
            // Two pages share an id, but are different fetches.
            telemetry_id: if random.random_bool(0.4) { String::new() } else { correlation_id(nth, n.unsigned_abs() / 2) },
            address: bot.address.filter(|_| is_own).unwrap_or(ELSEWHERE).to_owned(),
            user_agent: if random.random_bool(0.2) { PERSON } else { bot.user_agent }.to_owned(),
            host: if random.random_bool(0.05) { "www.example.org" } else { "www.example.com" }.to_owned(),
            path: if is_asset { format!("/style-{n}.css") } else { format!("/page/{n}") },
            // 0 means no response.
            status: *[200, 200, 200, 206, 304, 403, 0].choose(random).unwrap(),
            bytes: random.random_range(1..9_999),
            country: "de",
            cache: "hit",
        }
    };
    (0..count).map(request).collect()
}

/// A log and its requests.
pub(super) struct Log {
    pub(super) format: Format,
    pub(super) requests: Vec<Request>,
}

impl Log {
    /// Returns an edge log of all requests. Some requests without a correlation id are repeated; with one, the repeated line
    /// would be another fetch.
    pub(super) fn of_edge(random: &mut StdRng, made: &[Request]) -> Self {
        let formats: Vec<Format> = Format::ALL.into_iter().filter(|format| *format != Format::Combined).collect();
        let mut requests = made.to_vec();
        for request in made.iter().filter(|_| random.random_bool(0.1)) {
            let id = if request.id.is_empty() { String::new() } else { format!("{}-again", request.id) };
            requests.push(Request { id, telemetry_id: String::new(), ..request.clone() });
        }
        Self { format: *formats.choose(random).unwrap(), requests }
    }

    /// Returns the origin's log with the requests that the edge forwarded. The origin may have returned another status.
    pub(super) fn of_origin(random: &mut StdRng, made: &[Request]) -> Self {
        let mut passed_on = |request: &Request| Request {
            id: if request.id.is_empty() { String::new() } else { format!("origin-{}", request.id) },
            status: if request.status == 0 || random.random_bool(0.3) {
                *[200, 206, 404].choose(random).unwrap()
            } else {
                request.status
            },
            bytes: random.random_range(1..9_999),
            ..request.clone()
        };
        let all: Vec<Request> = made.iter().map(&mut passed_on).collect();
        let count = random.random_range(1..=all.len());
        Self { format: Format::Combined, requests: all.sample(random, count).cloned().collect() }
    }

    pub(super) fn lines(&self, of: &[usize]) -> Vec<String> {
        of.iter().map(|n| self.format.line(&self.requests[*n])).collect()
    }

    /// Returns how a line counts in addition to its fetch.
    pub(super) fn line(&self, n: usize) -> Line {
        let request = &self.requests[n];
        let is_page = request.host == "www.example.com" && request.path.starts_with("/page/");
        let bot = BOTS.iter().position(|bot| bot.user_agent == request.user_agent).filter(|_| is_page);
        let refused = bot.filter(|_| !(200..300).contains(&request.status)).map(|bot| (bot, request.status));
        let Request { path, status, .. } = request;
        let provider = self.format.provider();
        let telemetry_id = if self.format.logs_telemetry_id() { request.telemetry_id.as_str() } else { "" };
        let key = match request.id.as_str() {
            "" => format!("{provider:?} {path} {status} {telemetry_id}"),
            id => format!("{provider:?} {id}"),
        };
        Line { key, at: request.at, refused, is_own: request.host == "www.example.com" }
    }

    pub(super) fn report(&self, n: usize) -> Option<Report> {
        let request = &self.requests[n];
        let is_kept =
            request.host == "www.example.com" && request.path.starts_with("/page/") && (200..300).contains(&request.status);
        let bot = BOTS.iter().position(|bot| bot.user_agent == request.user_agent).filter(|_| is_kept)?;
        let Request { id, path, .. } = request;
        let telemetry_id = if self.format.logs_telemetry_id() { request.telemetry_id.as_str() } else { "" };
        let provider = self.format.provider();
        Some(Report {
            key: match (telemetry_id, id.as_str()) {
                ("", "") => format!("{provider:?} {path} {}", request.status),
                ("", id) => format!("{provider:?} {id}"),
                _ => format!("{telemetry_id} {path}"),
            },
            org: Org::Owner,
            role: if self.format == Format::Combined { Role::Origin } else { Role::Edge },
            at: request.at,
            bot: Some((bot, BOTS[bot].address.map(|own| own == request.address))),
            status: request.status,
            bytes: u64::from(request.bytes),
            session: None,
        })
    }
}
