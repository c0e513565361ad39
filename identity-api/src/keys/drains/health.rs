//! `GET /api/v1/identity/drains/{id}/health`: the lines that a drain sent in the last hours, by result
//! (docs/api/identity.md#health-of-a-drain).

use super::find;
use crate::access::prelude::*;
use chrono::{DurationRound, TimeDelta};
use schemas::identity::{BadLine, DrainFigures, DrainHealth, DrainHour, DroppedLines, HEALTH_BAD_LINES, HEALTH_HOURS};
use schemas::ids::DrainId;
use std::collections::BTreeMap;

type Hours = BTreeMap<DateTime<Utc>, DrainFigures>;

/// Covers the last hours, including the current one.
pub(crate) async fn show_health(
    Shared(state): Shared<Arc<State>>,
    IdentityReader(actor): IdentityReader,
    Path(id): Path<String>,
) -> Result<Json<DrainHealth>, ApiError> {
    let mut moment = state.pool.begin().await?;
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(&mut *moment).await?;
    let drain = find(&mut *moment, &actor, &id).await?.id;
    let now = state.now().duration_trunc(TimeDelta::hours(1)).map_err(ApiError::internal)?;
    let first = now - TimeDelta::hours(HEALTH_HOURS - 1);
    let mut told = figures(&mut moment, drain, first).await?;
    add_dropped(&mut moment, drain, first, &mut told).await?;
    let (last_batch_at, bad_lines) = (last_batch(&mut moment, drain).await?, bad_lines(&mut moment, drain).await?);
    let hours = (0..HEALTH_HOURS).map(|number| first + TimeDelta::hours(number));
    let hours = hours.map(|hour| DrainHour { hour, coverage: told.contains_key(&hour), figures: told.get(&hour).cloned() });
    let hours = hours.collect();
    let figures = whole(told.into_values());
    Ok(Json(DrainHealth { drain_id: drain, last_batch_at, figures, bad_lines, hours }))
}

type HourRow = (DateTime<Utc>, i64, i64, i64, i64, i64, i64);

async fn figures(moment: &mut PgConnection, drain: DrainId, first: DateTime<Utc>) -> Result<Hours, sqlx::Error> {
    let rows: Vec<HourRow> = sqlx::query_as(
        "SELECT hour, lines, kept, people, bad, bytes, lag_ms FROM drain_hours WHERE source = $1 AND hour >= $2 AND lines > 0",
    )
    .bind(drain.0)
    .bind(first)
    .fetch_all(moment)
    .await?;
    let read = |(hour, lines, kept, people, bad, bytes, lag): HourRow| {
        let figures = DrainFigures {
            lines: count(lines),
            kept: count(kept),
            people: count(people),
            bad: count(bad),
            // `add_dropped` subtracts dropped lines.
            refused: count(lines - kept - people - bad),
            bytes: count(bytes),
            lag_ms: Some(count(lag)),
            ..DrainFigures::default()
        };
        (hour, figures)
    };
    Ok(rows.into_iter().map(read).collect())
}

async fn add_dropped(
    moment: &mut PgConnection,
    drain: DrainId,
    first: DateTime<Utc>,
    hours: &mut Hours,
) -> Result<(), sqlx::Error> {
    let rows: Vec<(DateTime<Utc>, String, i64)> = sqlx::query_as(
        "SELECT hour, reason, number::bigint FROM drain_hours CROSS JOIN LATERAL jsonb_each_text(dropped) AS each (reason, number) \
         WHERE source = $1 AND hour >= $2 ORDER BY 3 DESC, reason",
    )
    .bind(drain.0)
    .bind(first)
    .fetch_all(moment)
    .await?;
    for (hour, reason, number) in rows {
        if let Some(figures) = hours.get_mut(&hour) {
            figures.refused = figures.refused.saturating_sub(count(number));
            figures.dropped.push(DroppedLines { reason, count: count(number) });
        }
    }
    Ok(())
}

async fn last_batch(moment: &mut PgConnection, drain: DrainId) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar("SELECT max(received_at) FROM drain_hours WHERE source = $1").bind(drain.0).fetch_one(moment).await
}

async fn bad_lines(moment: &mut PgConnection, drain: DrainId) -> Result<Vec<BadLine>, sqlx::Error> {
    let rows: Vec<(String, String, DateTime<Utc>)> = sqlx::query_as(
        "SELECT reason, excerpt, seen_at FROM drain_bad_lines WHERE source = $1 ORDER BY seen_at DESC, digest, n LIMIT $2",
    )
    .bind(drain.0)
    .bind(HEALTH_BAD_LINES)
    .fetch_all(moment)
    .await?;
    Ok(rows.into_iter().map(|(reason, excerpt, seen_at)| BadLine { reason, excerpt, seen_at }).collect())
}

fn whole(hours: impl Iterator<Item = DrainFigures>) -> DrainFigures {
    let mut dropped = BTreeMap::<String, u64>::new();
    let mut whole = DrainFigures::default();
    for hour in hours {
        whole.lines += hour.lines;
        whole.kept += hour.kept;
        whole.people += hour.people;
        whole.bad += hour.bad;
        whole.refused += hour.refused;
        whole.bytes += hour.bytes;
        whole.lag_ms = whole.lag_ms.max(hour.lag_ms);
        hour.dropped.into_iter().for_each(|one| *dropped.entry(one.reason).or_default() += one.count);
    }
    whole.dropped = dropped.into_iter().map(|(reason, count)| DroppedLines { reason, count }).collect();
    whole.dropped.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    whole
}

/// Converts a count, which is never negative.
fn count(stored: i64) -> u64 {
    stored.try_into().unwrap_or_default()
}
