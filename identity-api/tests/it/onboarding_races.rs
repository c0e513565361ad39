//! Races of forty callers: one owner remains, an invite is claimed once, a request is reviewed once, a host has one owner.

use crate::people::People as _;
use crate::people::{PLATFORM_REQUESTS, PROVISIONED, Person};
use crate::races::{PARALLEL, at_once, rounds};
use crate::test_app::{Credentials, Identity, Requests as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Takes a few seconds in a debug build; `TEST_ROUNDS` overrides it.
const USUAL_ROUNDS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn one_owner_remains_when_owners_remove_each_other() {
    let app = Arc::new(Identity::open().await);
    for round in 0..rounds(USUAL_ROUNDS) {
        let ada = app.person(&format!("ada{round}@a.test")).await;
        let org = app.create_organization(&ada, &format!("a{round}.test")).await.text("id").to_owned();
        let mut owners = vec![ada.clone()];
        for number in 0..3 {
            owners.push(app.joined(&ada, &org, &format!("owner{number}@a.test"), "owner").await);
        }
        let people: Arc<[Person]> = owners.into();
        let answered = at_once(&app, |app, number| {
            let (org, people) = (org.clone(), Arc::clone(&people));
            async move {
                let (by, whom) = (&people[number % 4], &people[(number / 4) % 4]);
                if number % 3 == 0 { app.set_role(by, &org, whom, "member").await } else { app.remove(by, &org, whom).await }
            }
        })
        .await;
        assert!(answered.keys().all(|status| [200, 204, 401, 403, 404, 409].contains(status)), "round {round}: {answered:?}");
    }
    let owners_left = "SELECT count(*) FROM memberships WHERE role = 'owner' GROUP BY organization_id";
    let left: Vec<i64> = sqlx::query_scalar(owners_left).fetch_all(&app.stores.pool).await.unwrap();
    assert_eq!(left.len(), rounds(USUAL_ROUNDS), "every organization has an owner");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_forty_invite_claims_wins() {
    let app = Arc::new(Identity::open().await);
    let (_, key) = app.partner("partner").await;
    let hook = app.subscribe(&key, &["invite.claimed"]).await;
    let ada = app.person("ada@a.test").await;
    for round in 1..=rounds(USUAL_ROUNDS) {
        let body = json!({"name": "Owner", "domain": format!("a{round}.test"), "admin_email": ada.email});
        let provisioned = app.post(Credentials::Key(&key), PROVISIONED, &body).await;
        let token = app.token_of(&provisioned.body["invite"]).await;
        let claimed = at_once(&app, |app, _| {
            let (ada, token) = (ada.clone(), token.clone());
            async move { app.claim(&ada, &token).await }
        })
        .await;
        assert_eq!(claimed, BTreeMap::from([(200, 1), (409, PARALLEL - 1)]), "round {round}");
        assert_eq!(app.outbox(&hook).await.len(), round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_forty_reviews_wins() {
    let app = Arc::new(Identity::open().await);
    let (ada, operator) = (app.person("ada@a.test").await, app.operator("op@svc.test").await);
    for round in 0..rounds(USUAL_ROUNDS) {
        let id = app.ask_for(&ada, PLATFORM_REQUESTS, "Partner").await.text("id").to_owned();
        let reviewed = at_once(&app, |app, number| {
            let (operator, id) = (operator.clone(), id.clone());
            async move { app.review(&operator, &id, if number % 2 == 0 { "approve" } else { "reject" }).await }
        })
        .await;
        assert_eq!(reviewed.get(&409), Some(&(PARALLEL - 1)), "round {round}: {reviewed:?}");
        assert!(reviewed.contains_key(&201) != reviewed.contains_key(&200), "round {round}: {reviewed:?}");
    }
    let (approved, founded) = (
        app.count("SELECT count(*) FROM access_requests WHERE status = 'approved'").await,
        app.count("SELECT count(*) FROM organizations").await,
    );
    assert_eq!(approved, founded, "one organization per approval");
    let verdicts = "SELECT count(*) FROM audit_log WHERE action IN ('access_request.approved', 'access_request.rejected')";
    assert_eq!(app.count(verdicts).await, i64::try_from(rounds(USUAL_ROUNDS)).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_forty_attestations_wins() {
    let app = Arc::new(Identity::open().await);
    let (_, key) = app.partner("partner").await;
    for round in 0..rounds(USUAL_ROUNDS) {
        let body = json!({"name": "Owner", "domain": format!("a{round}.test"), "attest": true});
        let provisioned = at_once(&app, |app, _| {
            let (key, body) = (key.clone(), body.clone());
            async move { app.post(Credentials::Key(&key), PROVISIONED, &body).await }
        })
        .await;
        assert_eq!(provisioned, BTreeMap::from([(201, 1), (409, PARALLEL - 1)]), "round {round}");
    }
    let expected = i64::try_from(rounds(USUAL_ROUNDS)).unwrap();
    assert_eq!(app.count("SELECT count(*) FROM organizations WHERE provisioned_by IS NOT NULL").await, expected);
    assert_eq!(app.count("SELECT count(*) FROM domains").await, expected, "a rejected call leaves nothing behind");
}

/// Of concurrent invites to the same person, one stays open.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_last_of_forty_invites_stays_open() {
    let app = Arc::new(Identity::open().await);
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    let invited = at_once(&app, |app, _| {
        let (ada, org) = (ada.clone(), org.clone());
        async move { app.invite(&ada, &org, "bob@a.test", "member").await }
    })
    .await;
    assert_eq!(invited, BTreeMap::from([(201, PARALLEL)]));
    let open = "SELECT count(*) FROM invites WHERE withdrawn_at IS NULL";
    assert_eq!(app.count(open).await, 1);
}
