//! P4: how long after its 2xx an event can be read, while others report.
//!
//! Must use tenants of its own: the oracle of the run knows nothing of these events.

use super::Bench;
use crate::client::{Connection, Exchange, Place};
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
}

/// A tenant that waits for its own event.
struct Probe {
    tenant: Tenant,
    ingest: Connection,
    reads: Connection,
    reported: u64,
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
            let probe = Probe::begin(tenant, &self.stage.ingest, &self.stage.base).await?;
            probes.spawn(probe.keep_probing(stop.clone()));
        }
        let load = self.open(name, per_second).await;
        stop.cancel();
        let mut readable = Latencies::default();
        for took in probes.join_all().await.into_iter().flatten() {
            readable.record(took);
        }
        Ok(Fresh { load, readable: Quantiles::from(&readable) })
    }
}

impl Probe {
    async fn begin(tenant: &Tenant, ingest: &Place, base: &Place) -> anyhow::Result<Self> {
        let connection = |place: &Place| Connection::new(place.clone(), DEADLINE);
        let mut probe = Self { tenant: tenant.clone(), ingest: connection(ingest), reads: connection(base), reported: 0 };
        probe.reported = probe.counted().await.context("a probe's summary is not answered")?;
        Ok(probe)
    }

    /// Reports and waits, again and again; an event that is not acknowledged for sure ends it, because it may count or not.
    async fn keep_probing(mut self, stop: CancellationToken) -> Vec<Duration> {
        let mut took = Vec::new();
        while !stop.is_cancelled() {
            match self.probe().await {
                Ok(readable) => took.push(readable),
                Err(error) => {
                    eprintln!("a probe has ended: {error:#}");
                    break;
                }
            }
            sleep(MOST_REST.mul_f64(rand::random())).await;
        }
        took
    }

    async fn probe(&mut self) -> anyhow::Result<Duration> {
        let event = json!({
            "id": Uuid::new_v4(),
            "type": "content_retrieved",
            "timestamp": Clock::System.now().to_rfc3339_opts(SecondsFormat::Millis, true),
            "session_id": Uuid::new_v4(),
            "content_url": format!("https://www.{}/articles/{}", self.tenant.domain, self.reported),
            "data": {},
        });
        let body = json!({ "events": [event] }).to_string().into_bytes();
        let answered = self.ingest.post("/events", &self.tenant.keys[AGENT], body).await;
        let is_acked = matches!(&answered, Exchange::Answered(answer) if (200..300).contains(&answer.status));
        ensure!(is_acked, "an event was not acknowledged: {answered:?}");
        let acked = Instant::now();
        self.reported += 1;
        while self.counted().await.is_none_or(|counted| counted < self.reported) {
            ensure!(acked.elapsed() < DEADLINE, "an acknowledged event cannot be read after {DEADLINE:?}");
            sleep(LOOK_AGAIN).await;
        }
        Ok(acked.elapsed())
    }

    async fn counted(&mut self) -> Option<u64> {
        match self.reads.get("/content-owners/summary", &self.tenant.owner_key).await {
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
            "P4  readable after its 2xx, {:.0} events/s: {} of {}",
            rate(steady),
            steady.readable,
            steady.readable.count
        )?;
        writeln!(f, "    in a burst, {:.0} events/s: {} of {}", rate(burst), burst.readable, burst.readable.count)?;
        writeln!(f, "    wanted: p50 ≤ 500 ms, p99 ≤ 1000 ms; in the burst ≤ 3000 ms; the look every {LOOK_AGAIN:?} is in it")
    }
}
