//! Buttons that change something: what the API says afterwards is what they promise.

use super::Reader;
use crate::demo::Demo;
use serde_json::Value;

fn home(demo: &Demo, variable: &str) -> String {
    format!("/console/o/{}", demo.env(variable))
}

/// What identity-api lists for the owner's organisation.
async fn listed(demo: &Demo, path: &str) -> Vec<Value> {
    let answer = demo.get(demo.env("OWNER_KEY"), &format!("/api/v1/identity/{path}")).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body.as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_partner_asks_and_is_let_in_and_out_and_denied_by_buttons() {
    let demo = Demo::start().await;
    let (mut owner, mut agent) = (Reader::signed_in(&demo, "OWNER_SESSION"), Reader::signed_in(&demo, "AGENT_SESSION"));
    let (own, theirs) = (home(&demo, "OWNER_ORG_ID"), home(&demo, "AGENT_ORG_ID"));
    let before = listed(&demo, "delegations?role=grantor").await.len();
    for answer in ["/approve", "/deny"] {
        let page = agent.open(&format!("{theirs}/partners")).await;
        let page = agent.press(&page, "/partners", &[("domain", "example.com")]).await;
        assert!(page.html.contains("You sent these requests"), "{answer}: {}", page.html);
        let page = owner.open(&format!("{own}/partners")).await;
        let page = owner.press(&page, answer, &[]).await;
        assert!(page.html.contains("No open requests"), "{answer}: {}", page.html);
        let let_in = listed(&demo, "delegations?role=grantor").await;
        assert_eq!(let_in.len(), before + usize::from(answer == "/approve"), "{answer}: {let_in:?}");
        if answer == "/approve" {
            owner.press(&page, &format!("/{}/revoke", let_in[0]["id"].as_str().unwrap()), &[]).await;
            assert_eq!(listed(&demo, "delegations?role=grantor").await.len(), before);
        }
    }
}

#[tokio::test]
async fn a_flag_a_key_and_a_domain_are_changed_by_their_buttons() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let own = home(&demo, "OWNER_ORG_ID");
    for (typed, is_set) in [(&[("visible_in_click_token_lookups", "on")][..], true), (&[], false)] {
        let page = owner.open(&format!("{own}/settings")).await;
        let page = if is_set { owner.press(&page, "/settings", typed).await } else { owner.untick(&page, "/settings").await };
        assert_eq!(page.html.contains(" checked"), is_set, "{}", page.html);
        let settings = demo.get(demo.env("OWNER_KEY"), "/api/v1/identity/settings").await.body;
        assert_eq!(settings["visible_in_click_token_lookups"], is_set, "{settings}");
    }

    let page = owner.open(&format!("{own}/keys")).await;
    let page = owner.press(&page, "/keys", &[("name", "to be revoked")]).await;
    let key = page.between("<code id=\"minted\">", "</code>").unwrap().to_owned();
    let is_it = |one: &Value| one["name"] == "to be revoked";
    let id = listed(&demo, "api-keys").await.into_iter().find(is_it).unwrap()["id"].as_str().unwrap().to_owned();
    owner.press(&page, &format!("/{id}/revoke"), &[]).await;
    assert!(listed(&demo, "api-keys").await.iter().filter(|one| is_it(one)).all(|one| one["revoked_at"].is_string()));
    assert_eq!(demo.get(&key, "/content-owners/summary").await.status, 401);
    let again = owner.press(&page, &format!("/{id}/revoke"), &[]).await;
    assert!(again.html.contains("API keys"), "a key that is revoked already is said beside the list: {}", again.html);

    let page = owner.open(&format!("{own}/domains")).await;
    let page = owner.press(&page, "/domains", &[("domain", "given-up.example")]).await;
    let of = |one: &Value| one["domain"] == "given-up.example";
    let id = listed(&demo, "domains").await.into_iter().find(of).unwrap()["id"].as_str().unwrap().to_owned();
    owner.press(&page, &format!("/{id}/release"), &[]).await;
    assert!(!listed(&demo, "domains").await.iter().any(of));
}

