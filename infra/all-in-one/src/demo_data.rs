//! `--demo-data`: sixty days of what bots and agents might have done on example.com, so that reads and screens have something to
//! show, and something before it to compare with. What happens on a day is made by `day`, from its date alone.
//!
//! Must report as anybody does, through the address that everybody uses, and must change nothing when it is repeated: a day's
//! reports have the same ids each time. Only a link's token is another one: who repeats a click by it changes nothing.

mod day;
mod links;
mod names;

use crate::demo_env::DemoEnv;
use anyhow::{Context, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use day::Day;
use futures::{StreamExt, TryStreamExt, stream};
use links::Link;
use reqwest::Client;
use serde_json::{Value, json};
use std::time::Duration;

/// Days before today.
const DAYS: i64 = 59;
/// Requests under way.
const AT_ONCE: usize = 8;
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
    /// What a site has reported by tokens of these.
    pub(crate) clicks: usize,
}

/// Reports the days before `now`, and of today what lies before it.
pub(crate) async fn report(demo: &DemoEnv, now: DateTime<Utc>) -> anyhow::Result<Reported> {
    let client = Client::builder().no_proxy().timeout(PATIENCE).build().context("no HTTP client")?;
    let days: Vec<Day> = (0..=DAYS).rev().map(|ago| day::of((now - TimeDelta::days(ago)).date_naive()).until(now)).collect();
    let seen = days.iter().flat_map(|day| [("NETWORK_KEY", &day.seen_by_edge), ("OWNER_KEY", &day.seen_by_origin)]);
    let batches =
        seen.flat_map(|(key, events)| events.chunks(BATCH).map(move |batch| ("/events", key, json!({"events": batch}))));
    let sessions = days.iter().flat_map(|day| &day.sessions).map(|session| ("/sessions/bulk", "AGENT_KEY", session.clone()));
    stream::iter(batches.chain(sessions).map(Ok))
        .try_for_each_concurrent(AT_ONCE, async |(path, key, body)| post(&client, demo, path, key, &body).await.map(drop))
        .await?;
    let links: Vec<Link> = days.iter().flat_map(|day| links::of(day, now)).collect();
    follow(&client, demo, &links).await?;
    let sum = |of: fn(&Day) -> &Vec<Value>| days.iter().map(|day| of(day).len()).sum();
    Ok(Reported {
        edge: sum(|day| &day.seen_by_edge),
        origin: sum(|day| &day.seen_by_origin),
        sessions: sum(|day| &day.sessions),
        clicks: links.iter().map(Link::len).sum(),
    })
}

/// Makes a token for each link, as its agent does, and reports the visits by them, as the site does that was visited.
async fn follow(client: &Client, demo: &DemoEnv, links: &[Link]) -> anyhow::Result<()> {
    let visits = stream::iter(links).map(async |link| {
        let wanted = json!({"session_id": link.session, "content_url": link.url});
        let made = post(client, demo, "/click-tokens", "AGENT_KEY", &wanted).await?;
        let token = made["token"].as_str().context("demo data: a click token is made without one")?;
        anyhow::Ok(link.visited(token).collect::<Vec<_>>())
    });
    let visits: Vec<Vec<Value>> = visits.buffered(AT_ONCE).try_collect().await?;
    for batch in visits.concat().chunks(BATCH) {
        post(client, demo, "/events", "OWNER_KEY", &json!({"events": batch})).await?;
    }
    Ok(())
}

async fn post(client: &Client, demo: &DemoEnv, path: &str, key: &str, body: &Value) -> anyhow::Result<Value> {
    let request = client.post(format!("{}{path}", demo.get("BASE_URL"))).header("x-api-key", demo.get(key)).json(body);
    let response = request.send().await.with_context(|| format!("demo data: POST {path} is not answered"))?;
    let status = response.status();
    let said = response.text().await.unwrap_or_default();
    ensure!(status.as_u16() == 201, "demo data: POST {path} is answered with {status}: {said}");
    serde_json::from_str(&said).with_context(|| format!("demo data: POST {path} is not answered with JSON"))
}
