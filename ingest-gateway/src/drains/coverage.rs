//! Stores bodies' counts in PostgreSQL once their records are durable (docs/api/drains.md#coverage).

use super::body_counts::{BodyCounts, Hour};
use super::line_id::named_id;
use crate::metrics;
use crate::request::write_budgets::WriteBudgets;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::identity::{DrainProvider, HEALTH_BAD_LINES};
use schemas::ids::{DrainId, OrgId};
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::hourly_deletion;
use service_kit::identity_tables::OwnedSite;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// How long a response waits for PostgreSQL.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between retries while PostgreSQL is unavailable.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of rows waiting for PostgreSQL. Further rows are lost and counted as lost.
const MAX_WAITING: usize = 100_000;
/// Retention of hours.
const HOURS_STORED: TimeDelta = TimeDelta::days(400);
/// Retention of hours that are shown only in the drain's health.
const HOURS_OF_HEALTH: TimeDelta = TimeDelta::days(3);
/// Time for which a repeated body is recognized.
const BODIES_STORED: TimeDelta = TimeDelta::days(7);
/// Retention of unreadable lines.
const BAD_LINES_STORED: TimeDelta = TimeDelta::days(30);

/// Size of a PostgreSQL row with its indexes, in bytes. Each update of an hour takes as much until it is vacuumed.
const BODY_BYTES: u64 = 256;
const HOUR_BYTES: u64 = 256;
const BAD_LINE_BYTES: u64 = 512;

const ADD: &str = include_str!("coverage/add.sql");
const TRIM_BAD_LINES: &str = include_str!("coverage/trim_bad_lines.sql");
const DELETE_HOURS: &str = include_str!("coverage/delete_hours.sql");
const DELETE_BODIES: &str = include_str!("coverage/delete_bodies.sql");
const DELETE_BAD_LINES: &str = include_str!("coverage/delete_bad_lines.sql");

/// The coverage of one body.
pub(super) struct BodyCoverage {
    pub(super) org: OrgId,
    pub(super) provider: DrainProvider,
    /// `None` if the key does not belong to a drain.
    pub(super) drain: Option<DrainId>,
    pub(super) visibility: CoverageVisibility,
    pub(super) body_counts: BodyCounts,
    pub(super) received_at: DateTime<Utc>,
}

/// Whether reads show the coverage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CoverageVisibility {
    /// Coverage of verified hosts, shown in reads.
    OfVerifiedHosts,
    /// Coverage of any host, shown only in the drain's health.
    OfAnyHosts,
}

impl CoverageVisibility {
    /// Returns the visibility for an organization's verified hosts. `None` as an argument means that it may report for every host. Returns
    /// `None` for a content owner without a verified domain, because anyone can create one.
    pub(super) fn for_hosts(owned: Option<&[OwnedSite]>) -> Option<Self> {
        match owned {
            Some([]) => None,
            Some(_) => Some(Self::OfVerifiedHosts),
            None => Some(Self::OfAnyHosts),
        }
    }

    fn hours(self) -> TimeDelta {
        match self {
            Self::OfVerifiedHosts => HOURS_STORED,
            Self::OfAnyHosts => HOURS_OF_HEALTH,
        }
    }
}

/// Stores reports, retrying while PostgreSQL is unavailable.
pub(super) struct Coverage {
    pool: PgPool,
    later: mpsc::UnboundedSender<BodyCoverage>,
    waiting: Arc<AtomicUsize>,
    _writer: AbortOnDropHandle<()>,
    _expiry: AbortOnDropHandle<()>,
}

impl Coverage {
    pub(super) fn start(pool: PgPool, clock: Clock) -> Self {
        let (later, reports) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = write_later(pool.clone(), reports, Arc::clone(&waiting));
        let expiry = expiry(pool.clone(), clock);
        Self { pool, later, waiting, _writer: AbortOnDropHandle::new(tokio::spawn(writer)), _expiry: expiry }
    }

    /// Stores a report, or queues it while PostgreSQL is unavailable. Rows above the organization's budget count as lost.
    pub(super) async fn store(&self, report: BodyCoverage, budgets: &WriteBudgets) {
        if report.body_counts.lines == 0 {
            return;
        }
        if !report.is_within(budgets) {
            metrics::drain_coverage_lost();
            return;
        }
        // If others are waiting, PostgreSQL is unavailable.
        if self.waiting.load(Ordering::Relaxed) == 0
            && matches!(tokio::time::timeout(PATIENCE, report.write(&self.pool)).await, Ok(Ok(())))
        {
            return;
        }
        let rows = report.rows();
        if self.waiting.fetch_add(rows, Ordering::Relaxed) + rows > MAX_WAITING || self.later.send(report).is_err() {
            metrics::drain_coverage_waiting(self.waiting.fetch_sub(rows, Ordering::Relaxed) - rows);
            metrics::drain_coverage_lost();
            return;
        }
        metrics::drain_coverage_waiting(self.waiting.load(Ordering::Relaxed));
    }
}

