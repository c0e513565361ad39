//! Access requests, from filing to review (threat rows I2, I4, I5).

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{AGENT_REQUESTS, ORGANIZATIONS, PLATFORM_REQUESTS, Person, REVIEWS};
use crate::test_app::{Identity, KEYS, Requests as _, TestApp, sign_in};
use chrono::TimeDelta;
use identity_api::sign_in::SignInSettings;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{TestResponse, eventually};

async fn send_note(app: &TestApp, by: &Person, id: &str, verdict: &str, note: &Value) -> TestResponse {
    app.post(by.credentials(), &format!("{REVIEWS}/{id}/{verdict}"), note).await
}

#[tokio::test]
async fn i4_people_see_only_their_own_requests() {
    let app = Identity::open_with_manual_clock().await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    let platform = app.ask_for(&ada, PLATFORM_REQUESTS, "Partner").await;
    let agent = app.ask_for(&ada, AGENT_REQUESTS, "Bot").await;
    assert_eq!((platform.status, agent.status), (201, 201));
    assert_eq!(
        platform.body,
        json!({
            "id": platform.body["id"], "user_id": ada.id, "org_type": "platform", "org_name": "Partner",
            "admin_email": "admin@partner.test", "use_case": "we measure", "status": "pending", "created_at": app.now_text(),
            "reviewed_at": null, "reviewed_by": null, "reviewer_note": null, "approved_org_id": null,
        })
    );
    assert_eq!(app.get(ada.credentials(), PLATFORM_REQUESTS).await.body, json!([platform.body]));
    assert_eq!(app.get(ada.credentials(), AGENT_REQUESTS).await.body, json!([agent.body]));
    for endpoint in [PLATFORM_REQUESTS, AGENT_REQUESTS] {
        assert_eq!(app.get(eve.credentials(), endpoint).await.body, json!([]), "only her own requests");
    }
    assert_eq!(app.get(ada.credentials(), ORGANIZATIONS).await.body, json!([]), "no organization before the approval");
    let trail = "SELECT count(*) FROM audit_log WHERE action = 'access_request.created' AND actor_kind = 'user' AND organization_id IS NULL";
    assert_eq!(app.count(trail).await, 2);
}

#[tokio::test]
async fn decision_email_links_to_the_next_step() {
    let page = Some("https://console.example.com/sign-in".parse().unwrap());
    let settings = SignInSettings { sign_in_url: page, ..sign_in() };
    let app = Identity::open_for(Clock::System, settings).await;
    let (ada, operator) = (app.person("ada@a.test").await, app.operator("op@svc.test").await);
    for verdict in ["approve", "reject"] {
        let filed = app.ask_for(&ada, AGENT_REQUESTS, verdict).await;
        app.review(&operator, filed.text("id"), verdict).await;
        let mail = app.mails().into_iter().rfind(|mail| mail.contains("To: ada@a.test\r\n")).unwrap();
        assert!(mail.contains(&format!("request for {verdict} was")), "{mail}");
        assert!(mail.contains("\r\n\r\nhttps://console.example.com/sign-in/arrived\r\n"), "{mail}");
    }
}

#[tokio::test]
async fn operators_get_one_fixed_email_per_hour() {
    let app = Identity::open_with_manual_clock().await;
    let (ada, eve, operator) =
        (app.person("ada@a.test").await, app.person("eve@b.test").await, app.operator("op@svc.test").await);
    let told = async |count: usize| {
        let mails = async || {
            let mails = app.mails();
            (mails.iter().filter(|mail| mail.contains("To: op@svc.test\r\n")).count() >= count).then_some(mails)
        };
        let mails = eventually(&format!("{count} mails"), mails).await;
        let told = mails.iter().filter(|mail| mail.contains("To: op@svc.test\r\n"));
        assert!(
            told.clone().all(|mail| mail.contains("organization request to review") && !mail.contains("Bargain")),
            "{mails:?}"
        );
        assert_eq!(told.count(), count, "{mails:?}");
    };
    let first = app.ask_for(&ada, AGENT_REQUESTS, "Bargain").await;
    told(1).await;
    for person in [&ada, &eve] {
        assert_eq!(app.ask_for(person, PLATFORM_REQUESTS, "Bargain").await.status, 201);
    }
    app.clock.advance(TimeDelta::minutes(61));
    assert_eq!(app.ask_for(&eve, AGENT_REQUESTS, "Bargain").await.status, 201);
    told(2).await;
    for request in app.get(operator.credentials(), &format!("{REVIEWS}?status=pending")).await.body.as_array().unwrap() {
        assert!(matches!(app.review(&operator, request["id"].as_str().unwrap(), "reject").await.status, 200));
    }
    assert_eq!(app.ask_for(&eve, AGENT_REQUESTS, "Bargain").await.status, 201);
    told(3).await;
    assert_eq!(first.status, 201);
}

