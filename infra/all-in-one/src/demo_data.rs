//! `--demo-data`: thirty days of what bots and agents might have done on example.com, so that reads and screens have something to
//! show. What happens on a day is made by `day`, from its date alone.
//!
//! Must report as anybody does, through the address that everybody uses, and must change nothing when it is repeated: a day's
//! reports have the same ids each time.

mod day;
mod names;

use crate::demo_env::DemoEnv;
use anyhow::{Context, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use reqwest::Client;
use serde_json::{Value, json};
use std::time::Duration;

/// Days before today.
const DAYS: i64 = 30;
/// Events of one request.
const BATCH: usize = 500;
/// What one request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was reported.
pub(crate) struct Reported {
    /// Fetches that an edge has seen, and an origin.
    pub(crate) edge: usize,
    pub(crate) origin: usize,
    pub(crate) sessions: usize,
}

/// Reports the days before `now`, and of today what lies before it.
pub(crate) async fn report(demo: &DemoEnv, now: DateTime<Utc>) -> anyhow::Result<Reported> {
    let client = Client::builder().no_proxy().timeout(PATIENCE).build().context("no HTTP client")?;
    let mut reported = Reported { edge: 0, origin: 0, sessions: 0 };
    for ago in (0..=DAYS).rev() {
        let day = day::of((now - TimeDelta::days(ago)).date_naive()).until(now);
        for (key, events) in [("NETWORK_KEY", &day.seen_by_edge), ("OWNER_KEY", &day.seen_by_origin)] {
            for batch in events.chunks(BATCH) {
                post(&client, demo, "/events", key, &json!({"events": batch})).await?;
            }
        }
        for session in &day.sessions {
            post(&client, demo, "/sessions/bulk", "AGENT_KEY", session).await?;
        }
        reported.edge += day.seen_by_edge.len();
        reported.origin += day.seen_by_origin.len();
        reported.sessions += day.sessions.len();
    }
    Ok(reported)
}

async fn post(client: &Client, demo: &DemoEnv, path: &str, key: &str, body: &Value) -> anyhow::Result<()> {
    let request = client.post(format!("{}{path}", demo.get("BASE_URL"))).header("x-api-key", demo.get(key)).json(body);
    let response = request.send().await.with_context(|| format!("demo data: POST {path} is not answered"))?;
    let status = response.status();
    let said = response.text().await.unwrap_or_default();
    ensure!(status.as_u16() == 201, "demo data: POST {path} is answered with {status}: {said}");
    Ok(())
}
