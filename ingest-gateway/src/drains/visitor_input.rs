//! C14: whatever visitors write into their requests, each accepted line stays one report, and none joins another's event.

use super::dry_run::{DrainDryRun, DryLine};
use super::line_outcome::Outcome;
use chrono::DateTime;
use schemas::bots::BotTable;
use schemas::event_key::EventKey;
use schemas::identity::DrainProvider;
use schemas::ids::{DrainId, OrgId};
use schemas::log::LogEvent;
use schemas::report_keys::ReportKeys;
use serde_json::{Value, json};
use std::collections::HashSet;
use uuid::Uuid;

const BOT: &str = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
const FETCH: &str = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
const ORG: OrgId = OrgId(Uuid::from_u128(1));

/// One request, with what its visitor chooses.
#[derive(Clone)]
struct Request<'a> {
    second: i64,
    host: &'a str,
    path: &'a str,
    /// Headers that some format logs: correlation id, request id, referer, signature agent.
    headers: [&'a str; 4],
}

impl Request<'_> {
    /// The line that the provider logs.
    fn line(&self, provider: DrainProvider) -> String {
        let Self { second, host, path, headers: [telemetry_id, request_id, referer, signature] } = self;
        let at = DateTime::from_timestamp(1_793_527_200 + second, 0).unwrap();
        let escaped = percent_encoding::utf8_percent_encode(telemetry_id, percent_encoding::NON_ALPHANUMERIC);
        let line: Value = match provider {
            DrainProvider::Cloudflare => json!({"EdgeStartTimestamp": at.to_rfc3339(), "ClientRequestHost": host,
                "ClientRequestURI": path, "ClientRequestMethod": "GET", "ClientRequestUserAgent": BOT, "EdgeResponseStatus": 200,
                "RayID": request_id, "ClientRequestReferer": referer,
                "RequestHeaders": {"content-telemetry-id": telemetry_id, "signature-agent": signature}}),
            DrainProvider::Fastly | DrainProvider::Ndjson => json!({"timestamp": at.to_rfc3339(), "host": host, "url": path,
                "request_method": "GET", "request_user_agent": BOT, "response_status": 200, "request_id": request_id,
                "content_telemetry_id": telemetry_id, "request_referer": referer, "signature_agent": signature}),
            DrainProvider::Firehose => {
                json!({"timestamp": at.timestamp().to_string(), "x-host-header": host, "cs-uri-stem": path,
                "cs-method": "GET", "cs-user-agent": BOT.replace(' ', "%20"), "sc-status": "200", "x-edge-request-id": request_id,
                "cs-referer": referer, "cs-headers": format!("host:{host}%0Acontent-telemetry-id:{escaped}%0A")})
            }
            DrainProvider::Akamai => json!({"reqTimeSec": at.timestamp().to_string(), "reqHost": host, "reqPath": path,
                "reqMethod": "GET", "UA": BOT.replace(' ', "%20"), "statusCode": "200", "reqId": request_id, "referer": referer,
                "customField": escaped.to_string()}),
            DrainProvider::Vercel => json!({"requestId": request_id, "proxy": {"timestamp": at.timestamp_millis(), "host": host,
                "path": path, "method": "GET", "userAgent": [BOT], "referer": referer, "statusCode": 200}}),
            DrainProvider::Combined => {
                let time = at.format("%d/%b/%Y:%H:%M:%S %z");
                let quoted = |text: &str| text.replace('\\', r"\x5C").replace('"', r"\x22").replace('\n', r"\x0A");
                let [telemetry_id, request_id, referer] = [telemetry_id, request_id, referer].map(|text| quoted(text));
                return format!(
                    r#"192.0.2.1 - - [{time}] "GET {path} HTTP/1.1" 200 10 "{referer}" "{BOT}" "{telemetry_id}" "{host}" "{request_id}""#
                );
            }
        };
        line.to_string()
    }
}

