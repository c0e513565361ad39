//! Click tokens: which events they bind, and that they don't reveal details about their issuer.

use crate::harness::{Gateway, SESSION, TestApp, event, with};
use schemas::click_tokens::LinkRelation;
use schemas::identity::OrgType;
use schemas::log::LogEvent;
use schemas::secrets::PlainClickToken;
use serde_json::{Value, json};
use service_kit::testing::SeededOrg;
use std::collections::HashMap;
use uuid::Uuid;

const OTHER: &str = "00000000-0000-4000-8000-000000000001";

/// Creates an agent with a session at level `full` that names its agent.
async fn issuer(gateway: &TestApp) -> SeededOrg {
    let org = gateway.seed().org("issuer", OrgType::Agent).await;
    let session = json!({"session_id": SESSION, "agent_id": "bot", "privacy_level": "full"});
    assert_eq!(gateway.post(&org.key, "/sessions/bulk", &session).await.status, 201);
    org
}

async fn issuer_shop_and_token(url: &str) -> (TestApp, SeededOrg, SeededOrg, String) {
    let gateway = Gateway::start().await;
    let (issuer, shop) = (issuer(&gateway).await, gateway.seed().org("shop", OrgType::Platform).await);
    let token = gateway.create_token(&issuer.key, SESSION, url).await;
    (gateway, issuer, shop, token)
}

async fn expired(gateway: &TestApp, key: &str) -> String {
    let token = gateway.create_token(key, SESSION, "https://a.test/x").await;
    sqlx::query("UPDATE click_tokens SET expires_at = now() WHERE token_hash = $1")
        .bind(PlainClickToken::presented(&token).hash().as_bytes().as_slice())
        .execute(&gateway.stores.pool)
        .await
        .expect("the token expires");
    token
}

fn engaged(id: &str, members: Value) -> Value {
    with(event("content_engaged", json!({"id": id})), members)
}

fn checkout(id: &str, members: Value) -> Value {
    with(event("checkout_completed", json!({"id": id, "content_url": null})), members)
}

async fn stored(gateway: &TestApp) -> HashMap<String, LogEvent> {
    gateway.log.all_events().await.into_iter().filter_map(|event| Some((event.id.clone()?, event))).collect()
}

#[tokio::test]
async fn stores_unbound_tokens_as_hashes() {
    let gateway = Gateway::start().await;
    let issuer = issuer(&gateway).await;
    let (loose, strict) =
        (gateway.seed().org("loose", OrgType::Platform).await, gateway.seed().org("strict", OrgType::Platform).await);
    gateway.seed().make_strict(strict.id).await;
    let (expired, known) =
        (expired(&gateway, &issuer.key).await, gateway.create_token(&issuer.key, SESSION, "https://a.test/x").await);
    let mut expected = Vec::new();
    for (name, key) in [("loose", &loose.key), ("strict", &strict.key)] {
        for (n, token) in ["ct_0123456789abcdef", expired.as_str(), known.as_str()].into_iter().enumerate() {
            let [in_event, around, uploaded] = [(); 3].map(|()| Uuid::new_v4().to_string());
            let own = |id: &str| engaged(id, json!({"ctx_token": token, "presentation_id": SESSION, "session_id": OTHER}));
            let document = json!({"document_type": "event_batch", "schema_version": "1.0"});
            let bare = with(own(&around), json!({"ctx_token": null, "session_id": null}));
            let envelope = with(document.clone(), json!({"session_id": OTHER, "ctx_token": token, "events": [bare]}));
            let batch = with(document, json!({"events": [own(&in_event)]}));
            let upload = json!({"schema_version": "1.0", "session_id": OTHER, "started_at": "2026-11-01T10:00:00Z", "events": [own(&uploaded)]});
            for (path, body) in [("/events", &batch), ("/events", &envelope), ("/sessions/bulk", &upload)] {
                let taken = gateway.post(key, path, body).await;
                assert_eq!(taken.status, 201, "{name} {n} {path}: {}", taken.body);
            }
            expected.extend([in_event, around, uploaded].map(|id| (id, PlainClickToken::presented(token).hash())));
        }
    }
    let stored = stored(&gateway).await;
    for (id, hash) in expected {
        let event = &stored[&id];
        assert_eq!(event.session_id.map(|id| id.to_string()).as_deref(), Some(OTHER));
        assert_eq!((event.session_org, event.ctx_hash.is_some()), (None, false));
        assert!(event.kept_ctx_hash == Some(hash));
    }
}

