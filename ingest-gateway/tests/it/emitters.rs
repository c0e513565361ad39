//! K6: bodies in the shapes that real emitters send, and what of them reaches the log.

use crate::harness::Gateway;
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use schemas::log::LogEvent;
use serde_json::{Value, json};
use service_kit::testing::SeededOrg;

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const TELEMETRY_ID: &str = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
const AT: &str = "2026-11-01T10:00:00.123Z";

async fn gateway_and_agent() -> (Gateway, SeededOrg) {
    let gateway = Gateway::start().await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    (gateway, agent)
}

/// Posts one body that must be accepted, and reads back what it left.
async fn events_of(gateway: &Gateway, key: &str, body: &Value) -> Vec<LogEvent> {
    let accepted = gateway.post(key, body).await;
    assert_eq!(accepted.status, 201, "{body} {}", accepted.body);
    gateway.records(1).await.remove(0).events
}

fn data(event: &LogEvent) -> &str {
    event.data.as_ref().map_or("", |data| data.get())
}

fn extra(event: &LogEvent) -> &str {
    event.extra.as_ref().map_or("", |extra| extra.get())
}

#[tokio::test]
async fn an_edge_worker_reports_under_its_old_names() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().owner_of("a.test").await;
    let body = format!(
        r#"{{"events":[{{"type":"content_retrieved","timestamp":"{AT}","content_url":"https://www.a.test/x?utm=1","source_role":"edge","oa_telemetry_id":"{}","data":{{"user_agent":"GPTBot/1.1","bot_category":"training","verified":false,"detection":"ua","asn":13335,"asn_org":null,"country":"DE","response_bytes":9007199254740993}}}}]}}"#,
        TELEMETRY_ID.to_uppercase()
    );
    assert_eq!(gateway.post_text(Some(&owner.key), body).await.status, 201);
    let event = gateway.records(1).await.remove(0).events.remove(0);
    assert_eq!((event.source_role, event.correlation_key.is_some()), (Some(SourceRole::Edge), true));
    assert_eq!(event.content_telemetry_id.as_deref(), Some(TELEMETRY_ID), "the old name correlates, in any spelling");
    assert_eq!(
        data(&event),
        r#"{"user_agent":"GPTBot/1.1","purpose":"training","verified":false,"detection":"ua","asn":13335,"country":"DE","response_bytes":9007199254740993}"#
    );
    assert_eq!(extra(&event), "", "the old name is not kept beside the present one");
}

