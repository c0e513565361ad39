//! What an accepted request leaves on the log.

use crate::harness::{Gateway, answer, retrieval, with};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::identity::OrgType;
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION};
use schemas::report_keys::ReportKeys;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

#[tokio::test]
async fn one_accepted_request_is_one_kafka_record() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("agent", OrgType::Agent).await;
    let accepted = gateway.post(&org.key, &json!({"events": vec![retrieval("https://a.test/"); 100]})).await;
    assert_eq!((accepted.status, accepted.body), (201, json!({"status": "ok", "events_created": 100})));
    assert_eq!(gateway.record_count(), 1);
    let record = gateway.records(1).await.remove(0);
    assert_eq!((record.v, record.org, record.events.len()), (RECORD_VERSION, org.id, 100));
    let keys: HashSet<_> = record.events.iter().map(|event| event.own_key).collect();
    assert_eq!(keys.len(), 100, "equal events of one request are several");
}

#[tokio::test]
async fn e8_an_event_is_normalised_before_the_log() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let event = json!({
        "type": "content_retrieved", "timestamp": "2026-11-01T12:00:00.123456+02:00", "source_role": "agent",
        "id": "67E5504410B1426F9247BB680E5FE0C8", "session_id": SESSION.to_uppercase(),
        "content_url": "https://u:p@WWW.A.test.:443/x?b=1&ctx=ctx_secret#frag",
        "data": {"n": 1, "ip_hash": "abc"}, "license_ref": "kept", "ip_hash": "abc", "unset": null
    });
    assert_eq!(gateway.post(&key, &json!({"agent_id": "bot", "events": [event]})).await.status, 201);
    let record = gateway.records(1).await.remove(0);
    let event = &record.events[0];
    assert_eq!(event.content_url.as_deref(), Some("https://www.a.test/x?b=1"));
    assert_eq!((event.site.as_str(), event.at_ms), ("test.a", 1_793_527_200_123));
    assert_eq!(event.id.as_deref(), Some(SESSION));
    assert_eq!(event.session_id.map(|id| id.to_string()).as_deref(), Some(SESSION));
    assert_eq!((event.agent_id.as_deref(), event.source_role), (Some("bot"), Some(SourceRole::Agent)));
    assert_eq!(event.data.as_ref().map(|data| data.get()), Some(r#"{"n":1}"#));
    assert_eq!(event.extra.as_ref().map(|extra| extra.get()), Some(r#"{"license_ref":"kept"}"#));
}

#[tokio::test]
async fn x10_numbers_in_data_are_kept_as_written() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let data = r#"{"a":9007199254740993,"b":18446744073709551616,"c":-0,"d":0.1000000000000000055511151231257827,"e":1e400}"#;
    let body = format!(
        r#"{{"events":[{{"type":"content_retrieved","timestamp":"2026-11-01T10:00:00Z","source_role":"edge","content_url":"https://a.test/","data":{data}}}]}}"#
    );
    assert_eq!(gateway.post_text(Some(&key), body).await.status, 201);
    assert_eq!(gateway.records(1).await[0].events[0].data.as_ref().map(|data| data.get()), Some(data));
}

#[tokio::test]
async fn all_observers_of_one_retrieval_share_its_key() {
    let gateway = Gateway::start().await;
    let cdn = gateway.seed().org("cdn", OrgType::Platform).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let seen = |role: &str, url: &str, id: &str| {
        with(
            retrieval(url),
            json!({"source_role": role, "content_telemetry_id": id, "session_id": SESSION, "id": format!("{role}-1")}),
        )
    };
    let (id, spelling) = ("0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f", "{0B1F9E6C-3D6A-4A52-9C4E-0F2A6A1D2E3F}");
    for (key, event) in [
        (&cdn.key, seen("edge", "http://www.a.test:80/x", id)),
        (&agent.key, seen("agent", "https://WWW.a.test/x#y", spelling)),
        (&cdn.key, seen("index", "https://www.a.test/x", id)),
        (&cdn.key, seen("origin", "https://www.a.test/x", id)),
    ] {
        assert_eq!(gateway.post(key, &json!({"events": [event]})).await.status, 201);
    }
    assert_eq!(gateway.post(&cdn.key, &json!({"events": [seen("edge", "https://www.a.test/other", id)]})).await.status, 201);
    let records = gateway.records(5).await;
    let keys = |url_end: &str| -> HashSet<_> {
        let events = records.iter().flat_map(|record| record.events.iter().map(move |event| (record, event)));
        events
            .filter(|(_, event)| event.content_url.as_deref().is_some_and(|url| url.ends_with(url_end)))
            .map(|(record, event)| ReportKeys::new(record.org, record.drain, event).event())
            .collect()
    };
    assert_eq!(keys("/x").len(), 1);
    assert_eq!(keys("/other").len(), 1);
    assert_ne!(keys("/x"), keys("/other"), "another page is another retrieval");
}

/// The key of the event of each of these reports, made one request each by two organisations in turn.
async fn keys_of_reports(reports: &[Value]) -> Vec<EventKey> {
    let gateway = Gateway::start().await;
    let (one, two) = (gateway.seed().org("one", OrgType::Agent).await, gateway.seed().org("two", OrgType::Platform).await);
    for (at, report) in reports.iter().enumerate() {
        let report = with(report.clone(), json!({"id": format!("report-{at}"), "session_id": SESSION}));
        let key = if at % 2 == 0 { &one.key } else { &two.key };
        let taken = gateway.post(key, &json!({"events": [report]})).await;
        assert_eq!(taken.status, 201, "{at}: {}", taken.body);
    }
    let records = gateway.records(reports.len()).await;
    let events = records.iter().flat_map(|record| record.events.iter().map(move |event| (record, event)));
    let key = |(record, event): (&LogRecord, &LogEvent)| {
        (event.id.clone().expect("each has an id"), ReportKeys::new(record.org, record.drain, event).event())
    };
    let keys: HashMap<String, EventKey> = events.map(key).collect();
    (0..reports.len()).map(|at| keys[&format!("report-{at}")]).collect()
}

#[tokio::test]
async fn e11_observers_merge_on_retrievals_only() {
    let agents = |event_type: &str| {
        with(retrieval("https://a.test/x"), json!({"type": event_type, "source_role": "agent", "content_telemetry_id": "t-1"}))
    };
    let [retrieved, grounded, cited] = ["content_retrieved", "content_grounded", "content_cited"].map(agents);
    let keys = keys_of_reports(&[retrieved.clone(), grounded, cited.clone(), cited, retrieved]).await;
    assert_eq!(keys[0], keys[4], "what was fetched is one, whoever tells of it");
    assert_eq!(keys[..4].iter().collect::<HashSet<_>>().len(), 4, "and each thing that was done with it another one");
}

#[tokio::test]
async fn e11_a_content_id_tells_retrievals_apart_only_where_there_is_no_url() {
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
    ])
    .await;
    assert_eq!(keys[..3], [keys[0]; 3], "observers of one page may name its content each in a way of their own");
    assert_eq!(keys[3], keys[4], "without a URL it is the content");
    assert_eq!([keys[0], keys[3], keys[5]].iter().collect::<HashSet<_>>().len(), 3, "another content is another retrieval");
}

