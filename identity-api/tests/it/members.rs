//! Members: members see them, owners change them, and the last owner can't leave.

use crate::audit::AuditRows as _;
use crate::people::People as _;
use crate::people::{invites_of, members_of};
use crate::test_app::{Identity, KEYS, Requests as _, SESSION, SETTINGS, UNKNOWN_ID};
use reqwest::Method;
use serde_json::json;
use service_kit::testing::client;

#[tokio::test]
async fn members_see_each_other() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let expected = [("ada@a.test".to_owned(), "owner".to_owned()), ("bob@a.test".to_owned(), "member".to_owned())];
    assert_eq!(app.members(&ada, &org).await, expected);
    assert_eq!(app.members(&bob, &org).await, expected);
    let listed = app.get(bob.credentials(), &members_of(&org)).await.body;
    assert_eq!(listed[1]["user_id"], json!(bob.id));
    assert_eq!(listed[1].as_object().unwrap().len(), 5, "{listed}");
}

#[tokio::test]
async fn only_owners_change_members() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let cy = app.joined(&ada, &org, "cy@a.test", "member").await;
    for refused in [
        app.invite(&bob, &org, "eve@b.test", "member").await,
        app.set_role(&bob, &org, &bob, "owner").await,
        app.set_role(&bob, &org, &ada, "member").await,
        app.remove(&bob, &org, &cy).await,
        app.remove(&bob, &org, &ada).await,
        app.delete(bob.credentials(), &format!("{}/{UNKNOWN_ID}", invites_of(&org))).await,
    ] {
        assert_eq!(refused.refusal(), (403, "forbidden"), "{}", refused.body);
    }
    assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.text("role"), "owner");
    assert_eq!(app.remove(&bob, &org, &cy).await.status, 204, "owners can");
    assert_eq!(app.remove(&bob, &org, &cy).await.refusal(), (404, "not_found"));
    let org = org.parse().unwrap();
    let changes = app.audited(org).await;
    assert_eq!(changes[changes.len() - 2..], ["member.changed", "member.removed"]);
}

#[tokio::test]
async fn removed_members_lose_access_at_once() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    assert_eq!(app.get(bob.credentials(), KEYS).await.status, 200);
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    assert_eq!(app.get(bob.credentials(), &members_of(&org)).await.refusal(), (404, "not_found"));
    assert_eq!(app.get(bob.credentials(), KEYS).await.refusal(), (403, "forbidden"));
    assert_eq!(app.get(bob.credentials(), SETTINGS).await.refusal(), (403, "forbidden"));
    let again = app.joined(&ada, &org, "bob@a.test", "owner").await;
    assert_eq!(app.get(again.credentials(), KEYS).await.status, 200, "access is back after another invite");
}

/// An owner of one organization must not sign its members out of others.
#[tokio::test]
async fn role_changes_apply_at_once_without_ending_sessions() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let own = app.create_organization(&bob, "bob.test").await.text("id").to_owned();
    let other = app.second_server().await;
    let statuses = async |org: &str| {
        let ask = |url: &str, method| {
            let path = format!("{url}{KEYS}?organization_id={org}");
            client().request(method, path).bearer_auth(bob.session()).json(&json!({})).send()
        };
        let (created, listed) = (ask(&app.url(""), Method::POST).await.unwrap(), ask(&other.url, Method::GET).await.unwrap());
        let created_there = ask(&other.url, Method::POST).await.unwrap();
        assert_eq!(created.status(), created_there.status(), "both processes agree");
        (created.status().as_u16(), listed.status().as_u16())
    };
    assert_eq!(statuses(&org).await, (403, 200));
    for _ in 0..3 {
        assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
        assert_eq!(statuses(&org).await, (201, 200));
        assert_eq!(app.set_role(&ada, &org, &bob, "member").await.status, 200);
        assert_eq!(statuses(&org).await, (403, 200));
    }
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    assert_eq!(statuses(&org).await, (403, 403));
    assert_eq!(statuses(&own).await, (201, 200), "the session still works elsewhere");
    assert_eq!(app.get(bob.credentials(), SESSION).await.status, 200);
    assert_eq!(app.count("SELECT count(*) FROM audit_log WHERE action = 'session.ended'").await, 0);
}

#[tokio::test]
async fn members_can_leave() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let cy = app.joined(&ada, &org, "cy@a.test", "member").await;
    let key = app.create(bob.credentials(), &json!({})).await;
    let keeping = format!("{}/{}?keep_keys=true", members_of(&org), cy.id);
    assert_eq!(app.delete(cy.credentials(), &keeping).await.refusal(), (403, "forbidden"), "only owners can keep keys");
    for leaver in [&cy, &bob] {
        assert_eq!(app.remove(leaver, &org, leaver).await.status, 204);
        assert_eq!(app.remove(leaver, &org, leaver).await.refusal(), (404, "not_found"));
        assert_eq!(app.get(leaver.credentials(), &members_of(&org)).await.refusal(), (404, "not_found"));
    }
    let listed = app.list(ada.credentials()).await.body;
    assert_eq!((&listed[0]["id"], listed[0]["revoked_at"].is_string()), (&key.body["id"], true), "the member's key is revoked");
    assert_eq!(app.remove(&ada, &org, &ada).await.refusal(), (409, "conflict"));
    let left = app.trail("member.left").await;
    assert_eq!(
        left.iter().map(|(_, by, whose, _)| (*by, *whose)).collect::<Vec<_>>(),
        [(Some(cy.id.0), cy.id.0), (Some(bob.id.0), bob.id.0)]
    );
}

#[tokio::test]
async fn the_last_owner_cannot_leave_or_step_down() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    assert_eq!(app.remove(&ada, &org, &ada).await.refusal(), (409, "conflict"));
    assert_eq!(app.set_role(&ada, &org, &ada, "member").await.refusal(), (409, "conflict"));
    assert_eq!(app.set_role(&ada, &org, &ada, "owner").await.status, 200, "a change without effect succeeds");
    assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
    assert_eq!(app.set_role(&ada, &org, &ada, "member").await.status, 200, "possible with another owner");
    assert_eq!(app.remove(&bob, &org, &bob).await.refusal(), (409, "conflict"), "he is the last owner now");
    let expected = [("ada@a.test".to_owned(), "member".to_owned()), ("bob@a.test".to_owned(), "owner".to_owned())];
    assert_eq!(app.members(&ada, &org).await, expected);
}
