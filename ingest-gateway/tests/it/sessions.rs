//! Sessions and click tokens: starts, ends, uploads, sessions named only by events, and other organizations' access.

use crate::harness::{Gateway, SESSION, TestApp, event, send_request, try_body, with};
use schemas::identity::OrgType;
use schemas::ids::SessionId;
use schemas::log::{LogEvent, RecordKind};
use schemas::session::{PrivacyLevel, SessionReport};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

fn cited(session: &str, id: &str) -> Value {
    event("content_cited", json!({"id": id, "session_id": session}))
}

fn engaged(id: &str, token: &str) -> Value {
    event("content_engaged", json!({"id": id, "ctx_token": token}))
}

#[tokio::test]
async fn se1_starts_sessions_with_any_members() {
    let (gateway, key) = Gateway::with_agent().await;
    let bare = service_kit::testing::client().post(format!("{}/sessions/start", gateway.server.url)).header("x-api-key", &key);
    assert_eq!(send_request(bare).await.status, 201, "no body");
    let prior = Uuid::new_v4();
    let full = json!({"initiator_type": "agent", "agent_id": "bot", "manifest_ref": "https://a.test/x/.well-known/content-telemetry.json",
        "content_scope": "s", "external_session_id": "e", "prior_session_ids": [prior, prior], "privacy_level": "intent", "x": 1, "unset": null});
    let id = gateway.start_session(&key, &full).await;
    assert!(Uuid::try_parse(&id).is_ok());
    assert_ne!(gateway.start_session(&key, &json!({})).await, id);
    for not_an_object in ["null", "[]", "7"] {
        assert_eq!(try_body("/sessions/start", not_an_object).map(drop), Err((400, Vec::new())), "{not_an_object}");
    }
    let records = gateway.log.records(3).await;
    let facts =
        records.iter().filter_map(|record| record.session.as_ref()).find(|facts| facts.session_id.to_string() == id).unwrap();
    assert_eq!((facts.agent_id.as_deref(), facts.prior_session_ids.len()), (Some("bot"), 1), "duplicates are removed");
    assert!(records.iter().all(|record| record.kind == RecordKind::SessionStarted));
}

#[test]
fn se9_rejects_invalid_session_members() {
    let check = |path: &str, body: &Value, fault: &str| {
        assert_eq!(try_body(path, body.to_string()).map(drop), Err((422, vec![fault.to_owned()])), "{path} {body}");
    };
    for (body, fault) in [
        (json!({"initiator_type": "robot"}), "initiator_type:unknown_value"),
        (json!({"agent_id": 7}), "agent_id:wrong_type"),
        (json!({"manifest_ref": "http://a.test/.well-known/content-telemetry.json"}), "manifest_ref:bad_url"),
        (json!({"manifest_ref": "https://a.test/else.json"}), "manifest_ref:bad_url"),
        (json!({"prior_session_ids": ["x"]}), "prior_session_ids:bad_uuid"),
        (json!({"privacy_level": "loose"}), "privacy_level:unknown_value"),
        (json!({"started_at": "2026-11-01T10:00:00Z", "ended_at": "2026-11-01T09:00:00Z"}), "ended_at:before_start"),
    ] {
        check("/sessions/start", &body, fault);
        check("/sessions/bulk", &body, fault);
    }
    for (outcome, fault) in [
        (json!({"type": "won"}), "outcome.type:unknown_value"),
        (json!({}), "outcome.type:unknown_value"),
        (json!({"type": "conversion", "value_amount": -1}), "outcome.value_amount:out_of_range"),
        (json!({"type": "conversion", "value_amount": 1.5}), "outcome.value_amount:out_of_range"),
        (json!({"type": "conversion", "value_amount": 9_223_372_036_854_775_808_u64}), "outcome.value_amount:out_of_range"),
        (json!({"type": "conversion", "currency": "usd"}), "outcome.currency:bad_currency"),
        (json!({"type": "conversion", "currency": "💰"}), "outcome.currency:bad_currency"),
        (json!("conversion"), "outcome:wrong_type"),
    ] {
        let body = json!({"session_id": SESSION, "outcome": outcome});
        check("/sessions/end", &body, fault);
        check("/sessions/bulk", &body, fault);
    }
    let nothing_paid = json!({"session_id": SESSION, "outcome": {"type": "conversion", "value_amount": 0}});
    assert!(try_body("/sessions/end", nothing_paid.to_string()).is_ok());
}

