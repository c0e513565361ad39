//! What a click token reveals: events that one organization reports with another's token, in every read (S18).

use crate::click_fixture::ClickFixture;
use crate::test_app::{Observation, fetch_on};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::client;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Stored codes for the token's URL, another URL on its host, and a URL on another host.
const TAKEN: i8 = 1;
const SAME: i8 = 2;
const OTHER: i8 = 3;

const FORMATS: [&str; 3] = ["application/json", "application/x-ndjson", "text/csv"];

/// Returns a click or checkout that a network reports with a token of the agent's session.
fn clicked(clicks: &ClickFixture, session: Uuid, key: u128, host: &str, link: i8) -> Observation {
    let row = fetch_on(host, key).by_org(clicks.network.id).bound(clicks.agent.id, link).agent("secret-agent");
    let data = json!({"engagement_type": "link_click", "value_amount": 4999, "currency": "EUR", "order": "order-of-network"});
    Observation {
        session_id: session,
        event_type: (if key.is_multiple_of(2) { "content_engaged" } else { "checkout_completed" }).to_owned(),
        content_telemetry_id: format!("telemetry-of-network-{key}"),
        ..row.id(&format!("id-of-network-{key}")).after(i64::try_from(key).unwrap()).data(&data.to_string())
    }
}

async fn text(clicks: &ClickFixture, key: &str, path: &str, accept: &str) -> String {
    let request = client().get(format!("{}{path}", clicks.app.server.url)).header("x-api-key", key).header("accept", accept);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{path} as {accept}");
    answer.text().await.unwrap()
}

async fn items(clicks: &ClickFixture, key: &str, path: &str) -> Vec<Value> {
    let page: Value = serde_json::from_str(&text(clicks, key, path, FORMATS[0]).await).unwrap();
    let items = page["items"].as_array().unwrap().clone();
    assert_eq!(page["total"], items.len(), "{path}");
    items
}

/// Returns values that only the issuer may see.
fn secrets(clicks: &ClickFixture, session: Uuid) -> Vec<String> {
    vec![
        session.to_string(),
        session.simple().to_string(),
        session.as_u128().to_string(),
        clicks.agent.id.to_string(),
        clicks.agent.id.0.simple().to_string(),
        "secret-agent".to_owned(),
        "link-of-token".to_owned(),
    ]
}

#[tokio::test]
async fn s18_reads_do_not_reveal_the_token_issuer_to_reporters() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(0)).await;
    let taken = clicked(&clicks, session, 2, "example.com", TAKEN).url("https://example.com/link-of-token");
    let same = clicked(&clicks, session, 3, "example.com", SAME).url("https://example.com/landed");
    let other = clicked(&clicks, session, 4, "elsewhere.test", OTHER);
    let own =
        fetch_on("example.com", 5).by_org(clicks.network.id).session(77).agent("own-agent").named("content_engaged").after(5);
    let own_id = own.key_id();
    clicks.app.insert(&[taken, same, other, own]).await;
    for share in [false, true] {
        clicks.share(clicks.agent.id, share).await;
        for accept in FORMATS {
            for path in ["/agent/events", "/agent/events?since=2026-01-01&until=2026-01-02", "/agent/events?limit=1&offset=1"] {
                let told = text(&clicks, &clicks.network.key, path, accept).await;
                for secret in secrets(&clicks, session) {
                    assert!(!told.to_lowercase().contains(&secret), "{secret} in {path} as {accept}: {told}");
                }
            }
        }
        let told = items(&clicks, &clicks.network.key, "/agent/events").await;
        let told: Vec<Value> = told
            .iter()
            .map(|item| {
                json!([
                    item["event_id"],
                    item["session_id"],
                    item["platform_id"],
                    item["agent_id"],
                    item["content_url"],
                    item["reported_by"]
                ])
            })
            .collect();
        let network = clicks.network.id.to_string();
        assert_eq!(
            told,
            [
                json!([own_id, Uuid::from_u128(77), network, "own-agent", "https://example.com/", "self"]),
                json!(["id-of-network-4", "", "", "", "https://elsewhere.test/", "self"]),
                json!(["id-of-network-3", "", "", "", "https://example.com/landed", "self"]),
                json!(["id-of-network-2", "", "", "", "", "self"]),
            ]
        );
        let document = clicks.get(&format!("/sessions/{session}/document"), &[("x-api-key", &clicks.network.key)]).await;
        assert_eq!(document.status, 404);
    }
}