#[tokio::test]
async fn rejects_an_issuers_token_for_another_session() {
    let gateway = Gateway::start().await;
    let issuer = issuer(&gateway).await;
    let token = gateway.create_token(&issuer.key, SESSION, "https://a.test/x").await;
    let beside = |session: &str| json!({"session_id": session, "events": [engaged("e", json!({"ctx_token": token}))]});
    for path in ["/events", "/sessions/bulk"] {
        let refused = gateway.post(&issuer.key, path, &beside(OTHER)).await;
        assert_eq!((refused.status, refused.faults()), (422, vec!["0.ctx_token:session_mismatch".to_owned()]), "{path}");
        assert_eq!(gateway.post(&issuer.key, path, &beside(SESSION)).await.status, 201, "{path}");
    }
}

/// Sends an event with a session and a token. Returns status, response and stored event, without the session id and random values.
async fn told_beside(
    gateway: &TestApp,
    key: &str,
    (path, place): (&str, &str),
    session: &str,
    token: &str,
) -> (u16, String, String) {
    let id = Uuid::new_v4().to_string();
    let event = match place {
        "event" => json!({"events": [engaged(&id, json!({"session_id": session, "ctx_token": token}))]}),
        _ => json!({"session_id": session, "events": [engaged(&id, json!({"ctx_token": token}))]}),
    };
    let answer = gateway.post_request(path, key).body(event.to_string()).send().await.expect("the gateway responds");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("the body arrives").replace(session, "it");
    let mut kept = stored(gateway).await.remove(&id).expect("it is on the log");
    kept.own_key = schemas::event_key::EventKey(0);
    let kept = serde_json::to_string(&kept).expect("an event serializes").replace(session, "it").replace(&id, "id");
    (status, text, kept)
}

#[tokio::test]
async fn s18_foreign_tokens_do_not_reveal_their_session() {
    let (gateway, issuer, shop, token) = issuer_shop_and_token("https://a.test/x").await;
    // Another session of the issuer, and one that does not exist.
    let (another, unknown) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    assert_eq!(gateway.post(&issuer.key, "/sessions/bulk", &json!({"session_id": another})).await.status, 201);
    for place in [("/events", "event"), ("/events", "envelope"), ("/sessions/bulk", "envelope")] {
        let right = told_beside(&gateway, &shop.key, place, SESSION, &token).await;
        assert_eq!(right.0, 201, "{place:?}: {right:?}");
        for session in [another.as_str(), unknown.as_str()] {
            assert_eq!(told_beside(&gateway, &shop.key, place, session, &token).await, right, "{place:?}");
        }
    }
}

#[tokio::test]
async fn e19_unknown_and_expired_tokens_get_the_same_error() {
    let gateway = Gateway::start().await;
    let issuer = issuer(&gateway).await;
    let shop = gateway.seed().org("shop", OrgType::Platform).await;
    let expired = expired(&gateway, &issuer.key).await;
    for event in [engaged("e", json!({})), checkout("e", json!({}))] {
        let send = |body: Value| {
            let (gateway, key) = (&gateway, &shop.key);
            async move {
                let mut answer = gateway.report(key, &body).await;
                answer.body["request_id"].take();
                (answer.status, answer.faults(), answer.body)
            }
        };
        let own = |token: &str| json!({"events": [with(event.clone(), json!({"ctx_token": token}))]});
        let around = |token: &str| json!({"ctx_token": token, "events": [event]});
        let unknown = send(own("ctx_never")).await;
        assert_eq!((unknown.0, unknown.1.as_slice()), (422, &["0.ctx_token:unknown_token".to_owned()][..]));
        for body in [own(&expired), around(&expired), around("ctx_never")] {
            assert_eq!(send(body).await, unknown);
        }
    }
}

