//! One event with all its reports: what is shown, and who can access it.

use crate::test_app::{Observation, Query, TestApp, fetch_on, platform};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge, Index, Origin};
use schemas::identity::OrgType;
use serde_json::{Value, json};

async fn event(app: &TestApp, key: &str, id: &str) -> Value {
    let answer = app.read(key, &format!("/content-owners/events/{id}"), &[]).await;
    assert_eq!(answer.status, StatusCode::OK, "{id}: {}", answer.raw);
    answer.body
}

#[tokio::test]
async fn every_id_of_an_event_returns_all_its_reports() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let edge =
        fetch_on("www.example.com", 7).role(Edge).by(20).id("edges-own").data(r#"{"user_agent":"Bot/1.0","secret":"planted"}"#);
    app.insert(&[edge]).await;
    let before = event(&app, &owner.key, "edges-own").await;
    assert_eq!((&before["corroboration"], &before["total_reports"]), (&json!("seen_by_server_only"), &json!(1)));
    let claim = fetch_on("www.example.com", 7).role(Agent).by(10).session(5).agent("alpha").after(3).id("agents-own");
    let claim = claim.url("https://www.example.com/a?q=1").data(r#"{"user_agent":"Bot/2.0","planted":"planted"}"#);
    let index = fetch_on("www.example.com", 7).role(Index).by(22);
    let own_key = index.key_id();
    app.insert(&[claim, index, fetch_on("www.example.com", 7).role(Origin).by(21).after(9)]).await;
    let told = event(&app, &owner.key, "agents-own").await;
    assert_eq!(event(&app, &owner.key, "edges-own").await, told, "the URL from before the claim still works");
    assert_eq!(event(&app, &owner.key, &own_key).await, told, "the key identifies a report without an id");
    let listed = app.page(&owner.key, "/content-owners/events", &[]).await["items"][0].clone();
    for (name, value) in listed.as_object().unwrap() {
        assert_eq!(&told[name], value, "{name} equals the list");
    }
    assert_eq!((&told["corroboration"], &told["total_reports"]), (&json!("seen_by_both"), &json!(4)));
    let member = |name: &str| told["reports"].as_array().unwrap().iter().map(|report| report[name].clone()).collect::<Vec<_>>();
    assert_eq!(member("source_role"), ["agent", "edge", "origin", "index"]);
    assert_eq!(member("event_id"), ["agents-own", "edges-own", &own_key, &own_key]);
    let agents = [json!(platform(10)), json!(""), json!(""), json!("")];
    assert_eq!(member("platform_id"), agents, "servers are named only if their report represents the event");
    assert_eq!(member("event_data"), [json!({"user_agent": "Bot/2.0"}), json!({"user_agent": "Bot/1.0"}), json!({}), json!({})]);
    assert!(!told.to_string().contains("planted"), "{told}");
}

#[tokio::test]
async fn unknown_and_foreign_ids_return_the_same_404() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let other = app.seed().owner_of("other.test").await;
    let turn = fetch_on("example.com", 3).role(Agent).named("turn_completed").id("turn");
    let (own, theirs) = (fetch_on("example.com", 1).id("own"), fetch_on("other.test", 2).id("theirs"));
    let keys = [own.key_id(), theirs.key_id(), turn.key_id()];
    app.insert(&[own, theirs, turn]).await;
    let refused = async |key: &str, id: &str| {
        let (status, problem) = app.read(key, &format!("/content-owners/events/{id}"), &[]).await.problem();
        assert_eq!(status, StatusCode::NOT_FOUND, "{id}");
        problem
    };
    let nobody = refused(&owner.key, "nobody").await;
    for id in ["theirs", "turn", "%00", "a%2Fb"].into_iter().chain(keys.iter().map(String::as_str)) {
        assert_eq!(refused(&owner.key, id).await, nobody, "{id}");
    }
    assert_eq!(event(&app, &other.key, "theirs").await["event_id"], "theirs");
    // An event outside the period is not found.
    let late = app.read(&owner.key, "/content-owners/events/own", &[("since", "2027-01-01")]).await;
    assert_eq!(late.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn period_selects_among_events_with_the_same_id() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let cited = |key, org, ms| fetch_on("example.com", key).role(Agent).by(org).named("content_cited").id("citation-1").after(ms);
    app.insert(&[cited(1, 10, 0), cited(2, 11, 5)]).await;
    let newest = event(&app, &owner.key, "citation-1").await;
    assert_eq!((&newest["platform_id"], &newest["events_of_this_id"]), (&json!(platform(11)), &json!(2)));
    assert_eq!(newest["corroboration"], Value::Null, "a citation isn't a fetch");
    let window = [("since", "2026-01-01T00:00:00.000Z"), ("until", "2026-01-01T00:00:00.001Z")];
    let older = app.read(&owner.key, "/content-owners/events/citation-1", &window).await.body;
    assert_eq!((&older["platform_id"], &older["events_of_this_id"]), (&json!(platform(10)), &json!(1)));
    // More reports with the same id than a read compares.
    let same: Vec<Observation> = (10..1_020).map(|key| fetch_on("example.com", key).role(Edge).id("constant")).collect();
    app.insert(&same).await;
    assert_eq!(app.read(&owner.key, "/content-owners/events/constant", &[]).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn delegated_event_equals_the_owners() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let partner = app.seed().org("Partner", OrgType::Platform).await;
    app.seed().delegate(owner.id, partner.id).await;
    app.insert(&[
        fetch_on("example.com", 1).role(Edge).id("own"),
        fetch_on("example.com", 1).role(Agent).by(10).session(1).after(2),
    ])
    .await;
    let id = owner.id.to_string();
    let (path, grantor) = ("/content-owners/events/own", [("delegated_from", id.as_str())]);
    assert_eq!(app.read(&partner.key, path, &grantor).await, app.read(&owner.key, path, &[]).await);
    sqlx::query("UPDATE delegations SET revoked_at = now()").execute(&app.stores.pool).await.unwrap();
    assert_eq!(app.read(&partner.key, path, &grantor).await.status, StatusCode::FORBIDDEN);
}

/// The filters must not find a click by its agent if the list doesn't show the agent.
#[tokio::test]
async fn filters_do_not_reveal_hidden_agents() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let (issuer, reporter) = (app.seed().org("I", OrgType::Agent).await, app.seed().org("R", OrgType::Agent).await);
    let click =
        fetch_on("example.com", 1).named("content_engaged").by_org(reporter.id).bound(issuer.id, 3).session(5).agent("hidden");
    let click = Observation { link_site: "test.other".to_owned(), ..click.id("click") };
    app.insert(&[click, fetch_on("example.com", 2).role(Agent).by(10).session(6).agent("hidden").after(1).id("seen")]).await;
    let (reporter, issuer) = (reporter.id.to_string(), issuer.id.to_string());
    for is_merged in [false, true] {
        let ids = async |query: &[(&str, &str)]| {
            let page = app.page(&owner.key, "/content-owners/events", query).await;
            let ids = page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap().to_owned());
            (ids.collect::<Vec<_>>(), page["total"].as_u64().unwrap())
        };
        let of = |ids: &[&str]| (ids.iter().map(ToString::to_string).collect::<Vec<_>>(), ids.len() as u64);
        for (query, expected) in [
            (("agent_id", "hidden"), &["seen"][..]),
            (("agent_id", ""), &["click"]),
            (("platform_id", &issuer), &[]),
            (("platform_id", &reporter), &["click"]),
            (("event_type", "content_engaged"), &["click"]),
        ] {
            assert_eq!(ids(&[query]).await, of(expected), "{query:?}, merged: {is_merged}");
        }
        let told = event(&app, &owner.key, "click").await;
        assert_eq!((&told["reports"][0]["agent_id"], &told["reports"][0]["session_id"]), (&json!(""), &json!("")));
        assert!(!told.to_string().contains(&issuer), "{told}");
        for query in [("platform_id", "x"), ("event_type", ""), ("agent_id", "\0")] {
            assert_eq!(
                app.read(&owner.key, "/content-owners/events", &[query]).await.status,
                StatusCode::BAD_REQUEST,
                "{query:?}"
            );
        }
        app.merge().await;
    }
}