#[tokio::test]
async fn se6_keeps_the_first_outcome() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = gateway.start_session(&key, &json!({})).await;
    let end = |outcome: Value| {
        let body = json!({"session_id": session.to_uppercase(), "outcome": outcome});
        let (gateway, key) = (&gateway, &key);
        async move { gateway.post(key, "/sessions/end", &body).await }
    };
    let conversion = json!({"type": "conversion", "value_amount": 1999, "currency": "EUR", "products": [1.10]});
    let ended = end(conversion.clone()).await;
    assert_eq!((ended.status, ended.body), (200, json!({"status": "ok", "session_id": session})));
    assert_eq!(end(conversion).await.status, 200, "the same outcome again");
    assert_eq!(end(Value::Null).await.status, 200, "without an outcome");
    let other = end(json!({"type": "browse"})).await;
    assert_eq!((other.status, other.body["code"].as_str()), (409, Some("conflict")));
    let late = gateway.report(&key, &json!({"events": [cited(&session, "late")]})).await;
    assert_eq!(late.status, 201, "late events are accepted");
}

#[tokio::test]
async fn parallel_ends_agree_on_one_outcome() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = gateway.start_session(&key, &json!({})).await;
    let ends = (0..50).map(|n| {
        let body = json!({"session_id": session, "outcome": {"type": "conversion", "value_amount": n % 2}});
        let (gateway, key) = (&gateway, &key);
        async move { gateway.post(key, "/sessions/end", &body).await.status }
    });
    let statuses = futures::future::join_all(ends).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 25, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 25, "{statuses:?}");
}

#[tokio::test]
async fn e1_sessions_belong_to_their_reporter() {
    let gateway = Gateway::start().await;
    let (mine, theirs) = (gateway.key("one", OrgType::Agent).await, gateway.key("two", OrgType::Agent).await);
    let session = gateway.start_session(&mine, &json!({})).await;
    let end = |key: &str, id: &str| {
        let (body, key, gateway) = (json!({"session_id": id}), key.to_owned(), &gateway);
        async move {
            let mut answer = gateway.post(&key, "/sessions/end", &body).await;
            answer.body["request_id"].take();
            (answer.status, answer.body)
        }
    };
    assert_eq!(
        end(&theirs, &session).await,
        end(&theirs, &Uuid::new_v4().to_string()).await,
        "another organization's session looks like a missing one"
    );
    assert_eq!(end(&theirs, &session).await.0, 404);
    let events = json!({"events": [cited(&session, "e1")]});
    assert_eq!(gateway.report(&theirs, &events).await.status, 201, "the id is that of their own session");
    assert_eq!(end(&theirs, &session).await.0, 200);
    let outcome = json!({"session_id": session, "outcome": {"type": "browse"}});
    assert_eq!(gateway.post(&mine, "/sessions/end", &outcome).await.status, 200, "the other session has no outcome yet");
}

async fn rows(gateway: &TestApp) -> Vec<(Uuid, Option<i16>)> {
    let rows = sqlx::query_as("SELECT session_id, privacy_level FROM sessions").fetch_all(&gateway.stores.pool).await;
    rows.expect("the query succeeds")
}