#[tokio::test]
async fn token_issuers_see_clicks_but_not_their_reporters() {
    let clicks = ClickFixture::start().await;
    let (session, another) = (clicks.session(Some(3)).await, clicks.session(Some(3)).await);
    let cited = Observation {
        session_id: session,
        ..fetch_on("example.com", 1).by_org(clicks.agent.id).agent("secret-agent").named("content_cited").id("own").after(10)
    };
    let third = clicks.app.seed().org("Third", OrgType::Platform).await;
    let rows = [
        cited,
        clicked(&clicks, session, 2, "example.com", TAKEN),
        clicked(&clicks, session, 3, "example.com", SAME),
        clicked(&clicks, another, 4, "elsewhere.test", OTHER),
        // Reports with another organization's token, and without a token.
        clicked(&clicks, session, 6, "example.com", SAME).bound(third.id, SAME),
        fetch_on("example.com", 7).by_org(clicks.network.id),
    ];
    let key = |key: u128| rows.iter().find(|row| row.event_key == key).unwrap().key_id();
    clicks.app.insert(&rows).await;
    let told = items(&clicks, &clicks.agent.key, "/agent/events").await;
    let told_of =
        |item: &Value| json!([item["event_id"], item["event_type"], item["session_id"], item["agent_id"], item["reported_by"]]);
    assert_eq!(
        told.iter().map(told_of).collect::<Vec<_>>(),
        [
            json!(["own", "content_cited", session, "secret-agent", "self"]),
            json!([key(4), "content_engaged", another, "secret-agent", "other"]),
            json!([key(3), "checkout_completed", session, "secret-agent", "other"]),
            json!([key(2), "content_engaged", session, "secret-agent", "other"]),
        ]
    );
    let data: Vec<&Value> = told.iter().map(|item| &item["event_data"]).collect();
    let click = json!({"engagement_type": "link_click", "observers": ["agent"]});
    let paid = json!({"value_amount": 4999, "currency": "EUR", "observers": []});
    assert_eq!(data, [&json!({"observers": ["agent"]}), &click, &paid, &click]);
    let path = format!("/sessions/{session}/document");
    let document = clicks.get(&path, &[("x-api-key", &clicks.agent.key)]).await.body;
    let at = |ms: u32| format!("2026-01-01T00:00:00.{ms:03}Z");
    assert_eq!(
        document["extensions"]["events"],
        json!([
            {"type": "content_engaged", "timestamp": at(2), "content_url": "https://example.com/", "data": {"engagement_type": "link_click"}, "reported_by": "other"},
            {"type": "checkout_completed", "timestamp": at(3), "content_url": "https://example.com/", "data": {"value_amount": 4999, "currency": "EUR"}, "reported_by": "other"},
        ]),
        "{document}"
    );
    assert_eq!(document["events"].as_array().map(Vec::len), Some(1));
    let network = clicks.network.id.to_string();
    for accept in FORMATS {
        let told = text(&clicks, &clicks.agent.key, "/agent/events", accept).await + &document.to_string();
        for hidden in ["of-network", network.as_str(), &network.replace('-', "")] {
            assert!(!told.contains(hidden), "{hidden} as {accept}: {told}");
        }
    }
}

