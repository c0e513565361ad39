//! The hours with server data (docs/api/reads.md#get-content-ownerscoverage).
//!
//! Only servers of the owner and its partners cover an hour, because anyone can report events for any host, and an unknown hour must not
//! look like zero.

use crate::State;
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::read_limiter::ReadPermit;
use crate::reads::Servers;
use chrono::{DateTime, Utc};
use schemas::coverage::{Coverage, CoverageSpan};
use schemas::site::Site;
use service_kit::auth::Tenant;
use service_kit::http::ApiError;
use std::collections::BTreeSet;
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;
/// Maximum number of spans in a coverage read. Reporters choose event times, so they can create any number of spans.
const SPANS: usize = 10_000;
const MAX_SPANS_WITH_FIGURES: usize = 1_000;

/// Returns a period's covered hours: those in which one of the owner's drains has a line for its own hosts, or a server of the owner or a
/// partner reported an event. Contains the latest [`SPANS`] spans, and the sums of all hours.
pub(crate) async fn coverage(
    state: &State,
    permit: &ReadPermit,
    seen: &Visibility,
    period: &Period,
) -> Result<Coverage, ApiError> {
    let tenant = permit.tenant();
    let sources = state.outcomes.with_slot(tenant, sources_of(state, seen)).await?;
    let told = state.outcomes.with_slot(tenant, hours_of_drains(&sources, state, seen, period)).await?;
    covered(state, permit, &sources, seen, period, told).await.map(|whole| latest(whole, SPANS))
}

/// Like [`coverage`], for another read's response. Returns `None` if the hosts have no drain and no drain had a line in the period, because
/// missing server logs are expected then.
pub(crate) async fn coverage_for_figures(
    state: &State,
    permit: &ReadPermit,
    seen: &Visibility,
    period: &Period,
) -> Result<Option<Coverage>, ApiError> {
    let tenant = permit.tenant();
    let sources = state.outcomes.with_slot(tenant, sources_of(state, seen)).await?;
    let told = state.outcomes.with_slot(tenant, hours_of_drains(&sources, state, seen, period)).await?;
    if told.is_empty() && !sources.has_drain {
        return Ok(None);
    }
    covered(state, permit, &sources, seen, period, told).await.map(|whole| Some(latest(whole, MAX_SPANS_WITH_FIGURES)))
}

/// Limits the spans to the last ones. The sums still cover all hours.
fn latest(mut whole: Coverage, spans: usize) -> Coverage {
    whole.spans.drain(..whole.spans.len().saturating_sub(spans));
    whole
}

async fn covered(
    state: &State,
    permit: &ReadPermit,
    sources: &Sources,
    seen: &Visibility,
    period: &Period,
    told: Vec<i64>,
) -> Result<Coverage, ApiError> {
    let reported = state.reads(permit).hours_seen(seen, period, &sources.observers).await?;
    Ok(spans(period, &told.into_iter().chain(reported).collect()))
}

/// The drains and servers that can cover hours of an owner's domains.
#[derive(sqlx::FromRow)]
struct Sources {
    /// Drains that accept lines of these domains, including deleted ones.
    drains: Vec<Uuid>,
    /// Whether one of the drains still exists.
    has_drain: bool,
    /// The owner and its partners. Only their servers' reports count.
    observers: Vec<Uuid>,
}

async fn sources_of(state: &State, seen: &Visibility) -> Result<Sources, sqlx::Error> {
    sqlx::query_as(include_str!("coverage/sources.sql"))
        .bind(seen.organization_id().0)
        .bind(seen.domains())
        .fetch_one(&state.pool)
        .await
}

/// Returns the hours in which one of these drains has a line, or logs were sent with an API key.
async fn hours_of_drains(sources: &Sources, state: &State, seen: &Visibility, period: &Period) -> Result<Vec<i64>, sqlx::Error> {
    let (from, before) = hours_of(period);
    sqlx::query_scalar(include_str!("coverage/hours.sql"))
        .bind(seen.organization_id().0)
        .bind(from)
        .bind(before)
        .bind(&sources.drains)
        .fetch_all(&state.pool)
        .await
}

/// Returns the servers whose reports cover hours, and the hours for which a drain with only one host had a line.
pub(crate) async fn servers(state: &State, tenant: Tenant, seen: &Visibility, period: &Period) -> Result<Servers, ApiError> {
    let Sources { observers, .. } = state.outcomes.with_slot(tenant, sources_of(state, seen)).await?;
    let only_host = Some(seen.own()).filter(|own| own.len() == 1).map(|own| own[0].site.domain());
    let (from, before) = hours_of(period);
    let hours = sqlx::query_as(include_str!("coverage/hours_by_host.sql"))
        .bind(seen.organization_id().0)
        .bind(from)
        .bind(before)
        .bind(only_host)
        .fetch_all(&state.pool);
    let hours: Vec<(String, i64)> = state.outcomes.with_slot(tenant, hours).await?;
    let drain_hours = hours.into_iter().filter_map(|(host, hour)| Some((Site::from_domain(&host).ok()?, hour))).collect();
    Ok(Servers { observers, drain_hours })
}

/// Covered spans, in milliseconds since 1970.
pub(crate) struct CoveredHours {
    first_ms: i64,
    covered: Vec<(i64, i64)>,
}

impl CoveredHours {
    pub(crate) fn new(coverage: &Coverage) -> Self {
        let ms = |text: &str| DateTime::parse_from_rfc3339(text).map_or(0, |at| at.timestamp_millis());
        let first_ms = coverage.spans.first().map_or(i64::MAX, |span| ms(&span.start));
        let covered = coverage.spans.iter().filter(|span| span.covered);
        Self { first_ms, covered: covered.map(|span| (ms(&span.start), ms(&span.end))).collect() }
    }

