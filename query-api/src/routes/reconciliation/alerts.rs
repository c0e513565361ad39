//! Finds the days on which a licensee's differences reach the owner's thresholds (docs/api/reconciliation.md#alerts).
//!
//! Processes share this work: each alert is claimed by one of them. identity-api sends the webhooks of exceptions.

use crate::State;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::reads::{BACKGROUND, ReconciledBy, ReconciledFetches, scanned_days};
use crate::routes::coverage;
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use schemas::ids::OrgId;
use schemas::paged_responses::{Finding, MAX_PAGE};
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;

/// Time between rounds, in which a process claims the alerts that are due.
const EVERY: Duration = Duration::from_mins(1);
const DUE_AFTER: TimeDelta = TimeDelta::minutes(10);
/// A licensee has at most one item per finding, and the bot table limits licensees to a few hundred.
const MAX_ITEMS: u64 = 10 * MAX_PAGE;

/// Runs rounds until the state is dropped.
pub(crate) fn start(state: Weak<State>) {
    tokio::spawn(async move {
        let mut rounds = tokio::time::interval_at(Instant::now() + EVERY, EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            let Some(state) = state.upgrade() else { return };
            if let Err(error) = round(&state, state.clock.now()).await {
                tracing::warn!("failed to check reconciliation alerts, retrying in the next round: {error}");
            }
        }
    });
}

/// Checks yesterday and today for the owners whose alerts no process has checked for ten minutes. Returns the number of new
/// exceptions. An owner whose reads fail doesn't affect others.
pub(crate) async fn round(state: &State, now: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    let claim = || sqlx::query_as(include_str!("claim.sql")).bind(now).bind(now - DUE_AFTER).fetch_optional(&state.pool);
    let mut stored = 0;
    while let Some((organization, min_events, share)) = claim().await? {
        for day in [now.date_naive() - TimeDelta::days(1), now.date_naive()] {
            let counts = match differences(state, OrgId(organization), day).await {
                Ok(counts) => counts,
                Err(error) => {
                    tracing::warn!(%organization, "failed to reconcile for alerts: {error:?}");
                    continue;
                }
            };
            for (operator, (differing, compared)) in counts {
                if reaches((differing, compared), min_events, share) {
                    stored += store(state, (organization, day, &operator), (differing, compared), now).await?;
                }
            }
        }
    }
    Ok(stored)
}

/// Returns the numbers of differing and of compared fetches of a day, by licensee.
async fn differences(state: &State, owner: OrgId, day: NaiveDate) -> Result<BTreeMap<String, (u64, u64)>, ApiError> {
    let start = day.and_time(NaiveTime::MIN).and_utc();
    let period = Period {
        from_ms: Some(start.timestamp_millis()),
        before_ms: Some((start + TimeDelta::days(1)).timestamp_millis()),
        ..Period::default()
    };
    let visibility = Visibility::for_all_domains(owner, &state.directory.owned_sites(owner).await?);
    let servers = coverage::servers(state, Tenant::Organization(owner), &visibility, &scanned_days(&period)).await?;
    let fetches =
        ReconciledFetches { by: ReconciledBy::Finding, operator: None, finding: String::new(), filter: EventFilter::default() };
    let page = Paging { limit: MAX_ITEMS, offset: 0 };
    let reads = state.telemetry.with_priority(BACKGROUND);
    let (_, rows) = reads.reconciliation(&visibility, &period, (&fetches, &servers, &state.bots), page).await?;
    let mut counts = BTreeMap::<String, (u64, u64)>::new();
    for (row, _) in rows {
        let count = counts.entry(row.licensee).or_default();
        let is_difference = ![Finding::Matched, Finding::NoCoverage].map(Finding::as_str).contains(&row.finding.as_str());
        count.0 += if is_difference { row.fetch_count } else { 0 };
        count.1 += row.fetch_count;
    }
    Ok(counts)
}

#[expect(clippy::cast_precision_loss, reason = "a share of fewer than 2^53 fetches")]
fn reaches((differing, compared): (u64, u64), min_events: i64, share: f64) -> bool {
    i64::try_from(differing).is_ok_and(|differing| differing >= min_events) && differing as f64 >= share * compared as f64
}

async fn store(
    state: &State,
    (organization, day, operator): (Uuid, NaiveDate, &str),
    (differing, compared): (u64, u64),
    now: DateTime<Utc>,
) -> Result<u64, sqlx::Error> {
    let insert = "INSERT INTO reconciliation_exceptions (organization_id, day, operator, differing, compared, found_at) \
                  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
    let stored = sqlx::query(insert)
        .bind(organization)
        .bind(day)
        .bind(operator)
        .bind(i64::try_from(differing).unwrap_or(i64::MAX))
        .bind(i64::try_from(compared).unwrap_or(i64::MAX))
        .bind(now)
        .execute(&state.pool)
        .await?;
    Ok(stored.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::reaches;

    #[test]
    fn both_thresholds_have_to_be_reached() {
        for (counts, min_events, share, expected) in [
            ((10, 100), 10, 0.1, true),
            ((9, 9), 10, 0.1, false),
            ((10, 101), 10, 0.1, false),
            ((1, 1), 1, 1.0, true),
            ((0, 5), 1, 0.0, false),
        ] {
            assert_eq!(reaches(counts, min_events, share), expected, "{counts:?} {min_events} {share}");
        }
    }
}
