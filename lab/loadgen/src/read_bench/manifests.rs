//! Measures click token lookups (P8), with tokens for sessions in the history.

use crate::client::{Connection, Exchange};
use crate::drive::Latencies;
use crate::test_bed::FreshStores;
use anyhow::ensure;
use hyper::header::HeaderValue;
use schemas::identity::{OrgType, Scope};
use schemas::secrets::{PlainApiKey, PlainClickToken};
use std::time::Instant;
use uuid::Uuid;

/// Number of sessions with tokens that are looked up in turn.
const SESSIONS: u64 = 200;

/// Ids of the platform and of the session in the store.
type SessionKey = (String, String);

pub(super) async fn measure(
    stores: &FreshStores,
    client: &clickhouse::Client,
    connection: &mut Connection,
    runs: usize,
) -> anyhow::Result<Latencies> {
    let sessions = format!(
        "SELECT toString(platform), toString(session) FROM reports WHERE session != toUUID('{nil}') \
         GROUP BY platform, session ORDER BY cityHash64(session) LIMIT {SESSIONS}",
        nil = Uuid::nil()
    );
    let sessions: Vec<SessionKey> = client.query(&sessions).fetch_all().await?;
    ensure!(!sessions.is_empty(), "the history has sessions");
    let (tokens, key) = (plant(stores, &sessions).await?, looker(stores).await?);
    let mut latencies = Latencies::default();
    for (nth, token) in tokens.iter().cycle().take(runs + tokens.len().min(runs)).enumerate() {
        let begun = Instant::now();
        let Exchange::Responded(answer) = connection.get(&format!("/ctx/{token}"), &key).await else {
            anyhow::bail!("a lookup got no response");
        };
        ensure!(answer.status == 200, "a lookup failed: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        // The first round is a warm-up.
        if nth >= tokens.len().min(runs) {
            latencies.record(begun.elapsed());
        }
    }
    Ok(latencies)
}

/// Creates a token for each session. All organizations share their sessions through tokens, and all owners are visible in lookups.
async fn plant(stores: &FreshStores, sessions: &[SessionKey]) -> anyhow::Result<Vec<String>> {
    sqlx::query("UPDATE organizations SET visible_in_click_token_lookups = true").execute(&stores.pool).await?;
    let mut tokens = Vec::new();
    for (org, session) in sessions {
        let (org, session, token): (Uuid, Uuid, _) = (org.parse()?, session.parse()?, PlainClickToken::generate());
        sqlx::query(
            "INSERT INTO organizations (id, name, org_type, share_sessions_via_click_tokens) VALUES ($1, $1::text, 'agent', true) \
             ON CONFLICT DO NOTHING",
        )
        .bind(org)
        .execute(&stores.pool)
        .await?;
        sqlx::query("INSERT INTO sessions (organization_id, session_id, privacy_level, started_at) VALUES ($1, $2, 3, now())")
            .bind(org)
            .bind(session)
            .execute(&stores.pool)
            .await?;
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             VALUES ($1, $2, $3, 'https://www.example.com/', now(), now() + interval '90 days')",
        )
        .bind(token.hash().as_bytes().as_slice())
        .bind(org)
        .bind(session)
        .execute(&stores.pool)
        .await?;
        tokens.push(token.reveal().to_owned());
    }
    Ok(tokens)
}

/// Creates a platform that looks up tokens, and returns its key.
async fn looker(stores: &FreshStores) -> anyhow::Result<HeaderValue> {
    let key = PlainApiKey::generate(OrgType::Platform);
    sqlx::query(
        "WITH org AS (INSERT INTO organizations (name, org_type) VALUES ('looker', 'platform') RETURNING id) \
         INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) SELECT id, 'bench', $1, $2, ARRAY[$3] FROM org",
    )
    .bind(key.visible_prefix())
    .bind(key.hash().as_bytes().as_slice())
    .bind(Scope::TelemetryRead.as_str())
    .execute(&stores.pool)
    .await?;
    Ok(HeaderValue::from_str(key.reveal())?)
}
