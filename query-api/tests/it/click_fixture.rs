//! Sessions, click tokens and their events, stored as other services do it.

use crate::test_app::{Observation, Query, TestApp, fetch_on};
use chrono::{DateTime, TimeDelta};
use query_api::{ClickSettings, Settings, State, router};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use schemas::event::SourceRole::Agent;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::secrets::PlainClickToken;
use schemas::site::ContentUrl;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::roles::Role;
use service_kit::testing::{SeededOrg, TestResponse, TestServer, send_request};
use uuid::Uuid;

/// Returns a session's event on a page.
pub(crate) fn reported(org: OrgId, session: Uuid, event_type: &str, url: &str) -> Observation {
    let site = ContentUrl::parse(url).ok().and_then(|url| url.site).map(|site| site.as_str().to_owned()).unwrap_or_default();
    Observation {
        site,
        session_id: session,
        content_url: url.to_owned(),
        event_id: Uuid::new_v4().to_string(),
        turn_id: "turn-1".to_owned(),
        output_id: "output-1".to_owned(),
        data: r#"{"scope":"session","position":"supporting","excerpt_tokens":3,"query_text":"prose"}"#.to_owned(),
        ..fetch_on("example.com", Uuid::new_v4().as_u128()).by_org(org).role(Agent).named(event_type)
    }
}

/// Returns a refusal without the parts that differ between requests.
pub(crate) fn alike(answer: &TestResponse) -> (HeaderMap, (u16, Value)) {
    let mut headers = answer.headers.clone();
    assert_eq!(headers.remove("x-request-id").unwrap(), answer.text("request_id"));
    // The content length stays, because all request ids have the same length.
    headers.remove("date");
    (headers, answer.problem())
}

/// An app with an agent that shares its sessions, and an owner that consents to be shown.
pub(crate) struct ClickFixture {
    pub(crate) app: TestApp,
    pub(crate) clock: Clock,
    pub(crate) agent: SeededOrg,
    pub(crate) owner: SeededOrg,
    pub(crate) network: SeededOrg,
}

impl ClickFixture {
    pub(crate) async fn start() -> Self {
        Self::start_with(ClickSettings { click_lookup_rate: 0 }).await
    }

    pub(crate) async fn start_with(clicks: ClickSettings) -> Self {
        let (app, clock) = (Query::start().await, Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap()));
        let own = app.stores.signed_in_as(Role::Query);
        let settings = Settings { clicks, ..Settings::with_stores(own.clickhouse, own.postgres) };
        let state = State::connect_at(&settings, clock.clone()).await.unwrap();
        let app = Query::served_by(app, TestServer::start(router(state)).await);
        let agent = app.seed().org("Agent", OrgType::Agent).await;
        let network = app.seed().org("Network", OrgType::Platform).await;
        let owner = app.seed().owner_of("example.com").await;
        let clicks = Self { app, clock, agent, owner, network };
        clicks.share(clicks.agent.id, true).await;
        clicks.show(clicks.owner.id, true).await;
        clicks
    }

    pub(crate) async fn share(&self, org: OrgId, value: bool) {
        self.set("share_sessions_via_click_tokens", org, value).await;
    }

    pub(crate) async fn show(&self, org: OrgId, value: bool) {
        self.set("visible_in_click_token_lookups", org, value).await;
    }

    async fn set(&self, flag: &str, org: OrgId, value: bool) {
        let statement = format!("UPDATE organizations SET {flag} = $2 WHERE id = $1");
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(org.0).bind(value).execute(&self.app.stores.pool).await.unwrap();
    }

    /// Creates a session of the agent with a privacy level's stored code.
    pub(crate) async fn session(&self, level: Option<i16>) -> Uuid {
        let session = Uuid::new_v4();
        sqlx::query(
            "INSERT INTO sessions (organization_id, session_id, privacy_level, started_at) VALUES ($1, $2, $3, '2026-01-01T00:00:00Z')",
        )
        .bind(self.agent.id.0)
        .bind(session)
        .bind(level)
        .execute(&self.app.stores.pool)
        .await
        .unwrap();
        session
    }

    /// Creates a click token for a session of the agent.
    pub(crate) async fn token(&self, session: Uuid, url: &str) -> String {
        let (token, now) = (PlainClickToken::generate(), self.clock.now());
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(token.hash().as_bytes().as_slice())
        .bind(self.agent.id.0)
        .bind(session)
        .bind(url)
        .bind(now)
        .bind(now + TimeDelta::days(90))
        .execute(&self.app.stores.pool)
        .await
        .unwrap();
        token.reveal().to_owned()
    }

    pub(crate) async fn look_up(&self, token: &str) -> TestResponse {
        self.get(&format!("/ctx/{token}"), &[("x-api-key", &self.network.key)]).await
    }

    /// Returns a manifest that must exist.
    pub(crate) async fn manifest(&self, token: &str) -> Value {
        let answer = self.look_up(token).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.raw);
        answer.body
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> TestResponse {
        let request = self.app.client.get(self.app.url(path));
        send_request(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
    }
}

/// Returns the URLs of a manifest's events, and its three URL lists.
pub(crate) fn urls_of(manifest: &Value) -> Value {
    let events = manifest["events"].as_array().unwrap();
    json!([
        events.iter().map(|event| event["content_url"].clone()).collect::<Vec<_>>(),
        manifest["content_urls_grounded"],
        manifest["content_urls_cited"],
        manifest["content_urls_presented"],
    ])
}
