//! The log records of accepted requests.

use crate::harness::{Gateway, SESSION, retrieval, try_body, try_event, with};
use reqwest::Method;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::log::{LogRecord, RECORD_VERSION};
use schemas::report_keys::ReportKeys;
use serde_json::{Value, json};
use std::collections::HashSet;
use uuid::Uuid;

#[tokio::test]
async fn request_becomes_one_kafka_record() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("agent", OrgType::Agent).await;
    let accepted = gateway.report(&org.key, &json!({"events": vec![retrieval("https://a.test/"); 100]})).await;
    assert_eq!((accepted.status, accepted.body), (201, json!({"status": "ok", "events_created": 100})));
    assert_eq!(gateway.log.record_count(), 1);
    let record = gateway.log.records(1).await.remove(0);
    assert_eq!((record.v, record.org, record.events.len()), (RECORD_VERSION, org.id, 100));
    let keys: HashSet<_> = record.events.iter().map(|event| event.own_key).collect();
    assert_eq!(keys.len(), 100, "equal events of one request are distinct");
}

#[tokio::test]
async fn records_mark_reports_by_content_owners() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().owner_of("a.test").await;
    let platform = gateway.seed().org("platform", OrgType::Platform).await;
    let body = json!({"events": [retrieval("https://a.test/")]});
    for key in [&owner.key, &platform.key] {
        assert_eq!(gateway.report(key, &body).await.status, 201);
    }
    let records = gateway.log.records(2).await;
    let owners: Vec<_> = records.iter().filter(|record| record.is_owners).map(|record| record.org).collect();
    assert_eq!(owners, [owner.id]);
}

