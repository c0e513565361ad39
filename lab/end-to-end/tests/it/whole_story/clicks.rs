//! Click tokens: an agent creates them, and a network reports events with only the token. The network learns nothing about the agent; the
//! agent and the publisher see the events.

use super::{DOMAIN, Person, Program, Requests, Story, TestApp};
use crate::demo::caught_up;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::testing::send_request;
use std::collections::BTreeSet;
use uuid::Uuid;

const LEVELS: [&str; 4] = ["full", "summary", "intent", "minimal"];
const FORMATS: [&str; 3] = ["application/json", "application/x-ndjson", "text/csv"];
/// The name that the agent gives itself.
const AGENT: &str = "whispering-agent";
/// Known only to the network.
const ORDER: &str = "order-of-the-network";

/// An agent's session, with a token that the network has used in a report.
struct TokenReport {
    session: String,
    token: String,
    url: String,
}

/// A publisher with its host, an agent and a network, each with an API key.
struct Participants {
    app: TestApp,
    publisher: Person,
    publisher_key: Program,
    agent: Person,
    agent_org: String,
    agent_key: Program,
    network_org: String,
    network_key: Program,
}

impl Participants {
    async fn begin() -> Self {
        let world = Story::start().await;
        let publisher = world.sign_in("publisher@story.test").await;
        world.publish(&publisher).await;
        let publisher_key = world.create_key(&publisher).await;
        let agent = world.sign_in("agent@story.test").await;
        let agent_org = world.create_approved_organization(&agent, "agent").await;
        let agent_key = world.create_key(&agent).await;
        let network = world.sign_in("network@story.test").await;
        let network_org = world.create_approved_organization(&network, "platform").await;
        let network_key = world.create_key(&network).await;
        Self { app: world, publisher, publisher_key, agent, agent_org, agent_key, network_org, network_key }
    }
}

/// Reports as a program, which must return 201.
async fn reported(world: &TestApp, program: &Program, events: &Value) -> Value {
    world.report(&program.0, events).await.expect(201).body
}

/// The agent creates a token, and the network reports a click and a checkout with only that token.
async fn clicked(world: &TestApp, agent: &Program, network: &Program, level: &str, number: usize) -> TokenReport {
    let session = world.start_session(&agent.0, &json!({"agent_id": AGENT, "privacy_level": level})).await;
    let url = format!("https://www.{DOMAIN}/offer/{number}");
    let cited = json!({"type": "content_cited", "timestamp": "2026-11-01T09:00:00Z", "content_url": url, "turn_id": format!("turn-{session}"),
        "data": {"citation_type": "paraphrase"}});
    reported(world, agent, &json!({"session_id": session, "events": [cited]})).await;
    let token = world.create_token(&agent.0, &session, &url).await;
    let events = json!([
        {"type": "content_engaged", "timestamp": "2026-11-01T10:00:00Z", "ctx_token": token, "id": format!("click-of-the-network-{number}"),
            "data": {"engagement_type": "link_click", "order": ORDER}},
        {"type": "checkout_completed", "timestamp": "2026-11-01T10:05:00Z", "ctx_token": token, "source_role": "index",
            "data": {"value_amount": 4999, "currency": "EUR", "order": ORDER}},
    ]);
    reported(world, network, &json!({"events": events})).await;
    TokenReport { session, token, url }
}

async fn text(world: &TestApp, program: &Program, path: &str, accept: &str) -> (u16, String) {
    let answer = send_request(world.request(Method::GET, path, &program.0).header("accept", accept)).await;
    (answer.status, answer.raw)
}

async fn items(world: &TestApp, program: &Program, path: &str) -> Vec<Value> {
    world.page(&program.0, path, &[]).await["items"].as_array().unwrap().clone()
}

/// Like [`items`], once everything that was reported is stored.
async fn all_items(world: &TestApp, program: &Program, path: &str) -> Vec<Value> {
    caught_up(world, &world.demo).await;
    items(world, program, path).await
}

/// Returns seven spellings of an id in which it could leak, in lower case unless case matters.
fn spellings(id: &str) -> Vec<String> {
    let uuid: Uuid = id.parse().unwrap();
    let each = |text: &str, spell: fn(char) -> String| text.chars().map(spell).collect::<String>();
    let reversed: String = id.chars().rev().collect();
    vec![
        id.to_owned(),
        id.to_uppercase(),
        uuid.simple().to_string(),
        uuid.urn().to_string(),
        // The last character encodes only two bits.
        STANDARD_NO_PAD.encode(uuid.as_bytes())[..21].to_owned(),
        each(id, |c| format!("%{:02x}", u32::from(c))),
        each(&reversed, |c| format!("\\u{:04x}", u32::from(c))),
        reversed,
    ]
}

