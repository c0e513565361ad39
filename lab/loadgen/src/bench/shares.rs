//! P12: response times for other tenants while one tenant sends 20 times its share.

use super::Bench;
use super::webhooks::Webhooks;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::{Latencies, fate, lock};
use crate::log_lines::{Format, Lines};
use crate::oracle::Fate;
use crate::report::Quantiles;
use crate::tenants::{self, Tenant};
use crate::test_bed::Service;
use crate::workload::AGENT;
use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use uuid::Uuid;

/// Number of connections for the busy tenant; every other tenant has one.
const BUSY: usize = 20;
const OTHERS: usize = 7;
/// Pause between the starts of two requests on a connection.
const PACE: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_secs(30);
/// Events per report.
const EVENTS: usize = 100;
/// Lines per log, about 800 KiB.
const LINES: usize = 2_000;

#[derive(Clone, Copy, Debug, Serialize)]
enum Kind {
    Reads,
    Events,
    Drains,
    SignIn,
    /// Until the first attempt of a delivery arrives.
    Webhooks,
}

/// What requests of every kind need.
struct Load {
    kind: Kind,
    place: Endpoint,
    log: Bytes,
    webhooks: Arc<Webhooks>,
}

#[derive(Debug, Serialize)]
pub(super) struct Shares(Vec<Share>);

#[derive(Debug, Serialize)]
struct Share {
    kind: Kind,
    /// Response times for the other tenants without and with the busy one.
    alone: Others,
    beside: Others,
}

#[derive(Debug, Default, Serialize)]
struct Others {
    latency: Quantiles,
    /// Requests without a 2xx.
    failed: u64,
}

impl Bench<'_> {
    pub(super) async fn shares(&mut self) -> anyhow::Result<Shares> {
        let database_url = self.stage.database_url().context("a benchmark starts its own stack")?.to_owned();
        let folder = self.stage.folder().context("a benchmark starts its own stack")?;
        let postgres = PostgresSettings { database_url };
        let pool = databases::postgres(&postgres)?;
        // These loads have tenants of their own, whose events the oracle doesn't count.
        let tenants = tenants::seed(&pool, &format!("{}-share", self.stage.name), 1 + OTHERS).await?;
        let (log, webhooks) = (log()?, Arc::new(Webhooks::start(&postgres, &tenants, folder).await?));
        let mut shares = Vec::new();
        for kind in [Kind::Reads, Kind::Events, Kind::Drains, Kind::SignIn, Kind::Webhooks] {
            let place = match kind {
                Kind::Reads | Kind::Webhooks => self.stage.base.clone(),
                Kind::Events | Kind::Drains => self.stage.ingest.clone(),
                Kind::SignIn => self.stage.endpoint(Service::Identity)?,
            };
            let load = Arc::new(Load { kind, place, log: log.clone(), webhooks: Arc::clone(&webhooks) });
            let alone = measure(&load, &tenants, 0, self.options.duration).await?;
            let beside = measure(&load, &tenants, BUSY, self.options.duration).await?;
            shares.push(Share { kind, alone, beside });
        }
        Ok(Shares(shares))
    }
}

async fn measure(load: &Arc<Load>, tenants: &[Tenant], busy: usize, duration: Duration) -> anyhow::Result<Others> {
    let (first, others) = tenants.split_first().context("tenants were seeded")?;
    let measured = Arc::new(Mutex::new((Latencies::default(), 0)));
    let mut connections = JoinSet::new();
    let senders = std::iter::repeat_n((first, false), busy).chain(others.iter().map(|tenant| (tenant, true)));
    for (tenant, is_other) in senders {
        let (load, tenant, measured) = (Arc::clone(load), tenant.clone(), Arc::clone(&measured));
        connections.spawn(timeout(duration, async move {
            let (mut connection, mut pace) = (Connection::new(load.place.clone(), DEADLINE), interval(PACE));
            loop {
                pace.tick().await;
                let begun = Instant::now();
                let outcome = fate(&load.send(&mut connection, &tenant, is_other).await);
                let mut measured = lock(&measured);
                match outcome {
                    _ if !is_other => {}
                    Fate::Acked => measured.0.record(begun.elapsed()),
                    Fate::Refused | Fate::Unknown => measured.1 += 1,
                }
            }
        }));
    }
    while let Some(ended) = connections.join_next().await {
        // Each task ends when its time limit is reached.
        let _: Result<(), _> = ended?;
    }
    let measured = lock(&measured);
    Ok(Others { latency: Quantiles::from(&measured.0), failed: measured.1 })
}

impl Load {
    async fn send(&self, connection: &mut Connection, tenant: &Tenant, is_other: bool) -> Exchange {
        let (agent, id) = (&tenant.keys[AGENT], Uuid::new_v4());
        match self.kind {
            Kind::Reads => connection.get("/content-owners/summary", &tenant.owner_key).await,
            Kind::Events => {
                let (session, now, url) = (Uuid::new_v4(), Clock::System.now(), format!("https://{}/", tenant.domain));
                let event = |_| json!({"id": Uuid::new_v4(), "type": "content_retrieved", "timestamp": now, "session_id": session, "content_url": url, "data": {}});
                let events: Vec<_> = (0..EVENTS).map(event).collect();
                connection.post("/events", agent, json!({ "events": events }).to_string().into_bytes()).await
            }
            Kind::Webhooks => self.webhooks.deliver(tenant, DEADLINE).await,
            Kind::Drains => connection.post_gzip("/drains/ndjson", agent, &id.to_string(), self.log.clone()).await,
            Kind::SignIn => {
                // The busy client has one address; other clients use a new one for each request.
                let [.., a, b, c] = *id.as_bytes();
                let address = if is_other { format!("10.{a}.{b}.{c}") } else { "192.0.2.1".to_owned() };
                let body = json!({"email": format!("{}@example.com", id.simple())}).to_string();
                connection.post_from("/api/v1/identity/auth/magic-link", &address, body.into_bytes()).await
            }
        }
    }
}

fn log() -> anyhow::Result<Bytes> {
    let mut writer = Lines::new(Format::Ndjson, Clock::System.now(), 400);
    let (mut encoder, mut line) = (GzEncoder::new(Vec::new(), Compression::default()), Vec::new());
    for _ in 0..LINES {
        line.clear();
        writer.write(false, &mut line);
        encoder.write_all(&line)?;
    }
    Ok(encoder.finish()?.into())
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "P12 response times of {OTHERS} tenants alone, and together with one that sends {BUSY} times as much")?;
        for Share { kind, alone, beside } in &self.0 {
            let ratio = beside.latency.p99_ms / alone.latency.p99_ms;
            writeln!(f, "    {kind:?} alone: {}, {} failed", alone.latency, alone.failed)?;
            writeln!(f, "    {kind:?} together: {}, {} failed; p99 x {ratio:.2} (target <= 1.2)", beside.latency, beside.failed)?;
        }
        Ok(())
    }
}
