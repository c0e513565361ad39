//! Buckets of a series: those in its period. An open end extends to the first or last bucket with an event. Pure.

use crate::parameters::period::Period;
use crate::reads::BucketLength;
use chrono::DateTime;
use schemas::problem::Code;
use service_kit::http::ApiError;
use std::ops::RangeInclusive;

/// Maximum number of buckets. Events are from the year 2000 or later, so days exceed it only after a hundred years; hours and arbitrary
/// periods can exceed it.
pub(crate) const MAX_BUCKETS: i64 = 40_000;

/// Returns the buckets as numbers since 1970; `None` if the period is empty, or open without events. Returns 400 if there are too many.
pub(crate) fn for_period(
    period: &Period,
    by: BucketLength,
    held: Option<(i64, i64)>,
) -> Result<Option<RangeInclusive<i64>>, ApiError> {
    let first = period.from_ms.map(|ms| ms.div_euclid(by.ms())).or(held.map(|(first, _)| first));
    let last = period.before_ms.map(|ms| (ms - 1).div_euclid(by.ms())).or(held.map(|(_, last)| last));
    let is_empty = matches!((period.from_ms, period.before_ms), (Some(from), Some(before)) if from >= before);
    let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
    if is_empty || last < first {
        return Ok(None);
    }
    let count = last - first + 1;
    if count > MAX_BUCKETS {
        let detail = format!(
            "The series would have {count} buckets; the maximum is {MAX_BUCKETS}. Use by=day, or a shorter period with since and until."
        );
        return Err(ApiError::new(Code::InvalidParameter, detail));
    }
    Ok(Some(first..=last))
}

/// Returns a bucket's start in the time format of responses.
pub(crate) fn start(bucket: i64, by: BucketLength) -> String {
    schemas::instant::text(DateTime::from_timestamp_millis(bucket * by.ms()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(since: &str, until: &str, by: BucketLength, held: Option<(i64, i64)>) -> Option<Vec<String>> {
        let [since, until] = [since, until].map(|text| Some(text).filter(|text| !text.is_empty()));
        let period = Period::parse(since, until).ok().unwrap();
        let buckets = for_period(&period, by, held).ok()?;
        Some(buckets.map(|buckets| buckets.map(|bucket| start(bucket, by)).collect()).unwrap_or_default())
    }

    #[test]
    fn returns_every_bucket_that_overlaps_the_period() {
        let days = found("2026-03-28", "2026-03-30", BucketLength::Day, None).unwrap();
        assert_eq!(days, ["2026-03-28T00:00:00.000Z", "2026-03-29T00:00:00.000Z", "2026-03-30T00:00:00.000Z"]);
        let cut = found("2026-01-01T23:59:59.999Z", "2026-01-02T01:00:00.001Z", BucketLength::Hour, None).unwrap();
        assert_eq!(cut, ["2026-01-01T23:00:00.000Z", "2026-01-02T00:00:00.000Z", "2026-01-02T01:00:00.000Z"]);
        let whole = found("2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z", BucketLength::Hour, None).unwrap();
        assert_eq!(whole, ["2026-01-02T00:00:00.000Z"]);
        assert_eq!(
            found("1969-12-31T23:30:00Z", "1969-12-31T23:40:00Z", BucketLength::Hour, None).unwrap(),
            ["1969-12-31T23:00:00.000Z"]
        );
    }

    #[test]
    fn open_periods_end_at_the_last_event() {
        assert_eq!(
            found("", "", BucketLength::Day, Some((0, 1))).unwrap(),
            ["1970-01-01T00:00:00.000Z", "1970-01-02T00:00:00.000Z"]
        );
        assert_eq!(found("1970-01-02", "", BucketLength::Day, Some((2, 2))).unwrap().len(), 2);
        assert_eq!(found("", "1970-01-05", BucketLength::Day, Some((2, 2))).unwrap().len(), 3);
        for (since, until) in [("", ""), ("1970-01-02", ""), ("", "1970-01-02")] {
            assert_eq!(found(since, until, BucketLength::Day, None).unwrap(), Vec::<String>::new(), "{since} {until}");
        }
        assert_eq!(
            found("1970-01-02T05:00:00Z", "1970-01-02T05:00:00Z", BucketLength::Hour, None).unwrap(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn rejects_too_many_buckets() {
        assert_eq!(found("0001-01-01", "9999-12-31", BucketLength::Day, None), None);
        assert_eq!(found("2000-01-01", "2005-01-01", BucketLength::Hour, None), None);
        assert_eq!(found("", "", BucketLength::Hour, Some((0, MAX_BUCKETS))), None);
        assert_eq!(found("", "", BucketLength::Hour, Some((1, MAX_BUCKETS))).unwrap().len(), 40_000);
        assert!(found("2000-01-01", "2109-01-01", BucketLength::Day, None).is_some());
    }
}
