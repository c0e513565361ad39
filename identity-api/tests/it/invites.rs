//! Invites: email, claim, list, withdraw, expire.

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{invites_of, members_of};
use crate::test_app::{Identity, Requests as _, TestApp, UNKNOWN_ID, sign_in};
use chrono::TimeDelta;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use schemas::identity::INVITE_LIFETIME;
use schemas::instant;
use schemas::secrets::PlainInvite;
use serde_json::json;
use service_kit::clock::Clock;

#[tokio::test]
async fn invites_can_be_claimed_only_once() {
    let app = Identity::open_with_manual_clock().await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    let invite = app.invite(&ada, &org, "Bob@A.test", "owner").await;
    assert_eq!(invite.status, 201);
    let now = app.clock.now();
    assert_eq!(
        invite.body,
        json!({"id": invite.body["id"], "organization_id": org, "email": "bob@a.test", "role": "owner",
               "created_at": app.now_text(), "expires_at": instant::text(now + INVITE_LIFETIME), "mailed_at": app.now_text()}),
        "without the token"
    );
    assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([invite.body]));
    let token = app.token_of(&invite.body).await;
    let (bob, eve) = (app.person("bob@a.test").await, app.person("eve@b.test").await);
    assert_eq!(app.claim(&eve, &token).await.refusal(), (403, "forbidden"), "a stolen token is not enough");
    let claimed = app.claim(&bob, &token).await;
    assert_eq!(claimed.status, 200);
    assert_eq!(
        claimed.body,
        json!({"organization_id": org, "user_id": bob.id, "email": "bob@a.test", "role": "owner", "created_at": app.now_text()})
    );
    assert_eq!(app.claim(&bob, &token).await.refusal(), (409, "conflict"), "once");
    assert_eq!(app.claim(&eve, &token).await.refusal(), (403, "forbidden"));
    assert_eq!(app.get(bob.credentials(), &invites_of(&org)).await.body, json!([]));
    assert_eq!(app.invite(&bob, &org, "BOB@a.test", "member").await.refusal(), (409, "conflict"), "he is a member");
    let changes = app.audited(org.parse().unwrap()).await;
    assert_eq!(changes[changes.len() - 3..], ["invite.created", "member.added", "invite.claimed"]);
}

pub(crate) fn mailed_token(app: &TestApp) -> String {
    let mail = app.mails().pop().unwrap();
    mail.lines().find(|line| line.starts_with("inv_")).unwrap_or_else(|| panic!("{mail}")).to_owned()
}

#[tokio::test]
async fn invite_emails_start_with_the_link() {
    let page = Some("https://console.example.com/sign-in".parse().unwrap());
    let settings = SignInSettings { sign_in_url: page, ..sign_in() };
    let app = Identity::open_for(Clock::System, settings).await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    assert_eq!(app.invite(&ada, &org, "bob@a.test", "member").await.status, 201);
    let token = mailed_token(&app);
    let mails = app.mails();
    let [mail] = mails.as_slice() else { panic!("one mail: {mails:?}") };
    let said = "You are invited to join an organization on Content Telemetry as a member";
    assert!(mail.contains("To: bob@a.test\r\n") && mail.contains(said), "{mail}");
    let link = format!("\r\n\r\nhttps://console.example.com/sign-in/invite?token={token}\r\n\r\n");
    assert!(mail.find(&link).unwrap() < mail.find(&format!("\r\n{token}\r\n")).unwrap(), "{mail}");
    let bob = app.person("bob@a.test").await;
    assert_eq!(app.claim(&bob, &token).await.status, 200);
}

#[tokio::test]
async fn unsent_invites_are_reported_and_replaceable() {
    let app = Identity::open().await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    // With a file in place of the folder, every write fails.
    let folder = app.mail_dir.path();
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::write(folder, "").unwrap();
    let unsent = app.invite(&ada, &org, "bob@a.test", "member").await;
    assert_eq!((unsent.status, &unsent.body["mailed_at"]), (201, &json!(null)));
    std::fs::remove_file(folder).unwrap();
    let sent = app.invite(&ada, &org, "bob@a.test", "member").await;
    assert!(sent.body["mailed_at"].is_string(), "{}", sent.body);
    assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([sent.body]));
    let bob = app.person("bob@a.test").await;
    assert_eq!(app.claim(&bob, &mailed_token(&app)).await.status, 200);
}