#[test]
fn e8_normalizes_events_before_the_log() {
    let event = json!({
        "type": "content_retrieved", "timestamp": "2026-11-01T12:00:00.123456+02:00", "source_role": "agent",
        "id": "67E5504410B1426F9247BB680E5FE0C8", "session_id": SESSION.to_uppercase(),
        "content_url": "https://u:p@WWW.A.test.:443/x?b=1&ctx=ctx_secret#frag",
        "data": {"n": 1, "ip_hash": "abc"}, "license_ref": "kept", "ip_hash": "abc", "unset": null
    });
    let event = try_body("/events", json!({"agent_id": "bot", "events": [event]}).to_string()).unwrap().events.remove(0);
    assert_eq!(event.content_url.as_deref(), Some("https://www.a.test/x?b=1"));
    assert_eq!((event.site.as_str(), event.at_ms), ("test.a", 1_793_527_200_123));
    assert_eq!(event.id.as_deref(), Some(SESSION));
    assert_eq!(event.session_id.map(|id| id.to_string()).as_deref(), Some(SESSION));
    assert_eq!((event.agent_id.as_deref(), event.source_role), (Some("bot"), Some(SourceRole::Agent)));
    assert_eq!(event.data.as_ref().map(|data| data.get()), Some(r#"{"n":1}"#));
    assert_eq!(event.extra.as_ref().map(|extra| extra.get()), Some(r#"{"license_ref":"kept"}"#));
}

#[tokio::test]
async fn x10_keeps_numbers_in_data_as_written() {
    let (gateway, key) = Gateway::with_agent().await;
    let data = r#"{"a":9007199254740993,"b":18446744073709551616,"c":-0,"d":0.1000000000000000055511151231257827,"e":1e400}"#;
    let text = retrieval("https://a.test/").to_string();
    let body = format!(r#"{{"events":[{},"data":{data}}}]}}"#, &text[..text.len() - 1]);
    assert_eq!(gateway.send(Method::POST, &key, "/events", body).await.status, 201);
    assert_eq!(gateway.log.records(1).await[0].events[0].data.as_ref().map(|data| data.get()), Some(data));
}

/// Returns each report's event key. Two organizations report alternately.
fn keys_of_reports(reports: &[Value]) -> Vec<EventKey> {
    let key = |(at, report): (usize, &Value)| {
        let report = with(report.clone(), json!({"id": format!("report-{at}"), "session_id": SESSION}));
        let event = try_event(&report).expect("the report is valid");
        ReportKeys::new(OrgId(Uuid::from_u128(at as u128 % 2)), None, &event).event()
    };
    reports.iter().enumerate().map(key).collect()
}

#[test]
fn all_observers_of_a_fetch_share_its_key() {
    let seen = |role: &str, url: &str, id: &str| with(retrieval(url), json!({"source_role": role, "content_telemetry_id": id}));
    let (id, spelling) = ("0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f", "{0B1F9E6C-3D6A-4A52-9C4E-0F2A6A1D2E3F}");
    let keys = keys_of_reports(&[
        seen("edge", "http://www.a.test:80/x", id),
        seen("agent", "https://WWW.a.test/x#y", spelling),
        seen("index", "https://www.a.test/x", id),
        seen("origin", "https://www.a.test/x", id),
        seen("edge", "https://www.a.test/other", id),
    ]);
    assert_eq!(keys[..4], [keys[0]; 4]);
    assert_ne!(keys[4], keys[0], "another page is another fetch");
}

#[test]
fn e11_merges_observers_only_for_fetches() {
    let agents = |event_type: &str| {
        with(retrieval("https://a.test/x"), json!({"type": event_type, "source_role": "agent", "content_telemetry_id": "t-1"}))
    };
    let [retrieved, grounded, cited] = ["content_retrieved", "content_grounded", "content_cited"].map(agents);
    let keys = keys_of_reports(&[retrieved.clone(), grounded, cited.clone(), cited, retrieved]);
    assert_eq!(keys[0], keys[4], "reports of a fetch share a key");
    assert_eq!(keys[..4].iter().collect::<HashSet<_>>().len(), 4, "each use of the content is a separate event");
}

#[test]
fn e11_uses_content_ids_only_without_a_url() {
    let seen = |role: &str, url: Option<&str>, id: Option<&str>| {
        let members = json!({"source_role": role, "content_telemetry_id": "t-1", "content_url": url, "content_id": id});
        with(retrieval("https://a.test/"), members)
    };
    let url = Some("https://a.test/x");
    let keys = keys_of_reports(&[
        seen("edge", url, Some("doi:1")),
        seen("agent", url, None),
        seen("origin", url, Some("doi:2")),
        seen("edge", None, Some("doi:1")),
        seen("agent", None, Some("doi:1")),
        seen("edge", None, Some("doi:2")),
    ]);
    assert_eq!(keys[..3], [keys[0]; 3], "content ids don't matter for reports with a URL");
    assert_eq!(keys[3], keys[4], "without a URL the content id counts");
    assert_eq!([keys[0], keys[3], keys[5]].iter().collect::<HashSet<_>>().len(), 3, "another content id is another fetch");
}

#[test]
fn all_spellings_of_a_doi_are_one_fetch() {
    let spellings = ["doi:10.1000/a", "https://doi.org/10.1000/A", "http://dx.doi.org/10.1000/a", "DOI:10.1000/A"];
    let seen = |id: &str| {
        with(retrieval("https://a.test/"), json!({"content_telemetry_id": "t-1", "content_url": null, "content_id": id}))
    };
    let keys = keys_of_reports(&spellings.map(seen));
    assert_eq!(keys, [keys[0]; 4]);
    let stored = spellings.map(|id| try_event(&seen(id)).unwrap().content_id);
    assert_eq!(stored, spellings.map(|id| Some(id.to_owned())));
}

fn keys_of_record(record: &LogRecord) -> Vec<ReportKeys> {
    record.events.iter().map(|event| ReportKeys::new(record.org, record.drain, event)).collect()
}

/// One observer's reports stay separate even if a visitor or agent uses one correlation id for all of them.
#[test]
fn c14_shared_correlation_id_does_not_merge_reports() {
    for id in ["constant", "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f", "quo\"te'", "\u{202e}"] {
        let seen = with(retrieval("https://a.test/x"), json!({"content_telemetry_id": id}));
        let keys = keys_of_record(&try_body("/events", json!({"events": vec![seen; 5]}).to_string()).unwrap());
        assert_eq!(keys.iter().map(|keys| keys.identity).collect::<HashSet<_>>().len(), 5, "{id}");
        assert_eq!(keys.iter().map(|keys| keys.shared).collect::<HashSet<_>>().len(), 1, "{id}");
    }
}

/// Other values that visitors and agents choose don't merge reports either.
#[test]
fn c14_visitor_values_do_not_merge_reports() {
    const OTHER: &str = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
    let long = "x".repeat(10_000);
    let seen = |path: &str, value: &str| {
        let telemetry_id = (!value.is_empty() && value.len() <= 2_048).then_some(value);
        let data = json!({"user_agent": format!("GPTBot/1.2 {value}"), "signature_agent": value, "referer": value});
        let members = json!({"content_telemetry_id": telemetry_id, "referer": value, "data": data});
        with(retrieval(&format!("https://a.test/{path}")), members)
    };
    let [one, two] = [1, 2].map(|end| format!("{}{end}", "p".repeat(8_000)));
    let values = ["", "-", "quo\"te'\\", "\u{202e}", OTHER, "\"https://chatgpt.com\"", &long];
    let mut identities = HashSet::new();
    for (at, value) in values.into_iter().enumerate() {
        let mut events = ["a", "a", "b", &one, &two].map(|path| seen(path, value)).to_vec();
        events.push(with(retrieval("https://a.test/c"), json!({"id": format!("e-{at}"), "content_telemetry_id": OTHER})));
        let keys = keys_of_record(&try_body("/events", json!({"events": events}).to_string()).unwrap());
        let (other, all) = keys.split_last().expect("there are six");
        assert!(all.iter().all(|keys| keys.shared != other.shared), "a correlation id of another page merges no reports");
        let shared: HashSet<_> = all.iter().filter_map(|keys| keys.shared).collect();
        assert!(matches!(shared.len(), 0 | 4), "one per page");
        identities.extend(keys.iter().map(|keys| keys.identity));
    }
    assert_eq!(identities.len(), 6 * values.len());
    for (refused, code) in [("", "empty"), (long.as_str(), "too_long")] {
        let faults = try_event(&with(retrieval("https://a.test/a"), json!({"content_telemetry_id": refused}))).unwrap_err();
        assert_eq!(faults, [format!("0.content_telemetry_id:{code}")], "the value is reported as invalid");
    }
}

/// Otherwise, a report for one owner could hide another owner's event.
#[tokio::test]
async fn same_id_on_another_host_is_a_different_event() {
    let gateway = Gateway::start().await;
    let key = gateway.key("network", OrgType::Platform).await;
    let report = |host: &str, telemetry_id: Option<&str>| {
        let members = json!({"id": "e-1", "content_telemetry_id": telemetry_id});
        json!({"events": [with(retrieval(&format!("https://{host}/x")), members)]})
    };
    for telemetry_id in [None, Some("t-1")] {
        for (host, created) in [("a.test", 1), ("b.test", 1), ("www.a.test", 0)] {
            let taken = gateway.report(&key, &report(host, telemetry_id)).await;
            assert_eq!((taken.status, &taken.body["events_created"]), (201, &json!(created)), "{host} {telemetry_id:?}");
        }
    }
    let records = gateway.log.records(6).await;
    let identities: HashSet<_> =
        records.iter().map(|record| ReportKeys::new(record.org, record.drain, &record.events[0]).identity).collect();
    assert_eq!(identities.len(), 4, "one per host, with and without a correlation id");
}

#[test]
fn e11_ignores_placeholder_correlation_ids() {
    let seen = |id: &str| with(retrieval("https://a.test/x"), json!({"content_telemetry_id": id}));
    let placeholders =
        ["-", "null", "undefined", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", " "];
    let twice: Vec<Value> = placeholders.iter().flat_map(|id| [seen(id), seen(id)]).collect();
    let keys = keys_of_reports(&twice);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "placeholders merge no reports");
    let keys = keys_of_reports(&["t-1", " t-1 ", "\"t-1\""].map(seen));
    assert_eq!(keys, [keys[0]; 3]);
}

#[test]
fn e13_retries_get_the_same_keys() {
    let events =
        [retrieval("https://a.test/"), retrieval("https://a.test/"), with(retrieval("https://a.test/"), json!({"id": "e1"}))];
    let keys = || {
        let record = try_body("/events", json!({"events": events}).to_string()).unwrap();
        record.events.into_iter().map(|event| event.own_key).collect::<Vec<_>>()
    };
    assert_eq!(keys(), keys());
    assert_eq!(keys().iter().collect::<HashSet<_>>().len(), 3);
}
