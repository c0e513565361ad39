//! Organization names in emails to others (A10).

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{ORGANIZATIONS, PROVISIONED};
use crate::test_app::{Credentials, Identity, Requests as _};
use serde_json::json;

const LURE: &str = "your account is locked - call 555 0100";

#[tokio::test]
async fn emails_omit_names_without_a_verified_domain() {
    let app = Identity::open().await;
    let eve = app.person("eve@evil.test").await;
    let body = json!({"name": LURE, "org_type": "content_owner", "domain": "a.test"});
    let founded = app.post(eve.credentials(), ORGANIZATIONS, &body).await;
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
        "organizations with a verified domain are named: {mail}"
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
    assert_eq!(app.post(Credentials::Key(&key), PROVISIONED, &body).await.status, 201);
    assert!(app.mails().iter().rev().take(2).all(|mail| !mail.contains("locked")));
}

#[tokio::test]
async fn emails_name_attested_domains_of_trusted_partners() {
    let app = Identity::open().await;
    let (partner, key) = app.partner("partner").await;
    let body = json!({"name": "Example Times", "domain": "a.test", "attest": true, "admin_email": "first@a.test"});
    let provisioned = app.post(Credentials::Key(&key), PROVISIONED, &body).await;
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
    assert!(app.mails().pop().unwrap().contains(named), "a verified domain needs no partner");
}
