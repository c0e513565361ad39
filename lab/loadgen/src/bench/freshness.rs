//! P4: the time from an event's 2xx until it can be read, under load.

use super::Bench;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::{Latencies, lock};
use crate::report::{LoadReport, Quantiles};
use crate::tenants::{self, Tenant};
use crate::workload::AGENT;
use anyhow::{Context as _, ensure};
use chrono::SecondsFormat;
use hyper::http::HeaderValue;
use schemas::summary_responses::Summary;
use serde::Serialize;
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Pause between two reads, which is part of the result. A read costs the store as much as thousands of events, so more frequent reads
/// would slow each other down.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Maximum pause between two of the probe's events. The pause is random, because the probe could otherwise synchronize with the worker.
const MOST_REST: Duration = Duration::from_millis(200);
const EVENTS: usize = 20;
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
pub(super) struct Freshness {
    steady: Fresh,
    burst: Fresh,
}

#[derive(Debug, Serialize)]
struct Fresh {
    load: LoadReport,
    /// Time from the 2xx to the end of the first read that counts the event.
    readable: Quantiles,
    /// The probe's events that were not acknowledged. Nothing waits for them.
    unacked: u64,
}

/// A tenant that reports events and checks when they can be read.
struct Probe {
    tenant: Tenant,
    ingest: Connection,
    reads: Connection,
}

/// Events with one host and one session. The log preserves their order, so a count of n means that the first n are readable.
#[derive(Default)]
struct ProbeRound {
    acked: Vec<Instant>,
    readable: Vec<Instant>,
    is_over: bool,
}

impl Bench<'_> {
    /// Runs two open loops with batch 1, first at `steady` and then at `burst` events per second, with all services.
    pub(super) async fn freshness(&mut self, steady: f64, burst: f64) -> anyhow::Result<Freshness> {
        // Events from earlier loads would delay the probe.
        self.session.wait_and_check(&self.stage.base).await;
        let database_url = self.stage.database_url().context("a benchmark starts its own stack")?.to_owned();
        let pool = databases::postgres(&PostgresSettings { database_url })?;
        let tenants = tenants::seed(&pool, &format!("{}-probe", self.stage.name), 1).await?;
        let tenant = tenants.first().context("a tenant was created")?;
        Ok(Freshness {
            steady: self.fresh("pipeline, steady", steady, tenant).await?,
            burst: self.fresh("pipeline, burst", burst, tenant).await?,
        })
    }

    async fn fresh(&mut self, name: &str, per_second: f64, tenant: &Tenant) -> anyhow::Result<Fresh> {
        let stop = CancellationToken::new();
        let probe = Probe::new(tenant, &self.stage.ingest, &self.stage.base).keep_probing(stop.clone());
        let probing = tokio::spawn(probe);
        let load = self.open(name, per_second).await;
        stop.cancel();
        let (took, unacked) = probing.await??;
        let mut readable = Latencies::default();
        took.into_iter().for_each(|took| readable.record(took));
        Ok(Fresh { load, readable: Quantiles::from(&readable), unacked })
    }
}

impl Probe {
    fn new(tenant: &Tenant, ingest: &Endpoint, base: &Endpoint) -> Self {
        let connection = |place: &Endpoint| Connection::new(place.clone(), DEADLINE);
        Self { tenant: tenant.clone(), ingest: connection(ingest), reads: connection(base) }
    }

    /// Probes until `stop`. Returns each event's delay, and the number of events that were not acknowledged.
    async fn keep_probing(mut self, stop: CancellationToken) -> anyhow::Result<(Vec<Duration>, u64)> {
        let (mut took, mut unacked) = (Vec::new(), 0);
        while !stop.is_cancelled() {
            let host = format!("n{}.{}", Uuid::new_v4().simple(), self.tenant.domain);
            let turn = Mutex::new(ProbeRound::default());
            let Self { tenant, ingest, reads } = &mut self;
            let (not_acked, looked) =
                tokio::join!(report(tenant, &host, ingest, &turn, &stop), poll(tenant, &host, reads, &turn));
            looked?;
            unacked += not_acked;
            let ProbeRound { acked, readable, .. } = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
            took.extend(readable.iter().zip(acked).map(|(readable, acked)| readable.saturating_duration_since(acked)));
        }
        Ok((took, unacked))
    }
}

/// Reports the events of one host. Stops at the first event that is not acknowledged, because it may be counted later and would then be
/// mistaken for the next one.
async fn report(tenant: &Tenant, host: &str, ingest: &mut Connection, turn: &Mutex<ProbeRound>, stop: &CancellationToken) -> u64 {
    let (session, mut unacked) = (Uuid::new_v4(), 0);
    for _ in 0..EVENTS {
        let event = json!({
            "id": Uuid::new_v4(),
            "type": "content_retrieved",
            "timestamp": Clock::System.now().to_rfc3339_opts(SecondsFormat::Millis, true),
            "session_id": session,
            "content_url": format!("https://{host}/"),
            "data": {},
        });
        let body = json!({ "events": [event] }).to_string().into_bytes();
        let answered = ingest.post("/events", &tenant.keys[AGENT], body).await;
        if !matches!(&answered, Exchange::Responded(answer) if (200..300).contains(&answer.status)) {
            unacked += 1;
            break;
        }
        lock(turn).acked.push(Instant::now());
        sleep(MOST_REST.mul_f64(rand::random())).await;
        if stop.is_cancelled() {
            break;
        }
    }
    lock(turn).is_over = true;
    unacked
}

async fn poll(tenant: &Tenant, host: &str, reads: &mut Connection, turn: &Mutex<ProbeRound>) -> anyhow::Result<()> {
    let path = format!("/content-owners/summary?domain={host}");
    loop {
        let counted = counted(reads, &path, &tenant.owner_key).await;
        let now = Instant::now();
        {
            let mut turn = lock(turn);
            let more = counted.saturating_sub(turn.readable.len());
            turn.readable.extend(std::iter::repeat_n(now, more));
            let oldest = turn.acked.get(turn.readable.len());
            if oldest.is_none() && turn.is_over {
                return Ok(());
            }
            let waited = oldest.map_or(Duration::ZERO, |acked| now.saturating_duration_since(*acked));
            ensure!(waited < DEADLINE, "an acknowledged event is not readable after {DEADLINE:?}");
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Returns the number of events in the summary, or 0 if the read fails.
async fn counted(reads: &mut Connection, path: &str, key: &HeaderValue) -> usize {
    let Exchange::Responded(answer) = reads.get(path, key).await else { return 0 };
    let summary = serde_json::from_slice::<Summary>(&answer.body).ok().filter(|_| answer.status == 200);
    summary.map_or(0, |summary| usize::try_from(summary.total_events).unwrap_or(usize::MAX))
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steady, burst } = self;
        let rate = |fresh: &Fresh| fresh.load.acked_events_per_second;
        writeln!(
            f,
            "P4  readable after its 2xx, {:.0} events/s: {} of {}, {} not acknowledged",
            rate(steady),
            steady.readable,
            steady.readable.count,
            steady.unacked
        )?;
        writeln!(
            f,
            "    in a burst, {:.0} events/s: {} of {}, {} not acknowledged",
            rate(burst),
            burst.readable,
            burst.readable.count,
            burst.unacked
        )?;
        writeln!(f, "    target: p50 ≤ 500 ms, p99 ≤ 1000 ms; in the burst ≤ 3000 ms; includes the {LOOK_AGAIN:?} pause")
    }
}