#[tokio::test]
async fn invites_expire_after_seven_days_or_when_replaced() {
    let app = Identity::open_with_manual_clock().await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    let first = app.invite(&ada, &org, "bob@a.test", "member").await.body;
    let first_token = app.token_of(&first).await;
    app.clock.advance(INVITE_LIFETIME - TimeDelta::microseconds(1));
    assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([first]), "still open just before expiry");
    app.clock.advance(TimeDelta::microseconds(1));
    assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([]));
    let bob = app.person("bob@a.test").await;
    assert_eq!(app.claim(&bob, &first_token).await.refusal(), (410, "expired"));

    let second = app.invite(&ada, &org, "bob@a.test", "member").await.body;
    let second_token = app.token_of(&second).await;
    let third = app.invite(&ada, &org, "bob@a.test", "owner").await.body;
    let third_token = app.token_of(&third).await;
    assert_eq!(app.get(ada.credentials(), &invites_of(&org)).await.body, json!([third]));
    for dead in [&first_token, &second_token] {
        assert_eq!(app.claim(&bob, dead).await.refusal(), (404, "not_found"), "only the newest invite works");
    }
    assert_eq!(app.claim(&bob, &third_token).await.text("role"), "owner");
}

#[tokio::test]
async fn withdrawn_and_unknown_invites_get_the_same_response() {
    let app = Identity::open().await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    let org = app.create_organization(&ada, "a.test").await.text("id").to_owned();
    let other = app.create_organization(&eve, "b.test").await.text("id").to_owned();
    let invite = app.invite(&ada, &org, "bob@a.test", "member").await.body;
    let (bob, token) = (app.person("bob@a.test").await, app.token_of(&invite).await);
    let id = invite["id"].as_str().unwrap();
    let elsewhere = app.delete(eve.credentials(), &format!("{}/{id}", invites_of(&other))).await;
    assert_eq!(elsewhere.refusal(), (404, "not_found"), "an invite of another organization");
    for nobody in [UNKNOWN_ID, "x", "%00"] {
        assert_eq!(app.delete(ada.credentials(), &format!("{}/{nobody}", invites_of(&org))).await, elsewhere, "{nobody}");
    }
    for _ in 0..2 {
        assert_eq!(app.delete(ada.credentials(), &format!("{}/{id}", invites_of(&org))).await.status, 204);
    }
    let withdrawn = app.claim(&bob, &token).await;
    assert_eq!(withdrawn.refusal(), (404, "not_found"));
    for never in [PlainInvite::generate().reveal(), "", "inv_", "x", "\u{0}"] {
        assert_eq!(app.claim(&bob, never).await, withdrawn, "{never:?}");
    }
    let claimed = app.invite(&ada, &org, "cy@a.test", "member").await.body;
    let (cy, token) = (app.person("cy@a.test").await, app.token_of(&claimed).await);
    assert_eq!(app.claim(&cy, &token).await.status, 200);
    let path = format!("{}/{}", invites_of(&org), claimed["id"].as_str().unwrap());
    assert_eq!(app.delete(ada.credentials(), &path).await.refusal(), (409, "conflict"), "claimed invites can't be withdrawn");
    let changes = app.audited(org.parse().unwrap()).await;
    assert_eq!(changes.iter().filter(|change| *change == "invite.withdrawn").count(), 1);
}

#[tokio::test]
async fn limits_open_invites() {
    let app = Identity::open().await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    let bare = app.post(ada.credentials(), &members_of(&org), &json!({"email": "bob@a.test"})).await;
    assert_eq!((bare.status, bare.text("role")), (201, "member"), "the default role is member");
    let fill = "INSERT INTO invites (id, organization_id, email, role, token_hash, created_at, expires_at) \
                SELECT uuidv7(), o.id, n || '@a.test', 'member', sha256(n::text::bytea), now(), now() + '7 days' \
                FROM organizations o, generate_series(1, 99) n";
    sqlx::query(fill).execute(&app.stores.pool).await.unwrap();
    assert_eq!(app.invite(&ada, &org, "cy@a.test", "member").await.refusal(), (409, "conflict"), "the 101st");
    assert_eq!(app.invite(&ada, &org, "bob@a.test", "owner").await.status, 201, "it replaces an open invite");
    let get = app.send(Method::GET, ada.credentials(), &invites_of(&org), "").await;
    assert_eq!(get.body.as_array().unwrap().len(), 100);
}
