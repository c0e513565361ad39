//! Who may do what: no credential, bad ones, keys by scope, members of one or several organisations.

use crate::test_app::{Answer, KEYS, Shows, TestApp, answer};
use reqwest::Method;
use schemas::identity::{OrgType, Scope};
use schemas::secrets::{PlainApiKey, PlainUserSession};
use serde_json::json;

/// The answers to list, create and revoke.
async fn all_three(app: &TestApp, shows: Shows<'_>, query: &str, id: &str) -> [Answer; 3] {
    let create = app.request(Method::POST, &format!("{KEYS}{query}"), shows).header("content-type", "application/json");
    [
        answer(app.request(Method::GET, &format!("{KEYS}{query}"), shows)).await,
        answer(create.body("{}")).await,
        answer(app.request(Method::DELETE, &format!("{KEYS}/{id}{query}"), shows)).await,
    ]
}

fn statuses(answers: &[Answer; 3]) -> [u16; 3] {
    answers.each_ref().map(|answer| answer.status)
}

#[tokio::test]
async fn every_bad_credential_gets_the_same_401() {
    let app = TestApp::open().await;
    let (org, good) = app.org("owner").await;
    let session = app.session("owner@a.test", &[org]).await;
    let id = app.create(Shows::Key(&good), &json!({})).await.body["id"].as_str().unwrap().to_owned();
    let revoked = app.create(Shows::Key(&good), &json!({"scopes": ["identity:write"]})).await.body;
    assert_eq!(app.revoke(Shows::Key(&good), revoked["id"].as_str().unwrap()).await.status, 200);
    let (expired, ended) = (app.session("late@a.test", &[org]).await, app.session("gone@a.test", &[org]).await);
    for (email, column) in [("late@a.test", "expires_at"), ("gone@a.test", "ended_at")] {
        let past = format!("UPDATE user_sessions SET {column} = now() FROM users u WHERE u.id = user_id AND u.email = $1");
        sqlx::query(sqlx::AssertSqlSafe(past)).bind(email).execute(&app.stores.pool).await.unwrap();
    }

    let expected = app.list(Shows::Nothing).await;
    assert_eq!(expected.refusal(), (401, "unauthenticated"));
    let (never, nobody) = (PlainApiKey::mint(OrgType::ContentOwner), PlainUserSession::mint());
    for shows in [
        Shows::Nothing,
        Shows::Key(never.reveal()),
        Shows::Key(revoked["key"].as_str().unwrap()),
        Shows::Key(""),
        Shows::Key(&session),
        Shows::Session(nobody.reveal()),
        Shows::Session(&expired),
        Shows::Session(&ended),
        Shows::Session(&good),
        Shows::Both(never.reveal(), &session),
    ] {
        for refused in all_three(&app, shows, "", &id).await {
            assert_eq!(refused, expected);
        }
    }
    let twice = app.request(Method::GET, KEYS, Shows::Key(&good)).header("x-api-key", &good);
    assert_eq!(answer(twice).await, expected, "two key headers");
    assert_eq!(app.list(Shows::Key(&good)).await.body.as_array().unwrap().len(), 4, "nothing was minted");
}

#[tokio::test]
async fn x24_a_key_may_do_what_its_scopes_say_and_no_more() {
    let app = TestApp::open().await;
    let (org, good) = app.org("owner").await;
    for (scopes, expected) in [
        (&[Scope::TelemetryRead, Scope::TelemetryWrite][..], [403, 403, 403]),
        (&[Scope::IdentityRead], [200, 403, 403]),
        (&[Scope::IdentityWrite], [200, 403, 200]),
        (&[Scope::IdentityRead, Scope::IdentityWrite, Scope::TelemetryRead, Scope::TelemetryWrite], [200, 201, 200]),
    ] {
        let id = app.create(Shows::Key(&good), &json!({})).await.body["id"].as_str().unwrap().to_owned();
        let key = app.seed().key(org, OrgType::ContentOwner, scopes).await;
        let answers = all_three(&app, Shows::Key(&key), "", &id).await;
        assert_eq!(statuses(&answers), expected, "{scopes:?}");
        for refused in answers.iter().filter(|answer| answer.status == 403) {
            assert_eq!(refused.refusal(), (403, "missing_scope"), "{scopes:?}");
        }
    }
    let reader = app.seed().key(org, OrgType::ContentOwner, &[Scope::IdentityRead]).await;
    let absent = app.revoke(Shows::Key(&reader), "01900000-0000-7000-8000-000000000000").await;
    assert_eq!(absent.refusal(), (403, "missing_scope"), "before anybody looks whether there is such a key");
}

#[tokio::test]
async fn a_member_acts_for_their_organisation_and_names_it_when_there_are_several() {
    let app = TestApp::open().await;
    let ((one, one_key), (two, two_key), (other, other_key)) =
        (app.org("one").await, app.org("two").await, app.org("other").await);
    let mint = async |key: &str| app.create(Shows::Key(key), &json!({})).await.body["id"].as_str().unwrap().to_owned();

    let single = app.session("single@a.test", &[one]).await;
    for query in [String::new(), format!("?organization_id={one}")] {
        let answers = all_three(&app, Shows::Session(&single), &query, &mint(&one_key).await).await;
        assert_eq!(statuses(&answers), [200, 201, 200], "{query}");
        assert!(answers[1].body["key"].as_str().unwrap().starts_with("svc_pub_"));
    }

    let several = app.session("several@a.test", &[one, two]).await;
    let id = mint(&two_key).await;
    let unnamed = all_three(&app, Shows::Session(&several), "", &id).await;
    assert!(unnamed.iter().all(|refused| refused.refusal() == (400, "invalid_parameter")), "{unnamed:?}");
    let answers = all_three(&app, Shows::Session(&several), &format!("?organization_id={two}"), &id).await;
    assert_eq!(statuses(&answers), [200, 201, 200]);
    assert_eq!(answers[1].body["organization_id"], json!(two));
    let elsewhere = all_three(&app, Shows::Session(&several), &format!("?organization_id={one}"), &mint(&two_key).await).await;
    assert_eq!(statuses(&elsewhere), [200, 201, 404], "a key of two is not there when acting for one");

    let stranger = app.session("stranger@a.test", &[]).await;
    let id = mint(&other_key).await;
    let expected = answer(app.request(Method::GET, &format!("{KEYS}?organization_id={other}"), Shows::Session(&single))).await;
    assert_eq!(expected.refusal(), (403, "forbidden"));
    let absent = "01900000-0000-7000-8000-000000000000".to_owned();
    for (session, org) in
        [(&single, other.to_string()), (&several, other.to_string()), (&stranger, other.to_string()), (&single, absent)]
    {
        for refused in all_three(&app, Shows::Session(session), &format!("?organization_id={org}"), &id).await {
            assert_eq!(refused, expected, "the answer does not tell whether there is such an organisation");
        }
    }
    assert_eq!(app.list(Shows::Session(&stranger)).await.refusal(), (403, "forbidden"));
    for malformed in ["x", "%00", "", "1"] {
        let path = format!("{KEYS}?organization_id={malformed}");
        let refused = answer(app.request(Method::GET, &path, Shows::Session(&single))).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{malformed:?}");
    }
    let twice = format!("{KEYS}?organization_id={one}&organization_id={two}");
    let refused = answer(app.request(Method::GET, &twice, Shows::Session(&several))).await;
    assert_eq!(refused.refusal(), (400, "invalid_parameter"), "two organisations are as good as none");
}