#[tokio::test]
async fn s18_networks_cannot_use_click_tokens_to_see_sessions() {
    let Participants { app: world, publisher, publisher_key, agent, agent_org, agent_key, network_org, network_key } =
        &Participants::begin().await;
    let visible = json!({"visible_in_click_token_lookups": true});
    world.send_expecting(publisher, Method::PATCH, "/settings", visible, 200).await;

    let mut told = Vec::new();
    for is_shared in [false, true] {
        let shared = json!({"share_sessions_via_click_tokens": is_shared});
        world.send_expecting(agent, Method::PATCH, "/settings", shared, 200).await;
        for level in LEVELS {
            let click = clicked(world, agent_key, network_key, level, told.len()).await;
            told.push(click);
            learns_nothing(world, network_key, &told, (agent_org, is_shared)).await;
        }
        sees_its_clicks(world, agent_key, &told, network_org).await;
        sees_whose_they_were(world, publisher_key, &told, agent_org).await;
    }
}

/// Checks everything that the network can read.
async fn learns_nothing(world: &TestApp, network: &Program, told: &[TokenReport], (agent_org, is_shared): (&str, bool)) {
    let own = all_items(world, network, "/agent/events").await;
    assert_eq!(own.len(), 2 * told.len());
    for item in own {
        for hidden in ["session_id", "platform_id", "agent_id", "content_url"] {
            assert_eq!(item[hidden], "", "{hidden} of {item}");
        }
        assert_eq!((&item["event_data"]["order"], &item["reported_by"]), (&json!(ORDER), &json!("self")));
    }
    let last = told.last().unwrap();
    let mut answers = Vec::new();
    for path in ["/agent/events".to_owned(), "/agent/events?limit=1&offset=1".to_owned(), format!("/ctx/{}", last.token)] {
        for accept in FORMATS {
            answers.push(text(world, network, &path, accept).await);
        }
    }
    assert_eq!(answers.last().unwrap().0, if is_shared { 200 } else { 404 }, "unexpected status of the manifest");
    for path in ["/agent/summary", "/agent/series", "/agent/series?split=agent", "/agent/series?split=type"] {
        let answer = text(world, network, path, FORMATS[0]).await;
        assert_eq!(answer.0, 200, "{path}: {}", answer.1);
        answers.push(answer);
    }
    for path in [format!("/sessions/{}/document", last.session), "/content-owners/events".to_owned()] {
        let answer = text(world, network, &path, FORMATS[0]).await;
        assert!(matches!(answer.0, 403 | 404), "{path}: {}", answer.1);
    }
    for (_, text) in &answers {
        let ids = told.iter().map(|told| told.session.as_str()).chain([agent_org]);
        for secret in ids.flat_map(spellings).chain([AGENT.to_owned()]) {
            assert!(!text.contains(&secret), "{secret} in {text}");
        }
    }
}

/// Checks that the agent sees the events with its tokens, but nothing about their reporter.
async fn sees_its_clicks(world: &TestApp, agent: &Program, told: &[TokenReport], network_org: &str) {
    let items = items(world, agent, "/agent/events").await;
    let (others, own): (Vec<&Value>, Vec<&Value>) = items.iter().partition(|item| item["reported_by"] == "other");
    assert_eq!((others.len(), own.len()), (2 * told.len(), told.len()));
    for told in told {
        let of_session: Vec<&&Value> = others.iter().filter(|item| item["session_id"] == told.session).collect();
        let data: BTreeSet<String> = of_session.iter().map(|item| item["event_data"].to_string()).collect();
        let expected = [
            json!({"engagement_type": "link_click", "observers": ["agent"]}).to_string(),
            json!({"value_amount": 4999, "currency": "EUR", "observers": ["index"]}).to_string(),
        ];
        assert_eq!(data, expected.into(), "{of_session:?}");
        assert!(of_session.iter().all(|item| item["content_url"] == told.url && item["agent_id"] == AGENT), "{of_session:?}");
        let (status, document) = text(world, agent, &format!("/sessions/{}/document", told.session), FORMATS[0]).await;
        assert_eq!(status, 200, "{document}");
        let read: Value = serde_json::from_str(&document).unwrap();
        let beside = read["extensions"]["events"].as_array().unwrap();
        let types: Vec<&str> = beside.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["content_engaged", "checkout_completed"], "{document}");
        assert!(beside.iter().all(|event| event["reported_by"] == "other" && event["content_url"] == told.url), "{document}");
        for text in [document, items.iter().map(Value::to_string).collect()] {
            for hidden in [ORDER, "of-the-network", network_org] {
                assert!(!text.contains(hidden), "{hidden} in {text}");
            }
        }
    }
}

/// Checks that the publisher sees both events and their sessions.
async fn sees_whose_they_were(world: &TestApp, publisher: &Program, told: &[TokenReport], agent_org: &str) {
    let items = items(world, publisher, "/content-owners/events").await;
    for told in told {
        let of_session: Vec<&Value> = items.iter().filter(|item| item["session_id"] == told.session).collect();
        let types: BTreeSet<&str> = of_session.iter().map(|item| item["event_type"].as_str().unwrap()).collect();
        assert_eq!(types, ["checkout_completed", "content_cited", "content_engaged"].into(), "{of_session:?}");
        for item in of_session {
            let whose = (&item["platform_id"], &item["agent_id"], &item["content_url"]);
            assert_eq!(whose, (&json!(agent_org), &json!(AGENT), &json!(told.url)), "{item}");
            assert!(!item.to_string().contains(ORDER), "an owner sees an unknown member: {item}");
        }
    }
}

