//! S10 through the stores: sessions that contain their id in every member that a reporter can set.

use crate::click_fixture::{ClickFixture, reported};
use crate::test_app::Observation;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use service_kit::testing::random_seed;
use uuid::Uuid;

const PAGE: &str = "https://www.example.com/page";

#[tokio::test]
async fn s10_sessions_show_only_what_their_level_allows() {
    let clicks = ClickFixture::start().await;
    let mut random = StdRng::seed_from_u64(random_seed());
    let (mut rows, mut planted) = (Vec::new(), Vec::new());
    for number in 0..200_i16 {
        let level = number % 4;
        let session = clicks.session(Some(level)).await;
        let spelt = spellings(session);
        for _ in 0..random.random_range(1..6) {
            let mut text = || spelt.choose(&mut random).unwrap().clone();
            let data = json!({"scope": text(), "cached": text(), "citation_type": text(), "position": "primary", "excerpt_tokens": 4,
                "note": text(), "nested": {"a": [text()]}});
            let url = format!("https://www.example.com/{number}?x={}", text().replace([' ', '\\'], ""));
            let (turn_id, output_id) = (format!("t-{}", text()), text());
            let kind = ["content_grounded", "content_cited", "content_presented"].choose(&mut random).unwrap();
            let url = if random.random::<bool>() { url } else { format!("https://www.example.com/{number}") };
            rows.push(Observation {
                turn_id,
                output_id,
                ..reported(clicks.agent.id, session, kind, &url).data(&data.to_string())
            });
        }
        rows.push(reported(clicks.agent.id, session, "content_cited", PAGE));
        let token = clicks.token(session, &format!("{PAGE}?s={session}")).await;
        planted.push((level, spelt, token));
    }
    clicks.app.insert(&rows).await;
    for (level, spelt, token) in planted {
        let manifest = clicks.manifest(&token).await;
        let text = manifest.to_string();
        for spelling in spelt {
            assert!(!text.contains(&spelling) && !text.contains(&json!(spelling).to_string()), "{spelling} in {text}");
        }
        assert_eq!(manifest["click_content_url"], Value::Null);
        let events = manifest["events"].as_array().unwrap();
        assert!(events.iter().any(|event| event["content_url"] == PAGE));
        for event in events {
            let is_own = event["content_url"] == PAGE;
            assert_eq!(event.get("turn_id").is_some(), level >= 1 && is_own, "{event}");
            let names: Vec<&str> = event["data"].as_object().unwrap().keys().map(String::as_str).collect();
            let expected: &[&str] = match (level, is_own) {
                (0, _) => &["excerpt_tokens"],
                (_, false) => &["excerpt_tokens", "position"],
                (_, true) => &["excerpt_tokens", "position", "scope"],
            };
            assert_eq!(names, expected, "{event}");
        }
    }
}

fn spellings(session: Uuid) -> Vec<String> {
    let text = session.to_string();
    vec![
        text.clone(),
        text.to_uppercase(),
        session.simple().to_string(),
        session.urn().to_string(),
        session.braced().to_string(),
        text.chars().rev().map(|c| format!("\\u{:04x}", u32::from(c))).collect(),
        BASE64_STANDARD.encode(session.as_bytes()),
        BASE64_URL_SAFE_NO_PAD.encode(session.as_bytes()),
        BASE64_STANDARD.encode(&text),
        text.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        text.bytes().map(|byte| format!("\\u{byte:04x}")).collect(),
        text.chars().rev().collect(),
    ]
}