#[tokio::test]
async fn se4_sessions_named_by_events_can_be_used_immediately() {
    let gateway = Gateway::start().await;
    let other = Gateway::beside(&gateway).await;
    let key = gateway.key("relay", OrgType::Platform).await;
    let session = Uuid::new_v4();
    let event = with(cited(&session.to_string(), "e1"), json!({"session_id": null}));
    let events = json!({"session_id": session, "privacy_level": "intent", "events": [event]});
    assert_eq!(gateway.report(&key, &events).await.body, json!({"status": "ok", "events_created": 1}));
    assert_eq!(rows(&gateway).await, [], "the worker stores it later");
    let record = gateway.log.records(1).await.remove(0);
    let level = Some(PrivacyLevel::Intent);
    assert_eq!(record.named_sessions, [SessionReport { privacy_level: level, ..SessionReport::new(SessionId(session)) }]);

    let (end, link) = (json!({"session_id": session}), json!({"session_id": session, "content_url": "https://a.test/"}));
    for (path, body) in [("/sessions/end", &end), ("/click-tokens", &link)] {
        assert_eq!(
            other.post(&key, path, body).await.status,
            404,
            "{path}: unknown to other gateways until the worker stores it"
        );
    }
    assert_eq!(gateway.post(&key, "/click-tokens", &link).await.status, 201);
    assert_eq!(rows(&gateway).await, [(session, Some(1))], "with the event's level");
    sqlx::query("DELETE FROM click_tokens").execute(&gateway.stores.pool).await.unwrap();
    sqlx::query("DELETE FROM sessions").execute(&gateway.stores.pool).await.unwrap();
    assert_eq!(gateway.post(&key, "/sessions/end", &end).await.status, 200);
    assert_eq!(rows(&gateway).await, [(session, Some(1))]);
    let loosened = json!({"session_id": session, "privacy_level": "full", "events": []});
    assert_eq!(gateway.post(&key, "/sessions/bulk", &loosened).await.status, 201);
    assert_eq!(rows(&gateway).await, [(session, Some(1))], "a level only becomes stricter");
}

#[tokio::test]
async fn repeated_uploads_accept_zero_events() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = Uuid::new_v4().to_string();
    let event = |id: &str| with(cited(&session, id), json!({"session_id": null}));
    let body = json!({"session_id": session, "agent_id": "bot", "started_at": "2026-11-01T09:00:00Z", "ended_at": "2026-11-01T11:00:00Z",
        "events": [event("e1"), event("e2")], "outcome": {"type": "browse"}});
    for created in [2, 0] {
        let uploaded = gateway.post(&key, "/sessions/bulk", &body).await;
        let expected = json!({"status": "ok", "session_id": session, "events_created": created, "outcome_recorded": true});
        assert_eq!((uploaded.status, uploaded.body), (201, expected));
    }
    let other = with(body.clone(), json!({"outcome": {"type": "conversion"}}));
    assert_eq!(gateway.post(&key, "/sessions/bulk", &other).await.body["outcome_recorded"], false);
    let foreign = with(body, json!({"events": [cited(&Uuid::new_v4().to_string(), "e9")]}));
    assert_eq!(gateway.post(&key, "/sessions/bulk", &foreign).await.faults(), ["0.session_id:session_mismatch"]);
    let record = gateway.log.records(3).await.remove(0);
    assert_eq!((record.kind, record.events.len()), (RecordKind::Session, 2));
    assert!(record.events.iter().all(|event| event.agent_id.as_deref() == Some("bot") && event.session_id.is_some()));
}

#[tokio::test]
async fn idempotent_starts_return_the_same_session() {
    let (gateway, key) = Gateway::with_agent().await;
    let start = |name: &'static str| send_request(gateway.post_request("/sessions/start", &key).header("idempotency-key", name));
    let (a, b, c) = (start("k1").await, start("k1").await, start("k2").await);
    assert_eq!(a.body["session_id"], b.body["session_id"]);
    assert_ne!(a.body["session_id"], c.body["session_id"]);
}

/// Returns the events' agents by event id, and the sessions' agents named in records by session id.
async fn agents(gateway: &TestApp) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let records = gateway.log.all_records().await;
    let of_event = |event: &LogEvent| (event.id.clone().unwrap_or_default(), event.agent_id.clone().unwrap_or_default());
    let of_session = |named: &SessionReport| Some((named.session_id.to_string(), named.agent_id.clone()?));
    (
        records.iter().flat_map(|record| &record.events).map(of_event).collect(),
        records.iter().flat_map(|record| &record.named_sessions).filter_map(of_session).collect(),
    )
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn envelope(session: &str, agent: &str, id: &str) -> Value {
    json!({"session_id": session, "agent_id": agent, "events": [with(cited(session, id), json!({"session_id": null}))]})
}

