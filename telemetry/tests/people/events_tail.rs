//! `events tail` and `wait`: poll until events arrive.

use crate::stub_server::{Stub, ok, response};
use crate::terminal::Terminal;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use serde_json::json;
use url::Url;

/// Returns a page with the numbered events, newest first. The first poll sees only the first event.
fn page(target: &str, newest: usize) -> String {
    let url = Url::parse(&format!("http://a.example{target}")).unwrap();
    let number = |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map_or(0, |(_, value)| value.parse().unwrap());
    let (limit, offset): (usize, usize) = (number("limit"), number("offset"));
    let events: Vec<_> = (0..newest).rev().skip(offset).take(limit).map(|n| json!({"event_id": n.to_string()})).collect();
    json!({"items": events, "total": newest}).to_string()
}

fn tail(newest: usize, count: usize) -> (Vec<usize>, String) {
    let stub = Stub::start(move |n, request| ok(&page(&request.target, if n == 0 { 1 } else { newest })));
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    let said = terminal.run(&["events", "tail", "--interval", "1", "--count", &count.to_string(), "-o", "ndjson"]).ok();
    let shown = said.stdout.lines().map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["event_id"].as_str().unwrap().parse().unwrap()
    });
    (shown.collect(), said.stderr)
}

#[test]
fn shows_every_event_between_two_polls() {
    let (shown, said) = tail(451, 451);
    assert_eq!(shown, (0..451).collect::<Vec<_>>());
    assert_eq!(said, "");
}

#[test]
fn reports_when_not_all_events_are_shown() {
    let (shown, said) = tail(10_500, 10_001);
    assert_eq!(shown.len(), 10_001);
    assert_eq!((shown[1], shown[10_000]), (500, 10_499), "only the newest events are shown");
    assert!(said.contains("Showing only the newest 10000 events"), "{said}");
}

#[test]
fn csv_starts_with_a_header() {
    let stub = Stub::start(|_, request| ok(&page(&request.target, 2)));
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    let said = terminal.run(&["events", "tail", "--count", "2", "-o", "csv"]).ok();
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("time,"), "{lines:?}");
}

#[test]
fn error_names_the_organization_option() {
    let refusal = json!({"type": "about:blank", "title": "t", "status": 400, "code": "invalid_parameter", "request_id": "r",
        "detail": "You belong to several organizations. Choose one with ?organization_id=."});
    let stub = Stub::start(move |_, _| response(400, &refusal.to_string()));
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    let said = terminal.run(&["domain", "list"]);
    assert!(said.code == 1 && said.stderr.contains("--organization ID"), "{said:?}");
}

#[test]
fn wait_returns_when_enough_events_are_readable() {
    let pages =
        |events: &[u64]| json!({"items": events.iter().map(|n| json!({"total_events": n})).collect::<Vec<_>>()}).to_string();
    let answers = [pages(&[]), pages(&[1]), pages(&[1, 2])];
    let stub =
        Stub::start(move |n, _| if n == 1 { response(503, "{}") } else { ok(&answers[n.min(3).saturating_sub(n.min(1))]) });
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    let said = terminal.run(&["wait", "--path", "/a/*", "--count", "3", "-o", "json"]).ok();
    assert_eq!(said.json()["events"], 3);
}

#[test]
fn wait_fails_after_the_timeout() {
    let stub = Stub::start(|_, _| ok(r#"{"total_events": 2}"#));
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    let said = terminal.run(&["wait", "--count", "3", "--timeout", "1"]);
    assert!(said.code == 1 && said.stderr.contains("timed out after 1 s: 2 of 3 events"), "{said:?}");
}