#[tokio::test]
async fn only_the_owner_of_the_link_sees_the_agent() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(0)).await;
    let evil = clicks.app.seed().owner_of("evil.test").await;
    let cited = |host: &str, key| Observation {
        session_id: session,
        ..fetch_on(host, key).by_org(clicks.agent.id).agent("secret-agent").named("content_cited").after(9)
    };
    let rows = [
        clicked(&clicks, session, 2, "example.com", TAKEN),
        clicked(&clicks, session, 3, "example.com", SAME),
        cited("example.com", 10),
        clicked(&clicks, session, 4, "evil.test", OTHER),
        clicked(&clicks, session, 5, "evil.test", OTHER),
    ];
    clicks.app.insert(&rows).await;
    let owners = items(&clicks, &clicks.owner.key, "/content-owners/events").await;
    assert_eq!(owners.len(), 3);
    let agent = clicks.agent.id.to_string();
    for item in &owners {
        assert_eq!(
            (&item["session_id"], &item["platform_id"], &item["agent_id"]),
            (&json!(session), &json!(agent), &json!("secret-agent"))
        );
    }
    let summary = clicks.app.summary(&clicks.owner.key, &[]).await;
    assert_eq!((summary.total_sessions, summary.agents.len(), summary.agents[0].event_count), (1, 1, 3));

    let lists = ["events", "urls", "corroboration", "funnel", "funnel?by=url", "funnel?by=day"];
    for path in lists.iter().chain(&["summary"]) {
        for accept in FORMATS {
            let told = text(&clicks, &evil.key, &format!("/content-owners/{path}"), accept).await;
            for secret in secrets(&clicks, session) {
                assert!(!told.to_lowercase().contains(&secret), "{secret} in {path} as {accept}: {told}");
            }
        }
    }
    let network = clicks.network.id.to_string();
    let shown = items(&clicks, &evil.key, "/content-owners/events").await;
    assert_eq!(shown.len(), 2, "the event counts");
    for item in shown {
        assert_eq!((&item["session_id"], &item["platform_id"], &item["agent_id"]), (&json!(""), &json!(network), &json!("")));
    }
    let summary = clicks.app.summary(&evil.key, &[]).await;
    assert_eq!((summary.total_events, summary.total_sessions), (2, 0));
    assert_eq!(items(&clicks, &evil.key, "/content-owners/urls").await[0]["unique_sessions"], 0);
}

/// Everyone with a token can report any number of clicks, which must not displace the session's own events.
#[tokio::test]
async fn session_documents_limit_other_organizations_clicks() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(3)).await;
    let own = Observation { session_id: session, ..fetch_on("example.com", 1).by_org(clicks.agent.id).named("content_cited") };
    let mut rows: Vec<Observation> = (2..1_500)
        .map(|key| clicked(&clicks, session, key * 2, "example.com", SAME).accepted(i64::try_from(key).unwrap()))
        .collect();
    rows.push(own);
    clicks.app.insert(&rows).await;
    let answer = clicks.get(&format!("/sessions/{session}/document"), &[("x-api-key", &clicks.agent.key)]).await;
    let document = answer.body;
    assert_eq!(document["events"].as_array().map(Vec::len), Some(1));
    let told = document["extensions"]["events"].as_array().unwrap();
    let times: BTreeSet<&str> = told.iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
    assert_eq!((told.len(), times.len(), &document["extensions"]["clicks_left_out"]), (1_000, 1_000, &json!(true)));
    assert_eq!(times.first(), Some(&"2026-01-01T00:00:00.004Z"), "the first accepted ones are kept");
}

/// An organization that sends two copies of a report in one request sees which one counts. It is always the first one, whatever their
/// tokens' sessions.
#[tokio::test]
async fn duplicate_reports_do_not_reveal_sessions() {
    let clicks = ClickFixture::start().await;
    let copy = |event: u128, number: u128, session: u128| {
        // Some copies differ in their details, some only in their tokens.
        let data = json!({"engagement_type": "link_click", "n": if event.is_multiple_of(2) { number } else { 0 }});
        let row = clicked(&clicks, Uuid::from_u128(session), event, "example.com", SAME).data(&data.to_string());
        Observation { content_telemetry_id: number.to_string(), ..row.accepted(0) }
    };
    let mut shown = BTreeSet::new();
    for sessions in [[1, 1], [1, 2], [2, 1], [1 << 64, 1 << 127], [1 << 127, 1 << 64], [u128::MAX, 1]] {
        clicks.app.empty().await;
        let request = |event| vec![copy(event, 1, sessions[0]), copy(event, 2, sessions[1])];
        clicks.app.insert_requests(&(0..40).map(request).collect::<Vec<_>>()).await;
        let told = text(&clicks, &clicks.network.key, "/agent/events?limit=1000", FORMATS[1]).await;
        assert_eq!(told.matches(r#""content_telemetry_id":"1""#).count(), 40, "{sessions:?}: {told}");
        shown.insert(told);
    }
    assert_eq!(shown.len(), 1, "the response depends on the sessions");
}