#[tokio::test]
async fn spellings_of_a_doi_are_one_fetch_and_stored_as_reported() {
    let spellings = ["doi:10.1000/a", "https://doi.org/10.1000/A", "http://dx.doi.org/10.1000/a", "DOI:10.1000/A"];
    let seen = |id: &str| {
        with(retrieval("https://a.test/"), json!({"content_telemetry_id": "t-1", "content_url": null, "content_id": id}))
    };
    let keys = keys_of_reports(&spellings.map(seen)).await;
    assert_eq!(keys, [keys[0]; 4]);
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    assert_eq!(gateway.post(&key, &json!({"events": spellings.map(seen)})).await.status, 201);
    let stored: Vec<_> = gateway.records(1).await.remove(0).events.into_iter().filter_map(|event| event.content_id).collect();
    assert_eq!(stored, spellings);
}

/// C14: reports of one observer stay separate if a visitor or an agent uses one id for all of them.
#[tokio::test]
async fn c14_one_correlation_id_leaves_reports_apart() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    for id in ["constant", "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f", "quo\"te'", "\u{202e}"] {
        let seen = with(retrieval("https://a.test/x"), json!({"content_telemetry_id": id}));
        assert_eq!(gateway.post(&key, &json!({"events": vec![seen; 5]})).await.body["events_created"], 5, "{id}");
    }
    for record in gateway.records(4).await {
        let keys: Vec<_> = record.events.iter().map(|event| ReportKeys::new(record.org, record.drain, event)).collect();
        assert_eq!(keys.iter().map(|keys| keys.identity).collect::<HashSet<_>>().len(), 5);
        assert_eq!(keys.iter().map(|keys| keys.shared).collect::<HashSet<_>>().len(), 1);
    }
}