    /// Returns the number of covered hours between two times; `None` before the spans.
    pub(crate) fn within(&self, from_ms: i64, until_ms: i64) -> Option<u64> {
        let overlap = |(start, end): &(i64, i64)| (until_ms.min(*end) - from_ms.max(*start)).max(0);
        let covered: i64 = self.covered.iter().map(overlap).sum();
        (until_ms > self.first_ms).then_some((covered / HOUR_MS).unsigned_abs())
    }
}

/// Returns the full hours that overlap a period, because drains count by the hour.
fn hours_of(period: &Period) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    let instant = |hour: i64| DateTime::from_timestamp_millis(hour.saturating_mul(HOUR_MS));
    let first = period.from_ms.and_then(|ms| instant(ms.div_euclid(HOUR_MS)));
    let end = period.before_ms.and_then(|ms| instant((ms - 1).div_euclid(HOUR_MS) + 1));
    (first, end)
}

/// Splits the period into covered and uncovered spans. An open end extends to the first or last covered hour.
fn spans(period: &Period, covered: &BTreeSet<i64>) -> Coverage {
    let first = period.from_ms.map(|ms| ms.div_euclid(HOUR_MS)).or(covered.first().copied());
    let end = period.before_ms.map(|ms| (ms - 1).div_euclid(HOUR_MS) + 1).or(covered.last().map(|last| last + 1));
    let is_empty = matches!((period.from_ms, period.before_ms), (Some(from), Some(before)) if from >= before);
    let (Some(first), Some(end)) = (first, end) else { return Coverage::default() };
    let mut coverage = Coverage::default();
    let mut at = first;
    while at < end && !is_empty {
        let next = covered.range(at..end).next().copied();
        if next == Some(at) {
            let until = (at..end).find(|hour| !covered.contains(hour)).unwrap_or(end);
            at = coverage_of(&mut coverage, at, until, true);
        } else {
            at = coverage_of(&mut coverage, at, next.unwrap_or(end), false);
        }
    }
    coverage
}

/// Adds a span and returns the start of the next one.
fn coverage_of(coverage: &mut Coverage, first: i64, end: i64, covered: bool) -> i64 {
    let hours = if covered { &mut coverage.hours_covered } else { &mut coverage.hours_uncovered };
    *hours += first.abs_diff(end);
    let told =
        |hour: i64| schemas::instant::text(DateTime::from_timestamp_millis(hour.saturating_mul(HOUR_MS)).unwrap_or_default());
    coverage.spans.push(CoverageSpan { start: told(first), end: told(end), covered });
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered_spans(since: &str, until: &str, covered: &[i64]) -> (u64, u64, Vec<(String, bool)>) {
        let [since, until] = [since, until].map(|text| Some(text).filter(|text| !text.is_empty()));
        let period = Period::parse(since, until).unwrap_or_default();
        let coverage = spans(&period, &covered.iter().copied().collect());
        let span = |span: &CoverageSpan| (format!("{}-{}", &span.start[11..13], &span.end[11..13]), span.covered);
        (coverage.hours_covered, coverage.hours_uncovered, coverage.spans.iter().map(span).collect())
    }

    fn spans_of(spans: &[(&str, bool)]) -> Vec<(String, bool)> {
        spans.iter().map(|(span, covered)| ((*span).to_owned(), *covered)).collect()
    }

    #[test]
    fn counts_the_covered_hours_of_a_bucket() {
        let period = Period::parse(Some("1970-01-02"), Some("1970-01-04")).ok().unwrap();
        let hours = CoveredHours::new(&spans(&period, &[24, 25, 47, 48].into()));
        let day = |day: i64| hours.within(day * 24 * HOUR_MS, (day + 1) * 24 * HOUR_MS);
        assert_eq!([0, 1, 2, 3].map(day), [None, Some(3), Some(1), Some(0)]);
        assert_eq!([24, 26].map(|hour: i64| hours.within(hour * HOUR_MS, (hour + 1) * HOUR_MS)), [Some(1), Some(0)]);
    }

    #[test]
    fn hours_without_lines_are_not_covered() {
        let window = ("1970-01-01T00:30:00Z", "1970-01-01T06:00:00.001Z");
        let expected = spans_of(&[("00-01", false), ("01-03", true), ("03-05", false), ("05-06", true), ("06-07", false)]);
        assert_eq!(covered_spans(window.0, window.1, &[1, 2, 5, 7]), (3, 4, expected));
        assert_eq!(covered_spans(window.0, window.1, &[]), (0, 7, spans_of(&[("00-07", false)])));
    }

    #[test]
    fn truncated_spans_do_not_change_the_sums() {
        let whole = spans(&Period::default(), &(0..20).map(|hour| 2 * hour).collect());
        let short = latest(whole.clone(), 3);
        assert_eq!((short.hours_covered, short.hours_uncovered), (20, 19));
        assert_eq!(short.spans, whole.spans[whole.spans.len() - 3..]);
        assert_eq!(latest(whole.clone(), 100), whole);
    }

    #[test]
    fn open_periods_cover_all_hours_with_data() {
        assert_eq!(covered_spans("", "", &[2, 4]), (2, 1, spans_of(&[("02-03", true), ("03-04", false), ("04-05", true)])));
        assert_eq!(covered_spans("1970-01-01T01:00:00Z", "", &[2]), (1, 1, spans_of(&[("01-02", false), ("02-03", true)])));
        assert_eq!(covered_spans("", "", &[]), (0, 0, Vec::new()));
        assert_eq!(covered_spans("1970-01-01T01:00:00Z", "1970-01-01T01:00:00Z", &[1]), (0, 0, Vec::new()));
        assert_eq!(covered_spans("1970-01-01", "1970-01-01", &[]).1, 24);
    }
}
