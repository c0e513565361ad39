//! Forms and buttons for members who aren't owners: only those that the API would accept.

use super::{OWNER_SCREENS, Reader};
use crate::demo::Demo;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service_kit::testing::{Seed, send_request};
use std::collections::BTreeSet;

/// The API's error for requests that only owners can make. The pages use different wording.
const OWNERS_ONLY: [&str; 6] = [
    "Only owners can create and revoke API keys.",
    "Only owners can create and delete log drains",
    "Only owners can share the organization",
    "Only owners can create, enable and test webhook endpoints",
    "Only owners can release domains.",
    "Only owners can change members.",
];

/// Forms on every page. They don't change the organization.
const OF_EVERYBODY: [&str; 2] = ["/console/theme", "/sign-out"];

/// Returns the targets of a page's forms, without ids.
fn offered(home: &str, actions: &[String]) -> BTreeSet<String> {
    let is_id = |step: &&str| step.len() == 36 && step.contains('-');
    let shown = |action: &String| {
        let steps = action.strip_prefix(home).unwrap_or(action).split('/');
        steps.map(|step| if is_id(&step) { "{id}" } else { step }).collect::<Vec<_>>().join("/")
    };
    actions.iter().map(shown).filter(|action| !OF_EVERYBODY.contains(&action.as_str())).collect()
}

async fn actions_at(reader: &mut Reader, path: &str) -> Vec<String> {
    let page = reader.open(path).await;
    assert_eq!(page.status, 200, "{path}: {}", page.html);
    page.actions()
}

#[tokio::test]
async fn u4_plain_members_see_only_permitted_forms() {
    let demo = Demo::start().await;
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let make = async |key: &str, path: &str, body: Value| {
        let request =
            demo.client.post(demo.url(&format!("/api/v1/identity/{path}"))).header("x-api-key", demo.env(key)).json(&body);
        send_request(request).await.body["id"].as_str().unwrap().to_owned()
    };
    let hook = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let hook = make("OWNER_KEY", "webhooks", hook).await;
    let drain = make("OWNER_KEY", "drains", json!({"name": "ours", "provider": "ndjson"})).await;
    make("NETWORK_KEY", "delegation-requests", json!({"domain": "example.com"})).await;
    make("OWNER_KEY", "domains", json!({"domain": "second.example"})).await;
    make("OWNER_KEY", "delegations", json!({"grantee_org_id": demo.env("AGENT_ORG_ID")})).await;
    let seed = Seed(&demo.stores.pool);
    let session = seed.session("plain@example.com", TimeDelta::days(1)).await;
    seed.join("plain@example.com", demo.env("OWNER_ORG_ID").parse().unwrap()).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let mut plain = Reader::with_session(&demo, &session);

    let (own_hook, own_drain) = (format!("webhooks/{hook}"), format!("drains/{drain}"));
    let screens: Vec<&str> = OWNER_SCREENS.into_iter().chain(["drains?with=code", &own_drain, &own_hook]).collect();
    let (mut told, mut actions) = (String::new(), BTreeSet::new());
    for screen in screens {
        let path = format!("{home}/{screen}");
        let (by_owner, by_member) = (actions_at(&mut owner, &path).await, actions_at(&mut plain, &path).await);
        let (all, some) = (offered(&home, &by_owner), offered(&home, &by_member));
        assert!(some.is_subset(&all), "{screen}: {some:?} of {all:?}");
        let named = screen.replace(&hook, "{id}").replace(&drain, "{id}");
        let list = |offered: &BTreeSet<String>| match offered.iter().cloned().collect::<Vec<_>>().join(" ") {
            none if none.is_empty() => "-".to_owned(),
            some => some,
        };
        told += &format!("{named} | {} | {}\n", list(&some), list(&all.difference(&some).cloned().collect()));
        actions.extend(by_member);
    }
    assert_eq!(told, include_str!("forms.txt"), "screen | forms of every member | forms of owners only");
    actions.retain(|action| !OF_EVERYBODY.contains(&action.as_str()));
    let leave = actions.iter().find(|action| action.ends_with("/remove")).unwrap().clone();
    actions.remove(&leave);
    // Requests that delete something come last.
    let mut actions: Vec<String> = actions.into_iter().collect();
    actions.sort_by_key(|action| ["delete", "release", "revoke"].iter().any(|end| action.ends_with(end)));
    for action in actions {
        let pressed = plain.post(&action, &[], Some(demo.env("BASE_URL"))).await;
        let is_refused = OWNERS_ONLY.iter().any(|refusal| pressed.html.contains(refusal));
        assert!(pressed.status != 403 && !is_refused, "{action}: {}", pressed.html);
    }
    // Pages tell members who can do what they can't.
    for (screen, told) in [
        ("keys", "Only owners can create and revoke keys. Ask owner@example.com."),
        ("partners", "Only owners can approve requests. Ask owner@example.com."),
        ("start", "Only owners of the organization can create keys: owner@example.com."),
        ("domains", "Only owners can release a domain."),
        ("members", "Only owners can invite or remove people"),
        ("drains", "Only owners can connect logs"),
        ("webhooks", "Only owners can add endpoints"),
    ] {
        let path = format!("{home}/{screen}");
        let (to_owner, to_member) = (owner.open(&path).await.html, plain.open(&path).await.html);
        assert!(to_member.contains(told), "{screen}: {to_member}");
        assert!(!to_owner.contains(told), "{screen}: shown to an owner: {to_owner}");
    }
    // The API also rejects forms that the page doesn't show.
    let form = [("once".to_owned(), "67e55044-10b1-426f-9247-bb680e5fe0c8".to_owned())];
    let rotated = plain.post(&format!("{home}/webhooks/{hook}/rotate"), &form, Some(demo.env("BASE_URL"))).await;
    assert!(rotated.html.contains("Forbidden") && !rotated.html.contains("id=\"secret\""), "{}", rotated.html);
    // Finally, the member leaves the organization, and is still signed in.
    plain.post(&leave, &[], Some(demo.env("BASE_URL"))).await;
    let (gone, elsewhere) = (plain.open(&format!("{home}/members")).await, plain.open("/console/organizations").await);
    assert_eq!((gone.status, elsewhere.status), (404, 200), "{}", gone.html);
}