#[tokio::test]
async fn approval_creates_the_organization_with_its_owner() {
    let app = Identity::open_with_manual_clock().await;
    let (ada, operator) = (app.person("ada@a.test").await, app.operator("op@svc.test").await);
    for (endpoint, org_type) in [(PLATFORM_REQUESTS, "platform"), (AGENT_REQUESTS, "agent")] {
        let filed = app.ask_for(&ada, endpoint, org_type).await;
        let approved = send_note(&app, &operator, filed.text("id"), "approve", &json!({"note": "welcome\nin"})).await;
        assert_eq!(approved.status, 201, "{}", approved.body);
        let mut expected = filed.body.clone();
        expected["status"] = json!("approved");
        expected["reviewed_at"] = app.now_text();
        expected["reviewed_by"] = json!(operator.id);
        expected["reviewer_note"] = json!("welcome\nin");
        expected["approved_org_id"] = approved.body["approved_org_id"].clone();
        assert_eq!(approved.body, expected);
        assert_eq!(app.get(ada.credentials(), endpoint).await.body, json!([expected]), "the requester sees the verdict");
        let org = approved.text("approved_org_id");
        let shown = app.get(ada.credentials(), &format!("{ORGANIZATIONS}/{org}")).await;
        assert_eq!((shown.text("org_type"), shown.text("name")), (org_type, org_type));
        assert_eq!((&shown.body["domain"], &shown.body["domains"]), (&Value::Null, &json!([])));
        assert_eq!(app.members(&ada, org).await, [("ada@a.test".to_owned(), "owner".to_owned())]);
        assert_eq!(
            app.get(operator.credentials(), &format!("{ORGANIZATIONS}/{org}")).await.status,
            404,
            "the operator is not a member"
        );
        let key = app.post(ada.credentials(), &format!("{KEYS}?organization_id={org}"), &json!({})).await;
        assert!(key.text("key").starts_with("svc_pk_"), "the owner can create keys");
        let changes = app.audited(org.parse().unwrap()).await;
        assert_eq!(changes, ["organization.created", "member.added", "access_request.approved", "api_key.created"]);
    }
    let mails: Vec<String> = app.mails().into_iter().filter(|mail| mail.contains("To: ada@a.test")).collect();
    assert_eq!(mails.len(), 2, "one email per verdict");
    for (mail, name) in mails.iter().zip(["platform", "agent"]) {
        assert!(mail.contains("To: ada@a.test") && mail.contains(&format!("Your request for {name} was approved")), "{mail}");
        assert!(mail.contains("welcome"), "{mail}");
    }
    let by_operator = "SELECT count(*) FROM audit_log a JOIN users u ON u.id = a.actor_id \
                       WHERE a.actor_kind = 'operator' AND u.email = 'op@svc.test'";
    assert_eq!(app.count(by_operator).await, 6);
}

#[tokio::test]
async fn requests_can_be_reviewed_only_once() {
    let app = Identity::open().await;
    let (ada, operator) = (app.person("ada@a.test").await, app.operator("op@svc.test").await);
    for (first, status, name) in [("approve", 201, "approved"), ("reject", 200, "rejected")] {
        let filed = app.ask_for(&ada, PLATFORM_REQUESTS, "Partner").await;
        let reviewed = app.review(&operator, filed.text("id"), first).await;
        assert_eq!((reviewed.status, reviewed.text("status")), (status, name), "the body is optional");
        assert_eq!(reviewed.body["approved_org_id"].is_string(), first == "approve");
        assert_eq!(reviewed.body["reviewer_note"], Value::Null);
        for verdict in ["approve", "reject"] {
            assert_eq!(app.review(&operator, filed.text("id"), verdict).await.refusal(), (409, "conflict"), "{verdict}");
        }
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, 1, "a rejected approval creates nothing");
    let listed = async |query: &str| {
        let listed = app.get(operator.credentials(), &format!("{REVIEWS}{query}")).await.body;
        listed.as_array().unwrap().iter().map(|request| request["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    app.ask_for(&ada, AGENT_REQUESTS, "Bot").await;
    assert_eq!(listed("").await, ["approved", "rejected", "pending"]);
    for status in ["approved", "rejected", "pending"] {
        assert_eq!(listed(&format!("?status={status}")).await, [status]);
    }
    for query in ["?status=open", "?status=", "?status=pending&status=approved"] {
        let refused = app.get(operator.credentials(), &format!("{REVIEWS}{query}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{query}");
    }
}