#[tokio::test]
async fn stores_tokens_on_other_event_types_as_hashes() {
    // A valid token for another session. These types ignore it.
    let (gateway, _, shop, token) = issuer_shop_and_token("https://a.test/x").await;
    let types =
        ["content_retrieved", "content_grounded", "content_cited", "content_presented", "turn_completed", "com.example.own"];
    for event_type in types {
        let edge = json!({"source_role": "edge", "session_id": null});
        let members = if event_type == "content_retrieved" { edge } else { json!({}) };
        let members = with(json!({"type": event_type, "ctx_token": token, "session_id": OTHER}), members);
        let taken = gateway.report(&shop.key, &json!({"events": [engaged(event_type, members)]})).await;
        assert_eq!(taken.status, 201, "{event_type}: {}", taken.body);
    }
    let stored = stored(&gateway).await;
    for event_type in types {
        let event = &stored[event_type];
        assert!(event.kept_ctx_hash == Some(PlainClickToken::presented(&token).hash()), "{event_type}");
        assert_eq!((event.ctx_hash.is_some(), event.session_org), (false, None), "{event_type}");
    }
    let unbound = engaged("e", json!({"type": "content_cited", "ctx_token": token}));
    assert_eq!(gateway.report(&shop.key, &json!({"events": [unbound]})).await.faults(), ["0.session_id:required"]);
    gateway.seed().make_strict(shop.id).await;
    let strict = gateway.seed().org("strict", OrgType::Agent).await;
    gateway.seed().make_strict(strict.id).await;
    let retrieval =
        engaged(OTHER, json!({"type": "content_retrieved", "source_role": "edge", "ctx_token": "ct_0123456789abcdef"}));
    let document = json!({"document_type": "event_batch", "schema_version": "1.0", "events": [retrieval]});
    assert_eq!(gateway.report(&strict.key, &document).await.faults(), ["0.ctx_token:not_allowed"]);
}

#[tokio::test]
async fn events_with_a_token_get_the_links_url_and_owner() {
    let (gateway, issuer, shop, token) = issuer_shop_and_token("https://www.a.test/offer?x=1#y").await;
    let host = stored_site("https://www.a.test/");
    let named = engaged("named", json!({"ctx_token": token, "content_url": "https://b.test/"}));
    let by_token = [
        checkout("checkout", json!({"ctx_token": token})),
        engaged("click", json!({"ctx_token": token, "content_url": null})),
        engaged("content id", json!({"ctx_token": token, "content_url": null, "content_id": "doi:1"})),
    ];
    for event in by_token.iter().chain([&named]) {
        let taken = gateway.report(&shop.key, &json!({"events": [event]})).await;
        assert_eq!(taken.status, 201, "{event}: {}", taken.body);
    }
    let stored = stored(&gateway).await;
    let elsewhere = &stored["named"];
    assert_eq!(elsewhere.content_url.as_deref(), Some("https://b.test/"), "the event keeps its own URL");
    assert_eq!(
        (elsewhere.link, elsewhere.link_site.as_str()),
        (Some(LinkRelation::Other), host.as_str()),
        "the link's site is stored too"
    );
    for event in &by_token {
        let name = event["id"].as_str().unwrap();
        let event = &stored[name];
        assert_eq!((event.content_url.as_deref(), &event.site), (Some("https://www.a.test/offer?x=1"), &host), "{name}");
        assert_eq!((event.session_org, event.link_site.as_str()), (Some(issuer.id), ""), "{name}");
    }
    let beside = engaged("beside", json!({"ctx_token": "ctx_never", "session_id": OTHER, "content_url": null}));
    let refused = gateway.report(&shop.key, &json!({"events": [beside]})).await;
    assert_eq!(refused.faults(), ["0.content_url:required"], "a token with a session does not provide a URL");

    let (owner, other) = (gateway.seed().owner_of("a.test").await, gateway.seed().owner_of("b.test").await);
    let event = |id: &str| json!({"events": [checkout(id, json!({"ctx_token": token}))]});
    assert_eq!(gateway.report(&owner.key, &event("owner")).await.status, 201, "a click on the owner's page");
    assert_eq!(gateway.report(&other.key, &event("other")).await.status, 403);
}

fn stored_site(url: &str) -> String {
    let url = schemas::site::ContentUrl::parse(url).expect("a URL");
    url.site.expect("a site").as_str().to_owned()
}

#[tokio::test]
async fn s18_stored_events_do_not_reveal_the_tokens_session() {
    let (gateway, _, shop, token) = issuer_shop_and_token("https://a.test/x").await;
    let own = json!({"ctx_token": token, "data": {"query_text": "q", "engagement_type": "link_click"}});
    let taken = gateway
        .report(&shop.key, &json!({"agent_id": "the shop's", "privacy_level": "full", "events": [engaged("e", own)]}))
        .await;
    assert_eq!(taken.body, json!({"status": "ok", "events_created": 1}));
    let event = stored(&gateway).await.remove("e").unwrap();
    // If the level of the issuer's session applied, the reporter could infer it from the stored event.
    assert_eq!(event.data.unwrap().get(), r#"{"engagement_type":"link_click"}"#);
    assert_eq!(event.agent_id, None, "a reporter can't name another organization's agent");
}
