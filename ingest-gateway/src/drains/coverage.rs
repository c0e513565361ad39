//! What bodies held, written to PostgreSQL once their records are durable (docs/api/drains.md#coverage).
//!
//! Must not keep an answer waiting for a PostgreSQL that is away, nor more in memory than it says.

use super::body_counts::{BodyCounts, Hour};
use super::line_id::named_id;
use crate::metrics;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::identity::DrainProvider;
use schemas::ids::{DrainId, OrgId};
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::housekeeping;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// What an answer waits for PostgreSQL.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two tries while it is away.
const PAUSE: Duration = Duration::from_secs(1);
/// Rows that wait while it is away; what comes then is not covered, and counted as such.
const MAX_WAITING: usize = 100_000;
/// For how long coverage is kept.
const KEPT: TimeDelta = TimeDelta::days(400);
/// For how long lines that could not be read are shown.
const BAD_LINES_KEPT: TimeDelta = TimeDelta::days(30);

/// A body that comes again, mended by its sender's settings, is what it is now; it came when it first did.
const INSERT_HOURS: &str = "INSERT INTO drain_hours (source, organization_id, provider, drain_id, hour, batch, lines, kept, people, bad, \
        dropped, bytes, lag_ms, received_at) \
    SELECT $1, $2, $3, $14, hour, $4, lines, kept, people, bad, dropped::jsonb, bytes, lag_ms, $5 \
    FROM unnest($6::timestamptz[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], \
        $13::bigint[]) AS hours (hour, lines, kept, people, bad, dropped, bytes, lag_ms) \
    ON CONFLICT (source, hour, batch) DO UPDATE SET lines = EXCLUDED.lines, kept = EXCLUDED.kept, people = EXCLUDED.people, \
        bad = EXCLUDED.bad, dropped = EXCLUDED.dropped, bytes = EXCLUDED.bytes";
const DELETE_BAD_LINES: &str = "DELETE FROM drain_bad_lines WHERE source = $1 AND batch = $2";
const INSERT_BAD_LINES: &str = "INSERT INTO drain_bad_lines (source, batch, n, reason, excerpt, seen_at) \
    SELECT $1, $2, n, reason, excerpt, $3 FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS bad (reason, excerpt, n) \
    ON CONFLICT DO NOTHING";

/// The coverage of one body.
pub(super) struct Report {
    pub(super) org: OrgId,
    pub(super) provider: DrainProvider,
    /// None: of the organisation's own key.
    pub(super) drain: Option<DrainId>,
    pub(super) body_counts: BodyCounts,
    pub(super) received_at: DateTime<Utc>,
}

/// Writes reports, at once or later.
pub(super) struct Coverage {
    pool: PgPool,
    later: mpsc::UnboundedSender<Report>,
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

    /// Writes a report, or has it written once PostgreSQL is back.
    pub(super) async fn keep(&self, report: Report) {
        if report.body_counts.lines == 0 {
            return;
        }
        // While others wait PostgreSQL is away.
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

async fn write_later(pool: PgPool, mut reports: mpsc::UnboundedReceiver<Report>, waiting: Arc<AtomicUsize>) {
    while let Some(report) = reports.recv().await {
        while let Err(error) = report.write(&pool).await {
            tracing::debug!(%error, "the coverage of a drain waits for PostgreSQL");
            tokio::time::sleep(PAUSE).await;
        }
        let rows = report.rows();
        metrics::drain_coverage_waiting(waiting.fetch_sub(rows, Ordering::Relaxed) - rows);
    }
}

/// Deletes what is old enough, hourly.
fn expiry(pool: PgPool, clock: Clock) -> AbortOnDropHandle<()> {
    const HOURS: &str = "DELETE FROM drain_hours WHERE (source, hour, batch) IN ( \
        SELECT source, hour, batch FROM drain_hours WHERE received_at < $1 ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
    const BAD_LINES: &str = "DELETE FROM drain_bad_lines WHERE (source, batch, n) IN ( \
        SELECT source, batch, n FROM drain_bad_lines WHERE seen_at < $1 ORDER BY seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
    housekeeping::hourly("old coverage of drains", move || {
        let (pool, now) = (pool.clone(), clock.now());
        async move {
            let hours = housekeeping::delete_in_batches(&pool, HOURS, now - KEPT).await?;
            Ok::<_, sqlx::Error>(hours + housekeeping::delete_in_batches(&pool, BAD_LINES, now - BAD_LINES_KEPT).await?)
        }
    })
}

impl Report {
    /// Whose coverage it is: without a drain, the organisation's of this provider.
    fn source(&self) -> Uuid {
        self.drain.map_or_else(|| named_id(self.org.0, self.provider.as_str()), |drain| drain.0)
    }

    /// What it takes of memory, in rows and their members.
    fn rows(&self) -> usize {
        self.body_counts.hours.values().map(|hour| 1 + hour.dropped.len()).sum::<usize>() + self.body_counts.bad_lines.len()
    }

    async fn write(&self, pool: &PgPool) -> Result<(), sqlx::Error> {
        let mut change = pool.begin().await?;
        let batch = self.body_counts.batch();
        let hours = &self.body_counts.hours;
        let all = |of: &dyn Fn(&Hour) -> i64| hours.values().map(of).collect::<Vec<i64>>();
        let texts = |of: &dyn Fn(&Hour) -> serde_json::Value| hours.values().map(|hour| of(hour).to_string()).collect::<Vec<_>>();
        let begins: Vec<_> = hours.keys().filter_map(|begin| DateTime::from_timestamp_millis(*begin)).collect();
        let received_ms = self.received_at.timestamp_millis();
        sqlx::query(INSERT_HOURS)
            .bind(self.source())
            .bind(self.org.0)
            .bind(self.provider.as_str())
            .bind(batch.as_slice())
            .bind(self.received_at)
            .bind(begins)
            .bind(all(&|hour| signed(hour.lines)))
            .bind(all(&|hour| signed(hour.kept)))
            .bind(all(&|hour| signed(hour.people)))
            .bind(all(&|hour| signed(hour.bad)))
            .bind(texts(&|hour| json!(hour.dropped)))
            .bind(all(&|hour| signed(hour.bytes)))
            .bind(all(&|hour| (received_ms - hour.newest_ms).max(0)))
            .bind(self.drain.map(|drain| drain.0))
            .execute(&mut *change)
            .await?;
        sqlx::query(DELETE_BAD_LINES).bind(self.source()).bind(batch.as_slice()).execute(&mut *change).await?;
        let (reasons, outlines): (Vec<&str>, Vec<&str>) =
            self.body_counts.bad_lines.iter().map(|line| (line.reason, line.outline.as_str())).unzip();
        sqlx::query(INSERT_BAD_LINES)
            .bind(self.source())
            .bind(batch.as_slice())
            .bind(self.received_at)
            .bind(reasons)
            .bind(outlines)
            .execute(&mut *change)
            .await?;
        change.commit().await
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
