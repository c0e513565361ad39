//! Who belongs to an organisation: seen by members, changed by owners.

use crate::people::{invites_of, members_of};
use crate::test_app::{KEYS, NOBODY, SETTINGS, TestApp};
use serde_json::json;

#[tokio::test]
async fn members_see_each_other() {
    let app = TestApp::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let expected = [("ada@a.test".to_owned(), "owner".to_owned()), ("bob@a.test".to_owned(), "member".to_owned())];
    assert_eq!(app.members(&ada, &org).await, expected);
    assert_eq!(app.members(&bob, &org).await, expected);
    let listed = app.get(bob.shows(), &members_of(&org)).await.body;
    assert_eq!(listed[1]["user_id"], json!(bob.id));
    assert_eq!(listed[1].as_object().unwrap().len(), 5, "{listed}");
}

#[tokio::test]
async fn only_owners_change_members() {
    let app = TestApp::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let cy = app.joined(&ada, &org, "cy@a.test", "member").await;
    for refused in [
        app.invite(&bob, &org, "eve@b.test", "member").await,
        app.make(&bob, &org, &bob, "owner").await,
        app.make(&bob, &org, &ada, "member").await,
        app.remove(&bob, &org, &cy).await,
        app.remove(&bob, &org, &ada).await,
        app.delete(bob.shows(), &format!("{}/{NOBODY}", invites_of(&org))).await,
    ] {
        assert_eq!(refused.refusal(), (403, "forbidden"), "{}", refused.body);
    }
    assert_eq!(app.make(&ada, &org, &bob, "owner").await.text("role"), "owner");
    let bob = app.person("bob@a.test").await;
    assert_eq!(app.remove(&bob, &org, &cy).await.status, 204, "now he may");
    assert_eq!(app.remove(&bob, &org, &cy).await.refusal(), (404, "not_found"));
    let org = org.parse().unwrap();
    let changes = app.audited(org).await;
    assert_eq!(changes[changes.len() - 2..], ["member.changed", "member.removed"]);
}

#[tokio::test]
async fn who_is_removed_is_out_at_once() {
    let app = TestApp::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    assert_eq!(app.get(bob.shows(), KEYS).await.status, 200);
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    assert_eq!(app.get(bob.shows(), &members_of(&org)).await.refusal(), (404, "not_found"));
    assert_eq!(app.get(bob.shows(), KEYS).await.refusal(), (403, "forbidden"));
    assert_eq!(app.get(bob.shows(), SETTINGS).await.refusal(), (403, "forbidden"));
    let again = app.joined(&ada, &org, "bob@a.test", "owner").await;
    assert_eq!(app.get(again.shows(), KEYS).await.status, 200, "who is invited again is in again");
}

#[tokio::test]
async fn the_last_owner_can_neither_go_nor_step_down() {
    let app = TestApp::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    assert_eq!(app.remove(&ada, &org, &ada).await.refusal(), (409, "conflict"));
    assert_eq!(app.make(&ada, &org, &ada, "member").await.refusal(), (409, "conflict"));
    assert_eq!(app.make(&ada, &org, &ada, "owner").await.status, 200, "what changes nothing is fine");
    assert_eq!(app.make(&ada, &org, &bob, "owner").await.status, 200);
    assert_eq!(app.make(&ada, &org, &ada, "member").await.status, 200, "with another owner she steps down");
    let (ada, bob) = (app.person("ada@a.test").await, app.person("bob@a.test").await);
    assert_eq!(app.remove(&bob, &org, &bob).await.refusal(), (409, "conflict"), "and now he is the last");
    let expected = [("ada@a.test".to_owned(), "member".to_owned()), ("bob@a.test".to_owned(), "owner".to_owned())];
    assert_eq!(app.members(&ada, &org).await, expected);
}
