//! `GET /sessions/{id}/document`: whose document it is. What it holds is tested end to end, beside the all-in-one.

use crate::sessions_world::{Clicks, Reported, reported};
use reqwest::StatusCode;
use schemas::identity::{OrgType, Scope};
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn only_the_organisation_that_reported_a_session_reads_its_document() {
    let clicks = Clicks::start().await;
    let session = clicks.session(Some(3)).await;
    let document = |key: &str, id: &str| {
        let (key, path) = (key.to_owned(), format!("/sessions/{id}/document"));
        let clicks = &clicks;
        async move { clicks.get(&path, &[("x-api-key", &key)]).await }
    };
    let id = session.to_string();
    assert_eq!(document(&clicks.agent.key, &id).await.status, StatusCode::OK);
    assert_eq!(document(&clicks.agent.key, &id.to_uppercase()).await.json()["session_id"], json!(id), "its spellings are one id");
    let unknown = document(&clicks.agent.key, &Uuid::new_v4().to_string()).await.alike();
    assert_eq!(unknown.0, StatusCode::NOT_FOUND);
    for (key, asked) in [
        (&clicks.network.key, id.as_str()),
        (&clicks.owner.key, id.as_str()),
        (&clicks.agent.key, "not-a-uuid"),
        (&clicks.agent.key, "%ff"),
        (&clicks.agent.key, "00000000-0000-0000-0000-000000000000"),
    ] {
        assert_eq!(document(key, asked).await.alike(), unknown, "{asked}");
    }
    let writer = clicks.world.seed().key(clicks.agent.id, OrgType::Agent, &[Scope::TelemetryWrite]).await;
    assert_eq!(document(&writer, &id).await.status, StatusCode::FORBIDDEN);
    assert_eq!(clicks.get(&format!("/sessions/{id}/document"), &[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_document_holds_the_sessions_own_events_in_order_and_nobody_elses_and_keeps_numbers_as_they_were() {
    let clicks = Clicks::start().await;
    let session = clicks.session(Some(0)).await;
    let agent = clicks.agent.id;
    let shops = Reported { org_id: clicks.network.id.0, ..reported(agent, session, "checkout_completed", "https://a.test/s") };
    let others = Reported {
        platform_id: clicks.network.id.0,
        org_id: clicks.network.id.0,
        ..reported(agent, session, "content_cited", "https://a.test/o")
    };
    let numbers = Reported {
        data: r#"{"scope":"session","n":1.10,"big":123456789012345678901234567890}"#.to_owned(),
        ..reported(agent, session, "content_grounded", "https://a.test/2")
    };
    clicks
        .report(&[
            numbers.after(2),
            reported(agent, session, "content_cited", "https://a.test/1").after(1),
            reported(agent, session, "checkout_completed", "https://a.test/3").after(3),
            shops,
            others,
        ])
        .await;
    let answer = clicks.get(&format!("/sessions/{session}/document"), &[("x-api-key", &clicks.agent.key)]).await;
    let document = answer.json();
    let urls = |events: &serde_json::Value| {
        events.as_array().unwrap().iter().map(|event| event["content_url"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(urls(&document["events"]), ["https://a.test/1", "https://a.test/2"], "{}", answer.text);
    assert_eq!(urls(&document["extensions"]["events"]), ["https://a.test/3"], "a checkout is no event of the standard");
    assert!(
        answer.text.contains(r#""n":1.10"#) && answer.text.contains(r#""big":123456789012345678901234567890"#),
        "{}",
        answer.text
    );
    assert_eq!(document["extensions"]["privacy_level"], "minimal");
}