async fn write_later(pool: PgPool, mut reports: mpsc::UnboundedReceiver<BodyCoverage>, waiting: Arc<AtomicUsize>) {
    while let Some(report) = reports.recv().await {
        while let Err(error) = report.write(&pool).await {
            tracing::debug!(%error, "failed to store drain coverage, retrying");
            tokio::time::sleep(PAUSE).await;
        }
        let rows = report.rows();
        metrics::drain_coverage_waiting(waiting.fetch_sub(rows, Ordering::Relaxed) - rows);
    }
}

/// Deletes expired rows, hourly.
fn expiry(pool: PgPool, clock: Clock) -> AbortOnDropHandle<()> {
    let deletions = [(DELETE_HOURS, HOURS_STORED), (DELETE_BODIES, BODIES_STORED), (DELETE_BAD_LINES, BAD_LINES_STORED)];
    hourly_deletion::hourly("expired drain coverage", move || {
        let (pool, now) = (pool.clone(), clock.now());
        async move {
            let mut deleted = 0;
            for (statement, stored) in deletions {
                deleted += hourly_deletion::delete_in_batches(&pool, statement, now - stored).await?;
            }
            Ok::<_, sqlx::Error>(deleted)
        }
    })
}

impl BodyCoverage {
    /// Returns the id under which coverage is stored: the drain, or the organization and provider.
    fn source(&self) -> Uuid {
        self.drain.map_or_else(|| named_id(self.org.0, self.provider.as_str()), |drain| drain.0)
    }

    /// Returns the hours to store, with their start times. Skips expired hours.
    fn hours(&self) -> impl Iterator<Item = (DateTime<Utc>, &Hour)> {
        let first = self.received_at - self.visibility.hours();
        let hours = self.body_counts.hours.iter();
        hours
            .filter_map(|(begin, hour)| Some((DateTime::from_timestamp_millis(*begin)?, hour)))
            .filter(move |(begin, _)| *begin >= first)
    }

    /// Returns the maximum number of rows that the report adds: hours, bad lines and the body itself.
    fn rows(&self) -> usize {
        self.hours().count() + self.body_counts.bad_lines.len() + 1
    }

    /// Deducts the rows from the organization's budget. Returns false if they exceed it.
    fn is_within(&self, budgets: &WriteBudgets) -> bool {
        let (hours, bad_lines) = (self.hours().count() as u64, self.body_counts.bad_lines.len() as u64);
        let bytes = BODY_BYTES + hours * HOUR_BYTES + bad_lines * BAD_LINE_BYTES;
        budgets.spend_coverage(self.org, self.visibility == CoverageVisibility::OfVerifiedHosts, bytes, self.received_at)
    }

    async fn write(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let (begins, hours): (Vec<DateTime<Utc>>, Vec<&Hour>) = self.hours().unzip();
        let all = |of: &dyn Fn(&Hour) -> i64| hours.iter().map(|hour| of(hour)).collect::<Vec<i64>>();
        let dropped: Vec<String> = hours.iter().map(|hour| json!(hour.dropped).to_string()).collect();
        let received_ms = self.received_at.timestamp_millis();
        let (reasons, outlines): (Vec<&str>, Vec<&str>) =
            self.body_counts.bad_lines.iter().map(|line| (line.reason, line.outline.as_str())).unzip();
        let has_bad_lines = !reasons.is_empty();
        sqlx::query(ADD)
            .bind(self.source())
            .bind(self.org.0)
            .bind(self.provider.as_str())
            .bind(self.drain.map(|drain| drain.0))
            .bind(self.body_counts.digest().as_slice())
            .bind(self.received_at)
            .bind(begins)
            .bind(all(&|hour| signed(hour.lines)))
            .bind(all(&|hour| signed(hour.kept)))
            .bind(all(&|hour| signed(hour.people)))
            .bind(all(&|hour| signed(hour.bad)))
            .bind(dropped)
            .bind(all(&|hour| signed(hour.bytes)))
            .bind(all(&|hour| (received_ms - hour.newest_ms).max(0)))
            .bind(reasons)
            .bind(outlines)
            .execute(pool)
            .await?;
        if has_bad_lines {
            sqlx::query(TRIM_BAD_LINES).bind(self.source()).bind(HEALTH_BAD_LINES).execute(pool).await?;
        }
        Ok(())
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
