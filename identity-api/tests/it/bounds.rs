//! How much one person may start: mails of invites, organisations, access requests.

use crate::desk::{Desk, Shows, sign_in};
use crate::people::{AGENT_REQUESTS, ORGANIZATIONS, PLATFORM_REQUESTS, PROVISIONED, REVIEWS, invites_of, members_of};
use chrono::TimeDelta;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::settings::WebhookSettings;
use std::sync::Arc;
use tokio::task::JoinSet;

async fn open(invites: u32, invites_to_address: u32) -> Desk {
    let sign_in = SignInSettings { invites, invites_to_address, ..sign_in() };
    Desk::open_for(Clock::manual(Clock::System.now()), WebhookSettings::default(), sign_in).await
}

#[tokio::test]
async fn a_person_invites_so_many_within_an_hour_and_withdrawing_gives_nothing_back() {
    let desk = open(3, 0).await;
    let (ada, eve) = (desk.person("ada@a.test").await, desk.person("eve@b.test").await);
    let org = desk.founded(&ada, "a.test").await.text("id").to_owned();
    let second = desk.founded(&ada, "second.test").await.text("id").to_owned();
    for number in 0..3 {
        let invite = desk.invite(&ada, &org, &format!("p{number}@a.test"), "member").await;
        assert_eq!(invite.status, 201, "{}", invite.body);
        let path = format!("{}/{}", invites_of(&org), invite.text("id"));
        assert_eq!(desk.delete(ada.shows(), &path).await.status, 204);
        desk.clock.advance(TimeDelta::minutes(10));
    }
    let (mails, body) = (desk.mails().len(), json!({"email": "p3@a.test"}).to_string());
    let request = desk.request(Method::POST, &members_of(&second), ada.shows()).header("content-type", "application/json");
    let refused = request.body(body).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1800"));
    assert_eq!(desk.mails().len(), mails, "nothing is sent");
    let hers = desk.founded(&eve, "b.test").await.text("id").to_owned();
    assert_eq!(desk.invite(&eve, &hers, "p3@a.test", "member").await.status, 201, "another person may");
    desk.clock.advance(TimeDelta::minutes(30));
    assert_eq!(desk.invite(&ada, &second, "p3@a.test", "member").await.status, 201, "the first is an hour old");
    assert_eq!(desk.invite(&ada, &second, "p4@a.test", "member").await.status, 429);
}

#[tokio::test]
async fn an_address_is_invited_so_often_within_an_hour_whoever_invites() {
    let desk = open(0, 2).await;
    let (ada, eve) = (desk.person("ada@a.test").await, desk.person("eve@b.test").await);
    let (org, hers) = (desk.founded(&ada, "a.test").await, desk.founded(&eve, "b.test").await);
    let (org, hers) = (org.text("id"), hers.text("id"));
    assert_eq!(desk.invite(&ada, org, "bob@a.test", "member").await.status, 201);
    assert_eq!(desk.invite(&eve, hers, "bob@a.test", "member").await.status, 201);
    for (by, org) in [(&ada, org), (&eve, hers)] {
        let refused = desk.invite(by, org, "Bob@a.test", "owner").await;
        assert_eq!(refused.refusal(), (429, "too_many_requests"));
        let open = desk.get(by.shows(), &invites_of(org)).await.body;
        assert_eq!(open[0]["role"], json!("member"), "the one that is open stays: {open}");
        assert_eq!(desk.invite(by, org, "cy@a.test", "member").await.status, 201);
    }
    desk.clock.advance(TimeDelta::hours(1));
    assert_eq!(desk.invite(&ada, org, "bob@a.test", "owner").await.status, 201);
}

#[tokio::test]
async fn a_key_of_a_partner_invites_so_many_within_an_hour() {
    let desk = open(2, 0).await;
    let (partner, key) = desk.platform("partner").await;
    desk.trust(partner, true).await;
    for (number, expected) in [201, 201, 429].into_iter().enumerate() {
        let body = json!({"name": "Owner", "domain": format!("a{number}.test"), "admin_email": format!("p{number}@a.test")});
        assert_eq!(desk.post(Shows::Key(&key), PROVISIONED, &body).await.status, expected, "{number}");
    }
    assert_eq!(desk.count("SELECT count(*) FROM organizations WHERE provisioned_by IS NOT NULL").await, 2);
}

/// Forty at once of what there is room for fewer of.
#[tokio::test(flavor = "multi_thread")]
async fn of_forty_at_once_no_more_get_through_than_there_is_room_for() {
    let desk = Arc::new(open(7, 0).await);
    let ada = desk.person("ada@a.test").await;
    let org = desk.founded(&ada, "a.test").await.text("id").to_owned();
    let requests = |number: usize| if number.is_multiple_of(2) { PLATFORM_REQUESTS } else { AGENT_REQUESTS };
    for (what, room, refusal) in [("invite", 7, 429), ("found", 19, 409), ("ask", 5, 409)] {
        let mut calls = JoinSet::new();
        for number in 0..40 {
            let (desk, ada, org) = (Arc::clone(&desk), ada.clone(), org.clone());
            calls.spawn(async move {
                let founding = json!({"name": "A", "org_type": "content_owner", "domain": format!("a{number}.test")});
                match what {
                    "invite" => desk.invite(&ada, &org, &format!("p{number}@a.test"), "member").await,
                    "found" => desk.post(ada.shows(), ORGANIZATIONS, &founding).await,
                    _ => desk.ask_for(&ada, requests(number), "Partner").await,
                }
            });
        }
        let answers = calls.join_all().await;
        let got = |status| answers.iter().filter(|answer| answer.status == status).count();
        assert_eq!((got(201), got(refusal)), (room, 40 - room), "{what}: {answers:?}");
    }
    let operator = desk.operator("op@svc.test").await;
    let pending = desk.get(operator.shows(), REVIEWS).await.body[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(desk.review(&operator, &pending, "reject").await.status, 200);
    assert_eq!(desk.ask_for(&ada, AGENT_REQUESTS, "Partner").await.status, 201, "a review makes room");
    let eve = desk.person("eve@b.test").await;
    desk.founded(&eve, "b.test").await;
}