/// Returns what the network reads about its own session, without the session id, the event id and values derived from them.
async fn own_session_read(world: &TestApp, network: &Program, session: &str, id: &str) -> Vec<String> {
    let mut of_session = all_items(world, network, "/agent/events").await;
    of_session.retain(|item| item["session_id"] == session);
    assert!(!of_session.is_empty());
    let (status, document) = text(world, network, &format!("/sessions/{session}/document"), FORMATS[0]).await;
    assert_eq!(status, 200, "{document}");
    let texts = of_session.iter().map(Value::to_string).chain([document]);
    texts.map(|text| text.replace(session, "it").replace(id, "id")).collect()
}

/// The network tries to find out a token's session: it reports the token with that session, with another session of the agent, and with an
/// unknown one.
#[tokio::test]
async fn s18_claimed_sessions_reveal_nothing_about_a_token() {
    let Participants { app: world, publisher_key, agent_key, network_key, network_org, .. } = &Participants::begin().await;
    let click = clicked(world, agent_key, network_key, "full", 0).await;
    let another = clicked(world, agent_key, network_key, "full", 1).await;
    let clicks =
        async || items(world, agent_key, "/agent/events").await.into_iter().filter(|item| item["reported_by"] == "other").count();
    caught_up(world, &world.demo).await;
    assert_eq!(clicks().await, 4, "the agent sees its clicks");
    let sessions = [click.session.clone(), another.session, Uuid::new_v4().to_string()];
    let mut told = Vec::new();
    for session in &sessions {
        let id = Uuid::new_v4().to_string();
        let engaged = json!({"type": "content_engaged", "timestamp": "2026-11-01T12:00:00Z", "ctx_token": click.token, "id": id,
            "session_id": session, "content_url": click.url});
        let answer = reported(world, network_key, &json!({"events": [engaged]})).await;
        told.push((answer, own_session_read(world, network_key, session, &id).await));
    }
    assert!(told.iter().all(|each| *each == told[0]), "{told:#?}");

    assert_eq!(clicks().await, 4, "the agent must see none of them as a click");
    let items = items(world, publisher_key, "/content-owners/events").await;
    let mut of_network: Vec<&Value> = items.iter().filter(|item| item["platform_id"] == **network_org).collect();
    of_network.retain(|item| sessions.iter().any(|session| item["session_id"] == **session));
    assert_eq!(of_network.len(), 3, "the owner must see each as the network's event: {items:?}");
}

/// The publisher's second host.
const SHOP: &str = "story-shop.test";

/// A reader follows the agent's link to the publisher's first host and engages with the second.
#[tokio::test]
async fn s18_only_the_owner_of_both_hosts_sees_the_click() {
    let Participants { app: world, publisher, publisher_key, agent_org, agent_key, network_org, network_key, .. } =
        &Participants::begin().await;

    let click = clicked(world, agent_key, network_key, "full", 0).await;
    let engaged = json!({"type": "content_engaged", "timestamp": "2026-11-01T11:00:00Z", "ctx_token": click.token, "id": "click-at-the-shop",
        "content_url": format!("https://{SHOP}/cart")});
    reported(world, network_key, &json!({"events": [engaged]})).await;
    let added = world.send_expecting(publisher, Method::POST, "/domains", json!({"domain": SHOP}), 201).await;
    let text = format!("svc-verify={}", added["verification_token"].as_str().unwrap());
    world.zone.lock().unwrap().insert(format!("_content-telemetry.{SHOP}"), text);
    world
        .send_expecting(publisher, Method::POST, &format!("/domains/{}/verify", added["id"].as_str().unwrap()), Value::Null, 200)
        .await;

    let at_shop = format!("/content-owners/events?domain={SHOP}");
    let found = all_items(world, publisher_key, &at_shop).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let whose = |item: &Value| json!([item["session_id"], item["platform_id"], item["agent_id"]]);
    assert_eq!(whose(&found[0]), json!([click.session, agent_org, AGENT]), "{found:?}");

    // Without the link's host, an owner sees only the reporter.
    let added = world.send_expecting(publisher, Method::GET, "/domains", Value::Null, 200).await;
    let paper = added.as_array().unwrap().iter().find(|domain| domain["domain"] == DOMAIN).unwrap();
    world
        .send_expecting(publisher, Method::DELETE, &format!("/domains/{}", paper["id"].as_str().unwrap()), Value::Null, 204)
        .await;
    let found = items(world, publisher_key, &at_shop).await;
    assert_eq!(whose(&found[0]), json!(["", network_org, ""]), "{found:?}");
}
