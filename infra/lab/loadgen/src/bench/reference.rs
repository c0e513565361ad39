//! The baseline: what a writer without a log does, one durable `INSERT` into PostgreSQL for each request.
//!
//! Must stay generous: no HTTP, no validation, no key look-up, one index beside the primary key. What it reaches is the
//! ceiling of such a design on this machine at this moment, not the figure of any product.

use crate::drive::lock;
use anyhow::Context as _;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// About what an event of the service's own load holds beside its ids.
const DATA: &str = r#"{"user_agent":"ExampleBot/1.0 (+https://bot.example)","source_role":"agent","position":"primary"}"#;

/// A table to write into.
#[derive(Debug)]
pub(super) struct Reference {
    pool: PgPool,
}

impl Reference {
    /// Creates the table. Fails when this PostgreSQL does not write durably: then nothing could be compared.
    pub(super) async fn create(database_url: &str, connections: u32) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(connections).connect(database_url).await;
        let pool = pool.context("the baseline cannot connect to PostgreSQL")?;
        for setting in ["fsync", "synchronous_commit"] {
            let found: String = sqlx::query_scalar("SELECT current_setting($1)").bind(setting).fetch_one(&pool).await?;
            anyhow::ensure!(found == "on", "PostgreSQL runs with {setting}={found}: the baseline must be durable");
        }
        sqlx::query(
            "CREATE TABLE reference_events (id uuid PRIMARY KEY, organization_id uuid NOT NULL, session_id uuid, \
             event_type text NOT NULL, content_url text, at timestamptz NOT NULL, data jsonb NOT NULL)",
        )
        .execute(&pool)
        .await?;
        sqlx::query("CREATE INDEX ON reference_events (organization_id, at)").execute(&pool).await?;
        Ok(Self { pool })
    }

    /// Writes batches over every connection for `duration`; returns events a second.
    pub(super) async fn measure(&self, connections: usize, batch: usize, duration: Duration) -> anyhow::Result<f64> {
        let written: Arc<Mutex<u64>> = Arc::default();
        let begun = Instant::now();
        let end = begun + duration;
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let (pool, written) = (self.pool.clone(), Arc::clone(&written));
            writers.spawn(async move {
                while Instant::now() < end {
                    insert(&pool, batch).await?;
                    if Instant::now() <= end {
                        *lock(&written) += batch as u64;
                    }
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = writers.join_next().await {
            ended??;
        }
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let written = *lock(&written) as f64;
        Ok(written / duration.as_secs_f64())
    }
}

async fn insert(pool: &PgPool, batch: usize) -> anyhow::Result<()> {
    let ids: Vec<Uuid> = (0..batch).map(|_| Uuid::from_u128(rand::random())).collect();
    let urls: Vec<String> = (0..batch).map(|number| format!("https://www.example.com/articles/{number}")).collect();
    sqlx::query(
        "INSERT INTO reference_events SELECT id, $2, $3, 'content_retrieved', url, now(), $4::jsonb \
         FROM unnest($1::uuid[], $5::text[]) AS event (id, url)",
    )
    .bind(&ids)
    .bind(ids[0])
    .bind(ids[0])
    .bind(DATA)
    .bind(&urls)
    .execute(pool)
    .await
    .context("the baseline cannot write")?;
    Ok(())
}
