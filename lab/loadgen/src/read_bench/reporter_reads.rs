//! Measures reads of an agent's own reports: `GET /agent/events` and session documents, for the platform with the most reports.

use crate::client::{Connection, Exchange};
use crate::drive::Latencies;
use crate::test_bed::FreshStores;
use anyhow::ensure;
use hyper::header::HeaderValue;
use schemas::identity::{OrgType, Scope};
use schemas::secrets::PlainApiKey;
use std::time::Instant;
use uuid::Uuid;

/// Number of session documents that are read in turn.
const SESSIONS: u64 = 50;

/// A platform with reports in the store, and its API key.
pub(super) struct Reporter {
    pub(super) key: HeaderValue,
    sessions: Vec<Uuid>,
}

impl Reporter {
    /// Finds the platform with the most reports and creates a key for it.
    pub(super) async fn find(stores: &FreshStores, client: &clickhouse::Client) -> anyhow::Result<Self> {
        let nil = Uuid::nil();
        let most = format!(
            "SELECT toString(organization) FROM reports WHERE session != toUUID('{nil}') \
             GROUP BY organization ORDER BY count() DESC, organization LIMIT 1"
        );
        let org: Uuid = client.query(&most).fetch_one::<String>().await?.parse()?;
        let some = format!(
            "SELECT toString(session) FROM reports WHERE organization = toUUID('{org}') AND session != toUUID('{nil}') \
             GROUP BY session ORDER BY cityHash64(session) LIMIT {SESSIONS}"
        );
        let sessions: Vec<String> = client.query(&some).fetch_all().await?;
        let sessions: Vec<Uuid> = sessions.iter().map(|session| session.parse()).collect::<Result<_, _>>()?;
        ensure!(!sessions.is_empty(), "the history has sessions");
        let key = PlainApiKey::generate(OrgType::Agent);
        sqlx::query(
            "WITH org AS (INSERT INTO organizations (id, name, org_type) VALUES ($1, $1::text, 'agent') \
               ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING id), \
             named AS (INSERT INTO sessions (organization_id, session_id) SELECT id, unnest($5::uuid[]) FROM org ON CONFLICT DO NOTHING) \
             INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) SELECT id, 'bench', $2, $3, ARRAY[$4] FROM org",
        )
        .bind(org)
        .bind(key.visible_prefix())
        .bind(key.hash().as_bytes().as_slice())
        .bind(Scope::TelemetryRead.as_str())
        .bind(&sessions)
        .execute(&stores.pool)
        .await?;
        Ok(Self { key: HeaderValue::from_str(key.reveal())?, sessions })
    }

    pub(super) async fn documents(&self, connection: &mut Connection, runs: usize) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::default();
        let warm_up = self.sessions.len().min(runs);
        for (nth, session) in self.sessions.iter().cycle().take(runs + warm_up).enumerate() {
            let begun = Instant::now();
            let Exchange::Responded(answer) = connection.get(&format!("/sessions/{session}/document"), &self.key).await else {
                anyhow::bail!("a document got no response");
            };
            ensure!(answer.status == 200, "a document failed: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
            if nth >= warm_up {
                latencies.record(begun.elapsed());
            }
        }
        Ok(latencies)
    }
}
