//! How much one organization can grow PostgreSQL until its budget is spent (threat row F50).

use crate::test_app::{
    Credentials, DELEGATIONS, DOMAINS, DRAINS, Identity, KEYS, Requests as _, TestApp, TestResponse, WEBHOOKS, manual_clock,
    sign_in,
};
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use schemas::ids::OrgId;
use serde_json::json;

/// An eighth of the default, to keep the test short.
const BUDGET: u64 = 512 * 1024;
const ALLOWED: i64 = 10_000_000 / 8;
/// More than the budget permits.
const MAX_REQUESTS: usize = 2_000;

#[derive(Clone, Copy, Debug)]
enum Writer {
    Delegations,
    Keys,
    Drains,
    Domains,
    Webhooks,
    Invites,
}

/// An owner, a platform with access, and a session of its person.
struct Attacker<'a> {
    app: &'a TestApp,
    org: OrgId,
    key: String,
    session: String,
    platform: OrgId,
}

impl Attacker<'_> {
    async fn delete(&self, list: &str, created: &TestResponse) -> TestResponse {
        if created.status == 429 {
            return created.clone();
        }
        self.app.send(Method::DELETE, Credentials::Key(&self.key), &format!("{list}/{}", created.text("id")), "").await
    }

    /// Writes as much as it can, and deletes objects whose number is limited.
    async fn write(&self, writer: Writer, number: usize) -> TestResponse {
        let (app, key) = (self.app, Credentials::Key(&self.key));
        match writer {
            Writer::Delegations => self.delete(DELEGATIONS, &app.grant(&self.key, self.platform).await).await,
            Writer::Keys => app.post(key, KEYS, &json!({"name": "n".repeat(100)})).await,
            Writer::Drains => {
                self.delete(DRAINS, &app.post(key, DRAINS, &json!({"name": "n".repeat(100), "provider": "cloudflare"})).await)
                    .await
            }
            Writer::Domains => app.post(key, DOMAINS, &json!({"domain": format!("{}.a{number}.test", "n".repeat(60))})).await,
            Writer::Webhooks => {
                let url = format!("https://hooks.a.test/{}", "n".repeat(1_800));
                let body = json!({"url": url, "event_types": ["delegation.created"]});
                self.delete(WEBHOOKS, &app.post(key, WEBHOOKS, &body).await).await
            }
            Writer::Invites => {
                let path = format!("/api/v1/identity/organizations/{}/members", self.org);
                app.post(Credentials::Session(&self.session), &path, &json!({"email": format!("p{number}@example.com")})).await
            }
        }
    }
}

async fn bytes(app: &TestApp) -> i64 {
    app.count("SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind = 'r'").await
}

#[tokio::test]
async fn budgets_limit_postgres_growth_to_10_mb() {
    let settings = SignInSettings { identity_bytes: BUDGET, ..sign_in() };
    let app = Identity::open_for(manual_clock(), settings).await;
    for writer in [Writer::Delegations, Writer::Keys, Writer::Drains, Writer::Domains, Writer::Webhooks, Writer::Invites] {
        let name = format!("{writer:?}");
        let ((org, key), (platform, platform_key)) = (app.org(&name).await, app.platform(&name).await);
        let session = app.session(&format!("{name}@example.com"), &[org]).await;
        if matches!(writer, Writer::Delegations) {
            for _ in 0..10 {
                for key in [&key, &platform_key] {
                    assert_eq!(app.subscribe(key, &["delegation.created", "delegation.revoked"]).await.status, 201);
                }
            }
        }
        let attacker = Attacker { app: &app, org, key, session, platform };
        let before = bytes(&app).await;
        let mut requests = 0;
        let refused = loop {
            let answer = attacker.write(writer, requests).await;
            if matches!(answer.status, 409 | 429) {
                break answer;
            }
            assert!(answer.status < 300, "{writer:?}: {} {}", answer.status, answer.body);
            requests += 1;
            assert!(requests < MAX_REQUESTS, "{writer:?} is not limited");
        };
        let grown = bytes(&app).await - before;
        println!("{writer:?}: {requests} requests, {grown} bytes, then {}", refused.status);
        assert!(grown < ALLOWED, "{writer:?}: {grown} bytes after {requests} requests");
    }
}