/// C14: neither does anything else that visitors and agents write into their requests.
#[tokio::test]
async fn c14_values_of_visitors_leave_reports_apart() {
    const OTHER: &str = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let long = "x".repeat(10_000);
    let seen = |path: &str, value: &str| {
        let telemetry_id = (!value.is_empty() && value.len() <= 2_048).then_some(value);
        let data = json!({"user_agent": format!("GPTBot/1.2 {value}"), "signature_agent": value, "referer": value});
        let members = json!({"content_telemetry_id": telemetry_id, "referer": value, "data": data});
        with(retrieval(&format!("https://a.test/{path}")), members)
    };
    let [one, two] = [1, 2].map(|end| format!("{}{end}", "p".repeat(8_000)));
    let values = ["", "-", "quo\"te'\\", "\u{202e}", OTHER, "\"https://chatgpt.com\"", &long];
    for (at, value) in values.into_iter().enumerate() {
        let mut events = ["a", "a", "b", &one, &two].map(|path| seen(path, value)).to_vec();
        events.push(with(retrieval("https://a.test/c"), json!({"id": format!("e-{at}"), "content_telemetry_id": OTHER})));
        let accepted = gateway.post(&key, &json!({"events": events})).await;
        assert_eq!((accepted.status, &accepted.body["events_created"]), (201, &json!(6)), "{value:.20}");
    }
    let mut identities = HashSet::new();
    for record in gateway.records(values.len()).await {
        let keys: Vec<_> = record.events.iter().map(|event| ReportKeys::new(record.org, record.drain, event)).collect();
        let (other, all) = keys.split_last().expect("six of them");
        assert!(all.iter().all(|keys| keys.shared != other.shared), "an id of another page joins nothing");
        let shared: HashSet<_> = all.iter().filter_map(|keys| keys.shared).collect();
        assert!(matches!(shared.len(), 0 | 4), "one for each page");
        identities.extend(keys.iter().map(|keys| keys.identity));
    }
    assert_eq!(identities.len(), 6 * values.len());
    for refused in ["", &long] {
        let event = with(retrieval("https://a.test/a"), json!({"content_telemetry_id": refused}));
        assert_eq!(gateway.post(&key, &json!({"events": [event]})).await.status, 422, "it is no silent loss");
    }
    assert_eq!(usize::try_from(gateway.record_count()), Ok(values.len()));
}

/// Otherwise a reporter could hide an event of one owner behind another owner's.
#[tokio::test]
async fn same_id_on_another_host_is_another_event() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let report = |host: &str, telemetry_id: Option<&str>| {
        let members = json!({"id": "e-1", "content_telemetry_id": telemetry_id});
        json!({"events": [with(retrieval(&format!("https://{host}/x")), members)]})
    };
    for telemetry_id in [None, Some("t-1")] {
        for (host, created) in [("a.test", 1), ("b.test", 1), ("www.a.test", 0)] {
            let taken = gateway.post(&key, &report(host, telemetry_id)).await;
            assert_eq!((taken.status, &taken.body["events_created"]), (201, &json!(created)), "{host} {telemetry_id:?}");
        }
    }
    let records = gateway.records(6).await;
    let identities: HashSet<_> =
        records.iter().map(|record| ReportKeys::new(record.org, record.drain, &record.events[0]).identity).collect();
    assert_eq!(identities.len(), 4, "one for each host, with and without a correlation id");
}

