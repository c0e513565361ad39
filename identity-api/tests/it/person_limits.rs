//! Limits per person: invite emails, organizations, access requests.

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{AGENT_REQUESTS, ORGANIZATIONS, PLATFORM_REQUESTS, PROVISIONED, REVIEWS, invites_of, members_of};
use crate::races::{PARALLEL, at_once};
use crate::test_app::{Credentials, Identity, Requests as _, TestApp, sign_in};
use chrono::TimeDelta;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use serde_json::json;
use service_kit::clock::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;

async fn open(invites: u32, invites_to_address: u32) -> TestApp {
    let sign_in = SignInSettings { invites, invites_to_address, ..sign_in() };
    Identity::open_for(Clock::manual(Clock::System.now()), sign_in).await
}

#[tokio::test]
async fn withdrawn_invites_count_against_the_hourly_limit() {
    let app = open(3, 0).await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    let org = app.create_organization(&ada, "a.test").await.text("id").to_owned();
    let second = app.create_organization(&ada, "second.test").await.text("id").to_owned();
    for number in 0..3 {
        let invite = app.invite(&ada, &org, &format!("p{number}@a.test"), "member").await;
        assert_eq!(invite.status, 201, "{}", invite.body);
        let path = format!("{}/{}", invites_of(&org), invite.text("id"));
        assert_eq!(app.delete(ada.credentials(), &path).await.status, 204);
        app.clock.advance(TimeDelta::minutes(10));
    }
    let (mails, body) = (app.mails().len(), json!({"email": "p3@a.test"}).to_string());
    let request = app.request(Method::POST, &members_of(&second), ada.credentials()).header("content-type", "application/json");
    let refused = request.body(body).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1800"));
    assert_eq!(app.mails().len(), mails, "no email is sent");
    let hers = app.create_organization(&eve, "b.test").await.text("id").to_owned();
    assert_eq!(app.invite(&eve, &hers, "p3@a.test", "member").await.status, 201, "another person can");
    app.clock.advance(TimeDelta::minutes(30));
    assert_eq!(app.invite(&ada, &second, "p3@a.test", "member").await.status, 201, "the first invite is an hour old");
    assert_eq!(app.invite(&ada, &second, "p4@a.test", "member").await.status, 429);
}

#[tokio::test]
async fn inviters_do_not_use_up_others_limits() {
    let app = open(0, 2).await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    let mut orgs = Vec::new();
    for (by, domain) in [(&ada, "a.test"), (&ada, "second.test"), (&eve, "b.test")] {
        orgs.push(app.create_organization(by, domain).await.text("id").to_owned());
    }
    let (own, second, hers) = (&orgs[0], &orgs[1], &orgs[2]);
    for _ in 0..2 {
        assert_eq!(app.invite(&ada, own, "bob@a.test", "member").await.status, 201);
    }
    for org in [own, second] {
        let refused = app.invite(&ada, org, "Bob@a.test", "owner").await;
        assert_eq!(refused.refusal(), (429, "too_many_requests"), "all organizations of a person count");
        assert_eq!(app.invite(&ada, org, "cy@a.test", "member").await.status, 201, "another address");
    }
    let open = app.get(ada.credentials(), &invites_of(own)).await.body;
    assert_eq!(open[0]["role"], json!("member"), "the open invite stays: {open}");
    assert_eq!(app.invite(&eve, hers, "bob@a.test", "member").await.status, 201, "others have their own limit");
    app.clock.advance(TimeDelta::hours(1));
    assert_eq!(app.invite(&ada, own, "bob@a.test", "owner").await.status, 201);
}

/// Accounts are free, so a mailbox could be flooded without a shared limit.
#[tokio::test]
async fn unverified_organizations_share_one_invite_limit() {
    let app = open(0, 1).await;
    let mut invited = Vec::new();
    for number in 0..6 {
        let (founder, org) = app.create_owner(&format!("p{number}@x.test"), &format!("a{number}.test")).await;
        invited.push((app.invite(&founder, &org, "bob@a.test", "member").await.status, founder, org));
    }
    assert_eq!(invited.iter().map(|(status, ..)| *status).collect::<Vec<_>>(), [201, 201, 201, 201, 429, 429]);
    let (_, founder, org) = &invited[4];
    app.seed().verify(org.parse().unwrap(), "verified.test").await;
    assert_eq!(app.invite(founder, org, "bob@a.test", "member").await.status, 201, "with a verified domain");
    let (_, key) = app.partner("partner").await;
    let provisioned = json!({"name": "Owner", "domain": "new.test", "admin_email": "bob@a.test"});
    assert_eq!(app.post(Credentials::Key(&key), PROVISIONED, &provisioned).await.status, 201, "by a trusted partner");
    let (platform, _) = app.platform("platform").await;
    let session = app.session("jo@x.test", &[platform]).await;
    let asked =
        app.post(Credentials::Session(&session), &members_of(&platform.to_string()), &json!({"email": "bob@a.test"})).await;
    assert_eq!(asked.status, 201, "operators approve platforms: {}", asked.body);
}

#[tokio::test]
async fn limits_invites_per_partner_key_and_hour() {
    let app = open(2, 0).await;
    let (_, key) = app.partner("partner").await;
    for (number, expected) in [201, 201, 429].into_iter().enumerate() {
        let body = json!({"name": "Owner", "domain": format!("a{number}.test"), "admin_email": format!("p{number}@a.test")});
        assert_eq!(app.post(Credentials::Key(&key), PROVISIONED, &body).await.status, expected, "{number}");
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations WHERE provisioned_by IS NOT NULL").await, 2);
}

/// Runs forty calls at once against limits below forty.
#[tokio::test(flavor = "multi_thread")]
async fn forty_concurrent_calls_do_not_exceed_the_limits() {
    let app = Arc::new(open(7, 0).await);
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    let requests = |number: usize| if number.is_multiple_of(2) { PLATFORM_REQUESTS } else { AGENT_REQUESTS };
    for (what, room, refusal) in [("invite", 7, 429), ("found", 19, 409), ("ask", 5, 409)] {
        let answers = at_once(&app, |app, number| {
            let (ada, org) = (ada.clone(), org.clone());
            async move {
                let founding = json!({"name": "A", "org_type": "content_owner", "domain": format!("a{number}.test")});
                match what {
                    "invite" => app.invite(&ada, &org, &format!("p{number}@a.test"), "member").await,
                    "found" => app.post(ada.credentials(), ORGANIZATIONS, &founding).await,
                    _ => app.ask_for(&ada, requests(number), "Partner").await,
                }
            }
        })
        .await;
        assert_eq!(answers, BTreeMap::from([(201, room), (refusal, PARALLEL - room)]), "{what}");
    }
    let operator = app.operator("op@svc.test").await;
    let pending = app.get(operator.credentials(), REVIEWS).await.body[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(app.review(&operator, &pending, "reject").await.status, 200);
    assert_eq!(app.ask_for(&ada, AGENT_REQUESTS, "Partner").await.status, 201, "a reviewed request no longer counts");
    let eve = app.person("eve@b.test").await;
    app.create_organization(&eve, "b.test").await;
}
