//! What strangers may call themselves, and where it is told (A10, A14).

use crate::admin::{json_of, refusal};
use crate::people::{AGENT_REQUESTS, ORGANIZATIONS, PROVISIONED};
use crate::test_app::{Shows, TestApp};
use serde_json::json;

const LURE: &str = "your account is locked - call 555 0100";

/// Texts that are no names, whoever gives them to whatever.
const BAD: [&str; 13] = [
    "go to https://evil.example",
    "evil.example/login",
    "Visit WWW.evil.example",
    "ｗｗｗ.evil.example",
    "Аpple",
    "Арре",
    "Gооgle News",
    "𝐀pple",
    "Ap\u{200b}ple",
    "App\u{202e}el",
    "Ap\u{ad}ple",
    "Apple\u{2060}",
    "\u{feff}Apple",
];

#[tokio::test]
async fn a10_an_organisation_without_a_verified_domain_is_not_named_in_a_mail_to_somebody_else() {
    let app = TestApp::open().await;
    let eve = app.person("eve@evil.test").await;
    let body = json!({"name": LURE, "org_type": "content_owner", "domain": "a.test"});
    let founded = app.post(eve.shows(), ORGANIZATIONS, &body).await;
    let org = founded.text("id").to_owned();
    assert_eq!(app.invite(&eve, &org, "victim@v.test", "member").await.status, 201);
    let mail = app.mails().pop().unwrap();
    assert!(mail.contains("To: victim@v.test\r\n") && mail.contains("Subject: You are invited to an organization\r\n"), "{mail}");
    assert!(!mail.contains("locked") && mail.contains(&org), "{mail}");

    app.seed().verify(org.parse().unwrap(), "b.test").await;
    assert_eq!(app.invite(&eve, &org, "other@v.test", "member").await.status, 201);
    let mail = app.mails().pop().unwrap();
    assert!(
        mail.contains(&format!("Subject: You are invited to {LURE} (b.test)\r\n")),
        "who stands for a domain has a name: {mail}"
    );
    let release = "UPDATE domains SET released_at = now() WHERE domain = 'b.test'";
    sqlx::query(release).execute(&app.stores.pool).await.unwrap();
    assert_eq!(app.invite(&eve, &org, "third@v.test", "member").await.status, 201);
    assert!(!app.mails().pop().unwrap().contains("locked"));
    // Platforms and agents have no domains.
    let (platform, key) = app.platform(LURE).await;
    app.trust(platform, true).await;
    let ada = app.person("ada@p.test").await;
    identity_api::organizations::ensure_owner(&app.stores.pool, platform, ada.id).await.unwrap();
    assert_eq!(app.invite(&ada, &platform.to_string(), "victim@v.test", "member").await.status, 201);
    let body = json!({"name": LURE, "domain": "c.test", "admin_email": "victim@v.test"});
    assert_eq!(app.post(Shows::Key(&key), PROVISIONED, &body).await.status, 201);
    assert!(app.mails().iter().rev().take(2).all(|mail| !mail.contains("locked")));
}

#[tokio::test]
async fn a10_a_partners_word_for_a_domain_names_an_organisation_while_an_operator_trusts_the_partner() {
    let app = TestApp::open().await;
    let (partner, key) = app.platform("partner").await;
    app.trust(partner, true).await;
    let body = json!({"name": "Example Times", "domain": "a.test", "attest": true, "admin_email": "first@a.test"});
    let provisioned = app.post(Shows::Key(&key), PROVISIONED, &body).await;
    assert_eq!(provisioned.status, 201);
    let named = "Subject: You are invited to Example Times (a.test)\r\n";
    assert!(app.mails().pop().unwrap().contains(named), "{:?}", app.mails().pop());
    let org = provisioned.body["organization"]["id"].as_str().unwrap().to_owned();
    let ada = app.person("ada@a.test").await;
    identity_api::organizations::ensure_owner(&app.stores.pool, org.parse().unwrap(), ada.id).await.unwrap();
    app.trust(partner, false).await;
    assert_eq!(app.invite(&ada, &org, "second@a.test", "member").await.status, 201);
    let mail = app.mails().pop().unwrap();
    assert!(mail.contains("To: second@a.test\r\n") && !mail.contains("Example Times"), "{mail}");
    let prove = "UPDATE domains SET verification_method = 'dns_txt' WHERE domain = 'a.test'";
    sqlx::query(prove).execute(&app.stores.pool).await.unwrap();
    assert_eq!(app.invite(&ada, &org, "third@a.test", "member").await.status, 201);
    assert!(app.mails().pop().unwrap().contains(named), "its own proof needs nobody's word");
}

#[tokio::test]
async fn a10_a14_what_reads_as_a_link_or_as_another_name_names_no_organisation() {
    let app = TestApp::open().await;
    let ada = app.person("ada@a.test").await;
    let (partner, key) = app.platform("partner").await;
    app.trust(partner, true).await;
    let before = app.count("SELECT count(*) FROM organizations").await;
    for name in BAD {
        for refused in [
            app.post(ada.shows(), ORGANIZATIONS, &json!({"name": name, "org_type": "content_owner", "domain": "a.test"})).await,
            app.post(Shows::Key(&key), PROVISIONED, &json!({"name": name, "domain": "a.test"})).await,
            app.ask_for(&ada, AGENT_REQUESTS, name).await,
        ] {
            assert_eq!(refused.refusal(), (422, "invalid_request"), "{name:?}");
            assert_eq!(refused.body["errors"].as_array().unwrap().len(), 1, "{name:?}");
        }
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before);
    assert_eq!(app.count("SELECT count(*) FROM access_requests").await, 0);
    // Nor at the machine, where words are split at blanks.
    for name in ["evil.example/x", "www.evil.example", "Аpple"] {
        refusal(&app, &format!("organization create --type platform --name {name}"), 1).await;
    }
    let honest = json_of(&app, "organization create --type platform --name 朝日新聞デジタル").await;
    assert_eq!(honest["name"], "朝日新聞デジタル");
    // A key is named for its own organisation only, but not by what nobody sees.
    assert_eq!(app.create(Shows::Key(&key), &json!({"name": "prod/eu (Аpple)"})).await.status, 201);
    assert_eq!(app.create(Shows::Key(&key), &json!({"name": "prod\u{200b}"})).await.refusal(), (422, "invalid_request"));
}