#[tokio::test]
async fn e11_a_placeholder_is_no_telemetry_id_and_what_is_around_one_no_part_of_it() {
    let seen = |id: &str| with(retrieval("https://a.test/x"), json!({"content_telemetry_id": id}));
    let placeholders =
        ["-", "null", "undefined", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", " "];
    let twice: Vec<Value> = placeholders.iter().flat_map(|id| [seen(id), seen(id)]).collect();
    let keys = keys_of_reports(&twice).await;
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "nothing says that two of these are one");
    let keys = keys_of_reports(&["t-1", " t-1 ", "\"t-1\""].map(seen)).await;
    assert_eq!(keys, [keys[0]; 3]);
}

#[tokio::test]
async fn e13_a_retry_gets_the_same_keys() {
    let gateway = Gateway::start().await;
    let (one, two) = (gateway.seed().org("one", OrgType::Agent).await, gateway.seed().org("two", OrgType::Agent).await);
    let plain = json!({"events": [retrieval("https://a.test/"), retrieval("https://a.test/"), with(retrieval("https://a.test/"), json!({"id": "e1"}))]});
    let keys_of = |records: Vec<LogRecord>, org| -> Vec<_> {
        records
            .into_iter()
            .filter(|record| record.org == org)
            .flat_map(|record| record.events)
            .map(|event| event.own_key)
            .collect()
    };
    for key in [&one.key, &one.key, &two.key] {
        assert_eq!(gateway.post(key, &plain).await.status, 201);
    }
    let records = gateway.records(3).await;
    let (mine, theirs) = (keys_of(records.clone(), one.id), keys_of(records, two.id));
    assert_eq!(mine[..3], mine[3..], "a retry");
    assert!(theirs.iter().all(|key| !mine.contains(key)), "another organisation");

    let idempotent =
        |body: &Value| answer(gateway.request(Some(&one.key)).header("idempotency-key", "k1").body(body.to_string()));
    let other_clock = json!({"events": [with(retrieval("https://a.test/"), json!({"timestamp": "2026-11-01T10:00:01Z"}))]});
    for body in [json!({"events": [retrieval("https://a.test/")]}), other_clock] {
        assert_eq!(idempotent(&body).await.status, 201);
    }
    let keys = keys_of(gateway.records(5).await, one.id);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), mine.len() / 2 + 1, "one Idempotency-Key is one request");
}

#[tokio::test]
async fn conversation_texts_above_the_declared_level_never_reach_the_log() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let turn = |level: Option<&str>| {
        json!({"type": "turn_completed", "timestamp": "2026-11-01T10:00:00Z", "session_id": SESSION, "content_url": "https://a.test/",
            "turn": {"privacy_level": level, "query_text": "planted-text", "query_intent": "planted-intent", "query_tokens": 3}})
    };
    let body = json!({"events": [turn(None), turn(Some("minimal")), turn(Some("intent")), turn(Some("full"))]});
    assert_eq!(gateway.post(&key, &body).await.status, 201);
    let record = gateway.records(1).await.remove(0);
    let kept: Vec<(bool, bool)> = record
        .events
        .iter()
        .map(|event| event.extra.as_ref().map_or("", |extra| extra.get()))
        .map(|extra| (extra.contains("planted-text"), extra.contains("planted-intent")))
        .collect();
    assert_eq!(kept, [(false, false), (false, false), (false, true), (true, true)]);
    assert!(record.events.iter().all(|event| event.site.is_empty()), "a turn is nobody's but the agent's");
}