#[tokio::test]
async fn null_is_absence_everywhere() {
    let (gateway, agent) = gateway_and_agent().await;
    let body = json!({
        "document_type": null, "schema_version": null, "session_id": SESSION, "agent_id": null, "ctx_token": null,
        "privacy_level": null, "event": null, "session": null, "manifest_ref": null,
        "events": [
            {"id": null, "type": "content_cited", "timestamp": AT, "source_role": null, "oa_telemetry_id": null,
                "content_telemetry_id": null, "content_url": "https://a.test/", "content_id": null, "session_id": null,
                "ctx_token": null, "turn_id": null, "output_id": null, "product_id": null, "turn": null,
                "data": {"citation_type": "paraphrase", "position": null, "excerpt_tokens": null}},
            {"type": "turn_completed", "timestamp": AT, "content_url": null, "data": null,
                "turn": {"privacy_level": null, "query_text": "planted", "query_tokens": 3, "response_tokens": null}},
        ],
    });
    let events = events_of(&gateway, &agent.key, &body).await;
    assert_eq!((events[0].id.as_deref(), events[0].source_role), (None, None));
    assert_eq!(data(&events[0]), r#"{"citation_type":"paraphrase"}"#, "null position is no unknown position");
    assert_eq!((extra(&events[0]), data(&events[1])), ("", ""));
    assert_eq!(extra(&events[1]), r#"{"turn":{"query_tokens":3}}"#);
    assert_eq!(events[0].session_id.map(|id| id.to_string()).as_deref(), Some(SESSION));
}

#[tokio::test]
async fn a_null_filled_report_and_a_short_one_are_the_same_event() {
    let (gateway, agent) = gateway_and_agent().await;
    let short = json!({"events": [{"type": "content_cited", "timestamp": AT, "session_id": SESSION, "content_url": "https://a.test/",
        "data": {"citation_type": "reference"}}]});
    let long = json!({"events": [{"type": "content_cited", "timestamp": AT, "session_id": SESSION, "content_url": "https://a.test/",
        "id": null, "turn": null, "data": {"citation_type": "reference", "position": null}}]});
    for body in [&short, &long] {
        assert_eq!(gateway.post(&agent.key, body).await.status, 201);
    }
    let records = gateway.records(2).await;
    assert_eq!(records[0].events[0].own_key, records[1].events[0].own_key);
}

#[tokio::test]
async fn content_displayed_is_the_old_name_of_content_presented() {
    let (gateway, agent) = gateway_and_agent().await;
    let envelope = |version: Value| {
        json!({"schema_version": version, "session_id": SESSION, "events": [{"type": "content_displayed", "timestamp": AT,
            "source_role": "agent", "content_url": "https://a.test/", "data": {"display_type": "card", "n": 1}}]})
    };
    for version in [Value::Null, json!("0.1")] {
        assert_eq!(gateway.post(&agent.key, &envelope(version)).await.status, 201);
    }
    for record in gateway.records(2).await {
        assert_eq!(record.events[0].event_type, "content_presented");
        assert_eq!(data(&record.events[0]), r#"{"presentation_type":"card","n":1}"#);
    }
    let refused = gateway.post(&agent.key, &envelope(json!("1.0"))).await;
    assert_eq!((refused.status, refused.faults()), (422, vec![(Some(0), "type".to_owned(), "unknown_type".to_owned())]));
    assert!(refused.body["errors"][0]["detail"].as_str().is_some_and(|hint| hint.contains("content_presented")), "with a hint");
}

#[tokio::test]
async fn values_outside_a_closed_list_are_kept_as_unclassified() {
    let (gateway, agent) = gateway_and_agent().await;
    let cited = |data: Value| json!({"type": "content_cited", "timestamp": AT, "content_url": "https://a.test/", "data": data});
    let body = json!({"session_id": SESSION, "events": [
        cited(json!({"citation_type": "summary", "position": "top", "own": "summary"})),
        cited(json!({"citation_type": "contradiction", "position": "mentioned"})),
        {"type": "content_grounded", "timestamp": AT, "content_url": "https://a.test/", "data": {"scope": "galaxy", "position": 7}},
    ]});
    let events = events_of(&gateway, &agent.key, &body).await;
    assert_eq!(data(&events[0]), r#"{"citation_type":"unclassified","own":"summary","position":"unclassified"}"#);
    assert_eq!(data(&events[1]), r#"{"citation_type":"contradiction","position":"mentioned"}"#);
    assert_eq!(data(&events[2]), r#"{"position":7,"scope":"galaxy"}"#, "an open list, and a name that is not a citation's");
}

#[tokio::test]
async fn the_stricter_of_envelope_and_turn_decides_what_is_kept() {
    let (gateway, agent) = gateway_and_agent().await;
    let kept = async |around: Value, own: Value| {
        let turn =
            json!({"privacy_level": own, "query_text": "planted-text", "query_intent": "planted-intent", "query_tokens": 3});
        // what one envelope declares holds for its session from then on
        let body = json!({"session_id": uuid::Uuid::new_v4(), "privacy_level": around, "events":
            [{"id": format!("{around}{own}"), "type": "turn_completed", "timestamp": AT, "turn": turn}]});
        let accepted = gateway.post(&agent.key, &body).await;
        assert_eq!(accepted.status, 201, "{}", accepted.body);
    };
    let levels = [("full", "full"), ("full", "intent"), ("intent", "full"), ("minimal", "full")];
    for (around, own) in levels {
        kept(json!(around), json!(own)).await;
    }
    kept(Value::Null, Value::Null).await;
    kept(json!("summary"), Value::Null).await;
    let mut found = std::collections::BTreeMap::new();
    for event in gateway.records(6).await.into_iter().flat_map(|record| record.events) {
        let kept = (extra(&event).contains("planted-text"), extra(&event).contains("planted-intent"));
        found.insert(event.id.clone().unwrap_or_default().replace('"', ""), kept);
    }
    let expected = [
        ("fullfull", (true, true)),
        ("fullintent", (false, true)),
        ("intentfull", (false, true)),
        ("minimalfull", (false, false)),
        ("nullnull", (false, false)),
        ("summarynull", (true, true)),
    ];
    assert_eq!(found, expected.map(|(levels, kept)| (levels.to_owned(), kept)).into());
    let refused = gateway.post(&agent.key, &json!({"privacy_level": "loud", "events": [{}]})).await;
    assert!(refused.faults().contains(&(None, "privacy_level".to_owned(), "unknown_value".to_owned())), "{}", refused.body);
}

#[tokio::test]
async fn a_relay_may_deliver_five_hundred_events_twice() {
    let (gateway, relay) = gateway_and_agent().await;
    let name = |n: u32| uuid::Uuid::from_u128(0x1d3a_0000_5000_8000_0000_0000_0000_0000 | u128::from(n)).to_string();
    let events: Vec<Value> = (0..500)
        .map(|n| {
            json!({"id": name(n), "type": "content_grounded", "timestamp": AT, "content_url": format!("https://a.test/{n}"),
                "data": {"scope": "session"}})
        })
        .collect();
    let body = json!({"document_type": "event_batch", "schema_version": "1.0", "session_id": SESSION, "events": events});
    for _ in 0..2 {
        let accepted = gateway.post(&relay.key, &body).await;
        assert_eq!((accepted.status, accepted.body["status"].as_str()), (201, Some("ok")));
        assert!(accepted.body["events_created"].is_u64());
    }
    let records = gateway.records(2).await;
    let keys = |n: usize| records[n].events.iter().map(|event| event.own_key).collect::<Vec<_>>();
    assert_eq!(keys(0), keys(1), "a redelivery lands on the same keys");
}

#[tokio::test]
async fn x9_a_member_that_is_known_may_not_stand_twice() {
    let (gateway, agent) = gateway_and_agent().await;
    let event = |members: &str| {
        format!(r#"{{"events":[{{"type":"turn_completed","timestamp":"{AT}","session_id":"{SESSION}"{members}}}]}}"#)
    };
    for members in [
        r#","session_id":"x""#,
        r#","id":"a","\u0069d":"b""#,
        r#","turn":{"privacy_level":"minimal","privacy_level":"full","query_text":"q"}"#,
        r#","turn":{"privacy_level":"full","query_text":"q","query_text":"r"}"#,
        r#","data":{"citation_type":"reference","citation_type":"paraphrase"}"#,
    ] {
        let refused = gateway.post_text(Some(&agent.key), event(members)).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some("invalid_body")), "{members}: {}", refused.body);
        assert_eq!(refused.body["errors"][0]["code"], "repeated", "{members}");
    }
    assert_eq!(gateway.post_text(Some(&agent.key), event(r#","data":{"own":1,"own":2}"#)).await.status, 201);
}
