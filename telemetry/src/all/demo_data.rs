//! `--demo-data`: sends 60 days of sample activity on example.com, and the days before it for comparison. `day` generates a day's events
//! from its date, so sending them again has no effect: the event ids are the same. Only click tokens differ, and a visit repeated with
//! another token is ignored.

mod day;
mod links;
mod names;
mod requests;

use crate::all::demo_env::DemoEnv;
use anyhow::Context;
use chrono::{DateTime, TimeDelta, Utc};
use day::Day;
use futures::{StreamExt, TryStreamExt, stream};
use links::Link;
use requests::Requests;
use serde_json::{Value, json};

const DAYS: i64 = 59;
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Events per request.
const BATCH: usize = 500;

pub(crate) struct ReportCounts {
    pub(crate) edge: usize,
    pub(crate) origin: usize,
    pub(crate) sessions: usize,
    /// Visit events with click tokens of these sessions.
    pub(crate) visit_events: usize,
}

/// Sends the days before `now`, and today up to `now`.
pub(crate) async fn send(demo: &DemoEnv, now: DateTime<Utc>) -> anyhow::Result<ReportCounts> {
    let requests = Requests::new(demo)?;
    let days: Vec<Day> =
        (0..=DAYS).rev().map(|ago| day::generate((now - TimeDelta::days(ago)).date_naive()).until(now)).collect();
    let seen = days.iter().flat_map(|day| [("NETWORK_KEY", &day.seen_by_edge), ("OWNER_KEY", &day.seen_by_origin)]);
    let batches =
        seen.flat_map(|(key, events)| events.chunks(BATCH).map(move |batch| ("/events", key, json!({"events": batch}))));
    let sessions = days.iter().flat_map(|day| &day.sessions).map(|session| ("/sessions/bulk", "AGENT_KEY", session.clone()));
    stream::iter(batches.chain(sessions).map(Ok))
        .try_for_each_concurrent(MAX_CONCURRENT_REQUESTS, async |(path, key, body)| {
            requests.post(path, key, &body).await.map(drop)
        })
        .await?;
    let links: Vec<Link> = days.iter().flat_map(|day| links::followed_on(day, now)).collect();
    send_visits(&requests, &links).await?;
    let sum = |of: fn(&Day) -> &Vec<Value>| days.iter().map(|day| of(day).len()).sum();
    Ok(ReportCounts {
        edge: sum(|day| &day.seen_by_edge),
        origin: sum(|day| &day.seen_by_origin),
        sessions: sum(|day| &day.sessions),
        visit_events: links.iter().map(Link::len).sum(),
    })
}

/// Creates a click token for each link with the agent's key, and sends the visits with the publisher's key.
async fn send_visits(requests: &Requests<'_>, links: &[Link]) -> anyhow::Result<()> {
    let visits = stream::iter(links).map(async |link| {
        let wanted = json!({"session_id": link.session, "content_url": link.url});
        let created = requests.post("/click-tokens", "AGENT_KEY", &wanted).await?;
        let token = created["token"].as_str().context("demo data: POST /click-tokens returned no token")?;
        anyhow::Ok(link.visit_reports(token).collect::<Vec<_>>())
    });
    let visits: Vec<Vec<Value>> = visits.buffered(MAX_CONCURRENT_REQUESTS).try_collect().await?;
    for batch in visits.concat().chunks(BATCH) {
        requests.post("/events", "OWNER_KEY", &json!({"events": batch})).await?;
    }
    Ok(())
}