#[tokio::test]
async fn an_invite_is_withdrawn_and_another_secret_is_made_by_their_buttons() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let own = home(&demo, "OWNER_ORG_ID");
    let page = owner.open(&format!("{own}/members")).await;
    let page = owner.press(&page, "/members", &[("email", "colleague@example.net"), ("role", "member")]).await;
    assert!(page.html.contains("colleague@example.net"), "{}", page.html);
    let page = owner.press(&page, "/withdraw", &[]).await;
    assert!(!page.html.contains("colleague@example.net"), "{}", page.html);

    let page = owner.open(&format!("{own}/webhooks")).await;
    let typed = [("url", "https://receiver.example.net/telemetry"), ("event_type", "delegation.created")];
    let page = owner.press(&page, "/webhooks", &typed).await;
    let first = page.between("<code id=\"secret\">", "</code>").unwrap_or_else(|| panic!("{}", page.html)).to_owned();
    let id = listed(&demo, "webhooks").await[0]["id"].as_str().unwrap().to_owned();
    let page = owner.open(&format!("{own}/webhooks/{id}")).await;
    assert!(!page.html.contains(&first), "it is shown once");
    let page = owner.press(&page, "/rotate", &[]).await;
    assert!(page.between("<code id=\"secret\">", "</code>").is_some_and(|secret| secret != first), "{}", page.html);
}

/// Loading an answer again sends its form again, with the same fields.
#[tokio::test]
async fn what_is_shown_once_is_not_made_again_when_its_answer_is_loaded_again() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let own = home(&demo, "OWNER_ORG_ID");
    let hook = [("url", "https://receiver.example.net/telemetry"), ("event_type", "delegation.created")];
    let (keys, hooks, drains) = (format!("{own}/keys"), format!("{own}/webhooks"), format!("{own}/drains"));
    for (screen, action, typed, secret, list) in [
        (&keys, "/keys", &[("name", "once")][..], "id=\"minted\"", "api-keys"),
        (&hooks, "/webhooks", &hook, "id=\"secret\"", "webhooks"),
        (&format!("{drains}?with=code"), "/drains", &[("name", "once")], "contains the new key", "drains"),
    ] {
        let page = owner.open(screen).await;
        let made = owner.press(&page, action, typed).await;
        assert!(made.html.contains(secret), "{action}: {}", made.html);
        let there = listed(&demo, list).await.len();
        for _ in 0..2 {
            let again = owner.press(&page, action, typed).await;
            assert!(again.html.contains("nothing new was created") && !again.html.contains(secret), "{action}: {}", again.html);
        }
        assert_eq!(listed(&demo, list).await.len(), there, "{action}");
        let page = owner.open(screen).await;
        let another = owner.press(&page, action, typed).await;
        assert!(another.html.contains(secret), "another form makes another one: {}", another.html);
        assert_eq!(listed(&demo, list).await.len(), there + 1, "{action}");
    }
    for (list, screen, secret) in [("webhooks", &hooks, "id=\"secret\""), ("drains", &drains, "contains the new key")] {
        let id = listed(&demo, list).await[0]["id"].as_str().unwrap().to_owned();
        let page = owner.open(&format!("{screen}/{id}")).await;
        assert!(owner.press(&page, "/rotate", &[]).await.html.contains(secret));
        let rotated = audited(&demo).await;
        let again = owner.press(&page, "/rotate", &[]).await;
        assert!(again.html.contains("nothing new was created") && !again.html.contains(secret), "{list}: {}", again.html);
        assert_eq!(audited(&demo).await, rotated, "{list}");
    }
}

/// The rows of the audit trail, by id.
async fn audited(demo: &Demo) -> Vec<Value> {
    listed(demo, "audit?limit=1000").await.into_iter().map(|row| row["id"].clone()).collect()
}
