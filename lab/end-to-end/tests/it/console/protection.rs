//! Access to each page by role.

use super::{AGENT_SCREENS, OWNER_SCREENS, Reader};
use crate::demo::{Demo, DemoApp};
use chrono::TimeDelta;
use serde_json::json;
use service_kit::testing::Seed;

fn home(demo: &DemoApp, variable: &str) -> String {
    format!("/console/o/{}", demo.env(variable))
}

/// Returns the session of a member who isn't an owner.
async fn member_of(demo: &DemoApp, variable: &str) -> String {
    let (seed, email) = (Seed(&demo.stores.pool), format!("{}@example.net", variable.to_lowercase()));
    let session = seed.session(&email, TimeDelta::days(1)).await;
    seed.join(&email, demo.env(variable).parse().unwrap()).await;
    session
}

#[tokio::test]
async fn u4_roles_see_only_their_pages() {
    let demo = Demo::start().await;
    let (own, agents) = (home(&demo, "OWNER_ORG_ID"), home(&demo, "AGENT_ORG_ID"));
    let (member, partner) = (member_of(&demo, "OWNER_ORG_ID").await, member_of(&demo, "NETWORK_ORG_ID").await);
    let grant = json!({"grantee_org_id": demo.env("NETWORK_ORG_ID")});
    assert_eq!(demo.post(demo.env("OWNER_KEY"), "/api/v1/identity/delegations", &grant).await.status, 201);
    let partners = Reader::with_session(&demo, &partner).open(&format!("{}/partners", home(&demo, "NETWORK_ORG_ID"))).await;
    assert!(partners.html.contains("Example Publisher"), "the delegation is missing: {}", partners.html);
    let sessions = ["OWNER_SESSION", "AGENT_SESSION", "OPERATOR_SESSION", "USER_SESSION"].map(|variable| demo.env(variable));
    let [owner, agent, operator, somebody] = sessions;
    let mut told = String::new();
    for screen in OWNER_SCREENS.into_iter().chain(AGENT_SCREENS) {
        told += screen;
        for who in [owner, &member, &partner, agent, operator, somebody, ""] {
            let mut reader = if who.is_empty() { Reader::signed_out(&demo) } else { Reader::with_session(&demo, who) };
            let page = reader.open(&format!("{own}/{screen}")).await;
            let seen = if page.address == "/sign-in" { "sign-in".to_owned() } else { page.status.to_string() };
            told += &format!(" {seen}");
            let is_shown = page.html.contains("Example Publisher");
            assert_eq!(is_shown, who == owner || who == member, "also on pages with an error: {told}");
        }
        let by_agent = Reader::with_session(&demo, agent).open(&format!("{agents}/{screen}")).await.status;
        told += &format!(" | {by_agent}\n");
    }
    let hook = json!({"url": "https://shown-to-operators.example.net/", "event_types": ["delegation.created"]});
    let hook = demo.post(demo.env("OWNER_KEY"), "/api/v1/identity/webhooks", &hook).await.text("id").to_owned();
    for screen in ["requests", "organizations", "dead-letters", "usage", "webhooks", "webhooks/{id}", "export/webhooks.csv"] {
        told += &format!("operator/{screen}");
        for who in [owner, &member, &partner, agent, operator, somebody, ""] {
            let mut reader = if who.is_empty() { Reader::signed_out(&demo) } else { Reader::with_session(&demo, who) };
            let page = reader.open(&format!("/console/operator/{}", screen.replace("{id}", &hook))).await;
            let seen = if page.address == "/sign-in" { "sign-in".to_owned() } else { page.status.to_string() };
            told += &format!(" {seen}");
            assert!(page.status == 200 || !page.html.contains("shown-to-operators"), "{told}");
        }
        told += "\n";
    }
    let columns = "owner, plain member, partner by delegation, agent, operator, somebody, nobody | the agent at home";
    assert_eq!(told, include_str!("roles.txt"), "{columns}");
}
