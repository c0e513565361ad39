//! `GET /sessions/{id}/document`: access to documents and their limits. The lab's end-to-end tests check the content.

use crate::click_fixture::{ClickFixture, alike, reported};
use crate::test_app::Observation;
use reqwest::StatusCode;
use schemas::identity::{OrgType, Scope};
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn only_the_reporter_can_read_a_document() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(3)).await;
    let document = |key: &str, id: &str| {
        let (key, path) = (key.to_owned(), format!("/sessions/{id}/document"));
        let clicks = &clicks;
        async move { clicks.get(&path, &[("x-api-key", &key)]).await }
    };
    let id = session.to_string();
    assert_eq!(document(&clicks.agent.key, &id).await.status, StatusCode::OK);
    assert_eq!(document(&clicks.agent.key, &id.to_uppercase()).await.body["session_id"], json!(id), "ids are case-insensitive");
    let unknown = document(&clicks.agent.key, &Uuid::new_v4().to_string()).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    for (key, asked) in [
        (&clicks.network.key, id.as_str()),
        (&clicks.owner.key, id.as_str()),
        (&clicks.agent.key, "not-a-uuid"),
        (&clicks.agent.key, "%ff"),
        (&clicks.agent.key, "00000000-0000-0000-0000-000000000000"),
    ] {
        assert_eq!(alike(&document(key, asked).await), alike(&unknown), "{asked}");
    }
    let writer = clicks.app.seed().key(clicks.agent.id, OrgType::Agent, &[Scope::TelemetryWrite]).await;
    assert_eq!(document(&writer, &id).await.status, StatusCode::FORBIDDEN);
    assert_eq!(clicks.get(&format!("/sessions/{id}/document"), &[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn documents_keep_order_and_exact_numbers() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(0)).await;
    let agent = clicks.agent.id;
    let shops = Observation {
        org_id: clicks.network.id.0,
        link: 3,
        ..reported(agent, session, "checkout_completed", "https://a.test/s")
    };
    let others = Observation {
        platform_id: clicks.network.id.0,
        org_id: clicks.network.id.0,
        ..reported(agent, session, "content_cited", "https://a.test/o")
    };
    let numbers = Observation {
        data: r#"{"scope":"session","n":1.10,"big":123456789012345678901234567890}"#.to_owned(),
        ..reported(agent, session, "content_grounded", "https://a.test/2")
    };
    clicks
        .app
        .insert(&[
            numbers.after(2),
            reported(agent, session, "content_cited", "https://a.test/1").after(1),
            reported(agent, session, "checkout_completed", "https://a.test/3").after(3),
            shops,
            others,
        ])
        .await;
    let answer = clicks.get(&format!("/sessions/{session}/document"), &[("x-api-key", &clicks.agent.key)]).await;
    let document = answer.body;
    let urls = |events: &serde_json::Value| {
        events.as_array().unwrap().iter().map(|event| event["content_url"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(urls(&document["events"]), ["https://a.test/1", "https://a.test/2"], "{}", answer.raw);
    let beside = &document["extensions"]["events"];
    assert_eq!(urls(beside), ["https://a.test/3", "https://a.test/s"], "a checkout isn't an event of the standard");
    assert_eq!((&beside[0]["reported_by"], &beside[1]["reported_by"]), (&json!(null), &json!("other")));
    assert!(
        answer.raw.contains(r#""n":1.10"#) && answer.raw.contains(r#""big":123456789012345678901234567890"#),
        "{}",
        answer.raw
    );
    assert_eq!(document["extensions"]["privacy_level"], "minimal");
}

#[tokio::test]
async fn too_long_sessions_use_the_strictest_level() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(None).await;
    let turn = |level: &str, ms| {
        let said = Observation {
            extra: json!({"turn": {"privacy_level": level}}).to_string(),
            ..reported(clicks.agent.id, session, "turn_completed", "")
        };
        said.after(ms)
    };
    let cited = reported(clicks.agent.id, session, "content_cited", "https://www.example.com/");
    let another = |ms: i64| Observation {
        event_key: ms.unsigned_abs().into(),
        turn_id: if ms == 1 { "turn-1".to_owned() } else { String::new() },
        output_id: String::new(),
        ..cited.clone().after(ms)
    };
    clicks.app.insert(&[turn("full", 0)]).await;
    clicks.app.insert(&(1..50_000).map(another).collect::<Vec<_>>()).await;
    let (path, key) = (format!("/sessions/{session}/document"), [("x-api-key", clicks.agent.key.as_str())]);
    let token = clicks.token(session, "https://www.example.com/").await;
    let document = clicks.get(&path, &key).await.body;
    assert_eq!(document["events"].as_array().map(Vec::len), Some(50_000));
    assert!(clicks.manifest(&token).await["events"][0].get("turn_id").is_some());
    clicks.app.insert(&[turn("minimal", 60_000)]).await;
    assert_eq!(clicks.get(&path, &key).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(clicks.manifest(&token).await["events"][0].get("turn_id").is_none(), "unread turns may be stricter");
}

/// 1,140 events of 60,000 bytes exceed the limit of 64 MiB per session. Retrying can't succeed.
#[tokio::test]
async fn too_large_sessions_return_413() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(None).await;
    let large = |key: i64| Observation {
        event_key: key.unsigned_abs().into(),
        turn_id: String::new(),
        output_id: String::new(),
        data: json!({ "note": "x".repeat(60_000) }).to_string(),
        ..reported(clicks.agent.id, session, "content_cited", "https://www.example.com/").after(key)
    };
    for keys in [1..600, 600..1_141] {
        clicks.app.insert(&keys.map(large).collect::<Vec<_>>()).await;
    }
    let (path, key) = (format!("/sessions/{session}/document"), [("x-api-key", clicks.agent.key.as_str())]);
    let answer = clicks.get(&path, &key).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    // A manifest reads only the members that it may show.
    let token = clicks.token(session, "https://www.example.com/").await;
    let manifest = clicks.manifest(&token).await;
    assert_eq!(manifest["events"].as_array().map(Vec::len), Some(1_140));
}

/// ClickHouse extracts the members that a manifest shows from `data`.
#[tokio::test]
async fn manifests_accept_any_json_encoding() {
    let clicks = ClickFixture::start().await;
    let large = "x".repeat(60_000);
    for (data, shown) in [
        (r#"{"scope":"session","cached":true,"query_tokens":7}"#, json!({"scope": "session", "cached": true, "query_tokens": 7})),
        (r#"{"sc\u006fpe":"ses\u0073ion","excerpt_tokens":7}"#, json!({"scope": "session", "excerpt_tokens": 7})),
        // ClickHouse can't parse numbers of more than 64 bits.
        (r#"{"scope":"turn","n":123456789012345678901234567890}"#, json!({"scope": "turn"})),
        (r#"{"position":"primary","own":{"position":"x"},"list":[{"scope":"y"}]}"#, json!({"position": "primary"})),
        (r#"{"scope":{"a":1},"cached":"yes","query_tokens":-1,"position":null,"citation_type":["x"]}"#, json!({})),
        ("{}", json!({})),
        ("", json!({})),
        (&format!(r#"{{"note":"{large}","scope":"session"}}"#), json!({"scope": "session"})),
        (&format!(r#"{{"scope":"{large}","cached":false}}"#), json!({"cached": false})),
    ] {
        let session = clicks.session(Some(3)).await;
        let data = data.to_owned();
        clicks
            .app
            .insert(&[Observation { data, ..reported(clicks.agent.id, session, "content_cited", "https://www.example.com/") }])
            .await;
        let manifest = clicks.manifest(&clicks.token(session, "https://www.example.com/").await).await;
        assert_eq!(manifest["events"][0]["data"], shown, "{manifest:.300}");
    }
}

#[tokio::test]
async fn applies_turn_levels_next_to_large_members() {
    let clicks = ClickFixture::start().await;
    let large = "x".repeat(60_000);
    for (extra, shows_turns) in [
        (format!(r#"{{"turn":{{"privacy_level":"full","query_text":"{large}"}},"note":"{large}"}}"#), true),
        (format!(r#"{{"turn":{{"privacy_level":"minimal","query_text":"{large}"}}}}"#), false),
        (format!(r#"{{"turn":{{"query_text":"{large}"}}}}"#), false),
        (r#"{"turn":{"privacy_level":7}}"#.to_owned(), false),
        (r#"{"turn":{"privacy_level":"s\u0075mmary"}}"#.to_owned(), true),
        (r#"{"n":123456789012345678901234567890,"turn":{"privacy_level":"full"}}"#.to_owned(), true),
        (r#"{"n":123456789012345678901234567890,"turn":{"privacy_level":"minimal"}}"#.to_owned(), false),
        (r#"{"turn":null}"#.to_owned(), false),
        (String::new(), false),
    ] {
        let session = clicks.session(None).await;
        let turn = Observation { extra: extra.clone(), ..reported(clicks.agent.id, session, "turn_completed", "") };
        clicks.app.insert(&[turn, reported(clicks.agent.id, session, "content_cited", "https://www.example.com/")]).await;
        let manifest = clicks.manifest(&clicks.token(session, "https://www.example.com/").await).await;
        assert_eq!(manifest["events"][0].get("turn_id").is_some(), shows_turns, "{extra:.80}: {manifest}");
    }
}

/// 9,000 URLs of 8,000 bytes exceed a manifest's limit.
#[tokio::test]
async fn too_large_manifests_return_413() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(0)).await;
    let page = |n: usize| format!("https://www.example.com/{n}/{}", "x".repeat(8_000));
    for block in 0..9 {
        let pages = (block * 1_000..block * 1_000 + 1_000).map(page);
        let rows: Vec<_> = pages.map(|page| reported(clicks.agent.id, session, "content_cited", &page)).collect();
        clicks.app.insert(&rows).await;
    }
    let answer = clicks.look_up(&clicks.token(session, "https://www.example.com/").await).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{:.300}", answer.raw);
    assert!(!answer.headers.contains_key("retry-after"), "a retry can't succeed");
}
