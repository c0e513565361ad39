//! P4: how long after its 2xx an event can be read, while others report.
//!
//! Must use tenants of its own: the oracle of the run knows nothing of these events.

use super::Bench;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::Latencies;
use crate::report::{LoadReport, Quantiles};
use crate::tenants::{self, Tenant};
use crate::workload::AGENT;
use anyhow::{Context as _, ensure};
use chrono::SecondsFormat;
use schemas::reads::Summary;
use serde::Serialize;
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::settings::PostgresSettings;
use service_kit::stores;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Tenants that report one event at a time and wait until they can read it.
const PROBES: usize = 8;
/// Between two looks; it is part of what is measured.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Between two events of a probe, so that it does not fall in step with the worker: at most this.
const MOST_REST: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_secs(30);

/// The same for a steady load and for a burst.
#[derive(Debug, Serialize)]
pub(super) struct Freshness {
    steady: Fresh,
    burst: Fresh,
}

#[derive(Debug, Serialize)]
struct Fresh {
    load: LoadReport,
    /// From the 2xx to the end of the first read that counts the event.
    readable: Quantiles,
    /// Events of the probes that were not acknowledged, and not waited for.
    unacked: u64,
}

/// A tenant that waits for its own event.
struct Probe {
    tenant: Tenant,
    ingest: Connection,
    reads: Connection,
    unacked: u64,
}

impl Bench<'_> {
    /// Batch 1 at so many events a second, then at so many more, with every service at work.
    pub(super) async fn freshness(&mut self, steady: f64, burst: f64) -> anyhow::Result<Freshness> {
        // What is left of the load before would be in the way.
        self.session.settle(&self.stage.base).await;
        let database_url = self.stage.database_url().context("a bench has a stack of its own")?.to_owned();
        let pool = stores::postgres(&PostgresSettings { database_url })?;
        let tenants = tenants::seed(&pool, &format!("{}-probe", self.stage.name), PROBES).await?;
        Ok(Freshness {
            steady: self.fresh("pipeline, steady", steady, &tenants).await?,
            burst: self.fresh("pipeline, burst", burst, &tenants).await?,
        })
    }

    async fn fresh(&mut self, name: &str, per_second: f64, tenants: &[Tenant]) -> anyhow::Result<Fresh> {
        let (stop, mut probes) = (CancellationToken::new(), JoinSet::new());
        for tenant in tenants {
            probes.spawn(Probe::new(tenant, &self.stage.ingest, &self.stage.base).keep_probing(stop.clone()));
        }
        let load = self.open(name, per_second).await;
        stop.cancel();
        let mut readable = Latencies::default();
        let mut unacked = 0;
        for probed in probes.join_all().await {
            let (took, not_acked) = probed?;
            took.into_iter().for_each(|took| readable.record(took));
            unacked += not_acked;
        }
        Ok(Fresh { load, readable: Quantiles::from(&readable), unacked })
    }
}

impl Probe {
    fn new(tenant: &Tenant, ingest: &Endpoint, base: &Endpoint) -> Self {
        let connection = |place: &Endpoint| Connection::new(place.clone(), DEADLINE);
        Self { tenant: tenant.clone(), ingest: connection(ingest), reads: connection(base), unacked: 0 }
    }

    /// Reports and waits, again and again: how long each took, and how many were not acknowledged.
    async fn keep_probing(mut self, stop: CancellationToken) -> anyhow::Result<(Vec<Duration>, u64)> {
        let mut took = Vec::new();
        while !stop.is_cancelled() {
            took.extend(self.probe().await?);
            sleep(MOST_REST.mul_f64(rand::random())).await;
        }
        Ok((took, self.unacked))
    }

    /// An event of a host of its own: one that was not acknowledged may come to be counted, and must not be taken for another.
    async fn probe(&mut self) -> anyhow::Result<Option<Duration>> {
        let id = Uuid::new_v4();
        let host = format!("n{}.{}", id.simple(), self.tenant.domain);
        let event = json!({
            "id": id,
            "type": "content_retrieved",
            "timestamp": Clock::System.now().to_rfc3339_opts(SecondsFormat::Millis, true),
            "session_id": Uuid::new_v4(),
            "content_url": format!("https://{host}/"),
            "data": {},
        });
        let body = json!({ "events": [event] }).to_string().into_bytes();
        let answered = self.ingest.post("/events", &self.tenant.keys[AGENT], body).await;
        let is_acked = matches!(&answered, Exchange::Answered(answer) if (200..300).contains(&answer.status));
        if !is_acked {
            self.unacked += 1;
            return Ok(None);
        }
        let acked = Instant::now();
        let path = format!("/content-owners/summary?domain={host}");
        while self.counted(&path).await != Some(1) {
            ensure!(acked.elapsed() < DEADLINE, "an acknowledged event cannot be read after {DEADLINE:?}");
            sleep(LOOK_AGAIN).await;
        }
        Ok(Some(acked.elapsed()))
    }

    async fn counted(&mut self, path: &str) -> Option<u64> {
        match self.reads.get(path, &self.tenant.owner_key).await {
            Exchange::Answered(answer) if answer.status == 200 => {
                serde_json::from_slice::<Summary>(&answer.body).ok().map(|summary| summary.total_events)
            }
            _ => None,
        }
    }
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
        writeln!(f, "    wanted: p50 ≤ 500 ms, p99 ≤ 1000 ms; in the burst ≤ 3000 ms; the look every {LOOK_AGAIN:?} is in it")
    }
}