/// The events that are kept of these requests; every line must be.
fn kept(provider: DrainProvider, requests: &[Request<'_>]) -> Vec<LogEvent> {
    let log: Vec<String> = requests.iter().map(|request| request.line(provider)).collect();
    let now = DateTime::from_timestamp(1_793_527_300, 0).unwrap();
    let dry_run = DrainDryRun { provider, host: None, hosts: Vec::new(), bots: BotTable::bundled(), now };
    let mut events = Vec::new();
    let take = |DryLine { number, outcome, .. }: DryLine| {
        let Outcome::Kept(event) = outcome else { panic!("{provider:?} line {number}: {outcome:?}") };
        events.push(*event);
        Ok(())
    };
    dry_run.lines(log.join("\n").as_bytes(), take).unwrap();
    assert_eq!(events.len(), requests.len(), "{provider:?}");
    events
}

fn identities(events: &[LogEvent]) -> HashSet<EventKey> {
    events.iter().map(|event| ReportKeys::new(ORG, None, event).identity).collect()
}

/// What a visitor may write into a header.
fn hostile_values() -> Vec<String> {
    let another_lines = "198.51.100.7, 203.0.113.9".to_owned();
    let named = ["", "-", "constant", FETCH, "\"quo\\\"te\\", "\"", "a\nb", "' OR 1=1 --", "\u{202e}é"].map(str::to_owned);
    named.into_iter().chain([another_lines, "x".repeat(10_000), FETCH.repeat(300)]).collect()
}

#[test]
fn c14_visitors_cannot_make_two_lines_one() {
    let long = format!("/{}", "p".repeat(10_000));
    for provider in DrainProvider::ALL {
        for value in hostile_values() {
            for paths in [["/a", "/b"], [&format!("{long}1"), &format!("{long}2")]] {
                let of = |second, path| Request { second, host: "a.test", path, headers: [value.as_str(); 4] };
                let requests = [of(0, paths[0]), of(0, paths[1]), of(1, paths[0]), of(1, paths[1])];
                let events = kept(provider, &requests);
                let what = format!("{provider:?} {:.20} {:.5}", value, paths[0]);
                assert_eq!(identities(&events).len(), requests.len(), "{what}");
                assert_eq!(identities(&kept(provider, &requests)), identities(&events), "{what}: sent again");
                let is_correlated = value == FETCH && provider != DrainProvider::Vercel;
                for event in &events {
                    assert_eq!(event.correlation_key.is_some(), is_correlated, "{what}: only a UUID is a correlation id");
                    assert_eq!(event.content_telemetry_id.is_some(), is_correlated, "{what}: and nothing else is stored");
                }
            }
        }
    }
}

#[test]
fn c14_visitors_cannot_join_events_of_other_hosts_or_pages() {
    for provider in DrainProvider::ALL.into_iter().filter(|provider| *provider != DrainProvider::Vercel) {
        let of = |host, path| Request { second: 0, host, path, headers: [FETCH, "r-1", "-", "-"] };
        let requests = [of("a.test", "/x"), of("b.test", "/x"), of("a.test", "/y"), of("www.a.test", "/x/?utm_source=s")];
        let events = kept(provider, &requests);
        let shared: Vec<_> = events.iter().map(|event| ReportKeys::new(ORG, None, event).shared.unwrap()).collect();
        assert_eq!(shared[0], shared[3], "{provider:?}: spellings of one page");
        assert_eq!(shared.iter().collect::<HashSet<_>>().len(), 3, "{provider:?}");
    }
}

/// F41: Fastly documents its request id as unique per cache server only.
#[test]
fn request_id_of_two_servers_is_two_lines() {
    for provider in DrainProvider::ALL {
        let of = |second, host, path| Request { second, host, path, headers: ["", "3712890346", "", ""] };
        let requests = [of(0, "a.test", "/x"), of(1, "a.test", "/x"), of(0, "b.test", "/x"), of(0, "a.test", "/y")];
        assert_eq!(identities(&kept(provider, &requests)).len(), 4, "{provider:?}");
    }
}

#[test]
fn line_through_two_drains_is_one_report_unless_correlated() {
    let drain = |n| Some(DrainId(Uuid::from_u128(n)));
    for (telemetry_id, is_one) in [("", true), (FETCH, false)] {
        let request = Request { second: 0, host: "a.test", path: "/x", headers: [telemetry_id, "r-1", "", ""] };
        let event = kept(DrainProvider::Fastly, &[request]).remove(0);
        let [one, other, imported] = [drain(1), drain(2), None].map(|drain| ReportKeys::new(ORG, drain, &event));
        assert_eq!([one.identity == other.identity, one.identity == imported.identity], [is_one; 2], "{telemetry_id}");
        assert_eq!([other.shared, imported.shared], [one.shared; 2], "observers of one fetch");
    }
}

#[test]
fn text_cannot_be_moved_from_one_field_into_the_next() {
    let line = |path: &str, query: &str| {
        json!({"timestamp": "2026-11-01T10:00:00Z", "host": "a.test", "url": path, "query": query, "method": "GET",
            "user_agent": BOT, "status": 200})
        .to_string()
    };
    let now = DateTime::from_timestamp(1_793_527_300, 0).unwrap();
    let (provider, bots) = (DrainProvider::Ndjson, BotTable::bundled());
    let dry_run = DrainDryRun { provider, host: None, hosts: Vec::new(), bots, now };
    let mut ids = HashSet::new();
    let take = |line: DryLine| {
        let Outcome::Kept(event) = line.outcome else { panic!("{:?}", line.outcome) };
        ids.insert(event.id);
        Ok(())
    };
    dry_run.lines([line("/a", "b\nc"), line("/a\nb", "c")].join("\n").as_bytes(), take).unwrap();
    assert_eq!(ids.len(), 2);
}