#[tokio::test]
async fn leaves_session_agents_to_the_worker() {
    let gateway = Gateway::start().await;
    let agent = gateway.key("agent", OrgType::Agent).await;
    let shop = gateway.key("shop", OrgType::Platform).await;
    let started = gateway.start_session(&agent, &json!({"agent_id": "bot"})).await;
    let click = engaged("click", &gateway.create_token(&agent, &started, "https://a.test/x").await);
    assert_eq!(gateway.report(&shop, &json!({"agent_id": "shop-bot", "events": [click]})).await.status, 201);
    assert_eq!(gateway.report(&agent, &json!({"events": [cited(&started, "nameless")]})).await.status, 201);
    assert_eq!(gateway.report(&agent, &envelope(&started, "other", "named")).await.status, 201);
    let events = texts([("click", ""), ("nameless", ""), ("named", "other")]);
    assert_eq!(agents(&gateway).await, (events, texts([(&started, "other")])));
}

#[tokio::test]
async fn envelope_agent_applies_only_to_its_session() {
    let (gateway, key) = Gateway::with_agent().await;
    let (session, around) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let mut both = envelope(&around, "bot", "e2");
    both["events"].as_array_mut().unwrap().push(cited(&session, "e1"));
    for body in [json!({"agent_id": "bot", "events": [cited(&session, "e0")]}), both] {
        assert_eq!(gateway.report(&key, &body).await.status, 201);
    }
    let events = texts([("e0", "bot"), ("e1", "bot"), ("e2", "bot")]);
    assert_eq!(agents(&gateway).await, (events, texts([(&around, "bot")])));
}

#[tokio::test]
async fn ct4_ct3_click_tokens_bind_engagements_to_sessions() {
    let gateway = Gateway::start().await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let shop = gateway.seed().org("shop", OrgType::Platform).await;
    let owner = gateway.seed().owner_of("a.test").await;
    let session = gateway.start_session(&agent.key, &json!({})).await;
    let generate = |key: &str, session: &str, url: &str| {
        let (body, key, gateway) = (json!({"session_id": session, "content_url": url}), key.to_owned(), &gateway);
        async move { gateway.post(&key, "/click-tokens", &body).await }
    };
    let created = generate(&agent.key, &session, "https://A.test/x?ctx=old#y").await;
    assert_eq!(created.status, 201, "{}", created.body);
    let token = created.body["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("ctx_") && token.len() == 47, "{token}");
    assert_eq!(created.body["content_url"], "https://a.test/x");
    assert_eq!(generate(&shop.key, &session, "https://a.test/").await.status, 404, "not the caller's session");
    assert_eq!(generate(&owner.key, &session, "https://a.test/").await.status, 403, "an owner's key");
    for url in ["javascript:alert(1)", "data:,x", "https://", "/x"] {
        assert_eq!(generate(&agent.key, &session, url).await.status, 422, "{url}");
    }

    for (n, key) in [&shop.key, &owner.key, &agent.key].into_iter().enumerate() {
        let accepted = gateway.report(key, &json!({"events": [engaged(&format!("e{n}"), &token)]})).await;
        assert_eq!(accepted.status, 201, "{}", accepted.body);
    }
    let records = gateway.log.records(4).await;
    for record in records.iter().filter(|record| record.kind == RecordKind::Events) {
        let event = &record.events[0];
        assert_eq!(event.session_id.map(|id| id.to_string()).as_deref(), Some(session.as_str()));
        assert_eq!(event.session_org, (record.org != agent.id).then_some(agent.id));
    }
    let dump = serde_json::to_string(&records).unwrap();
    assert!(!dump.contains(&token), "a token is not stored");
}
