//! Decodes a record's bytes, without I/O, so that a test can reproduce a bad record from its bytes.
//!
//! Never panics. Rejects values that a table would reject or clamp.

use chrono::Datelike as _;
use schemas::log::{LogRecord, RECORD_VERSION};
use schemas::session::SessionReport;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Range of milliseconds UTC that a `DateTime64` column stores without clamping: 1900 to 2299, without some months at both ends.
const STORABLE_MS: RangeInclusive<i64> = -2_200_000_000_000..=10_400_000_000_000;
/// Range of microseconds UTC that fits into the 52 bits of the `received` column: 1970 to 2112.
const STORABLE_US: RangeInclusive<i64> = 0..=4_503_599_627_370_495;

/// The earliest year of a session. PostgreSQL's calendar starts a few years earlier.
const EARLIEST_YEAR: i32 = -4_700;

/// Decodes one record.
///
/// # Errors
///
/// Returns the reason for the dead letter that the record becomes.
pub(crate) fn decode(payload: &[u8]) -> Result<LogRecord, String> {
    super::deadly_records::while_decoding(payload);
    let record: LogRecord = serde_json::from_slice(payload).map_err(|error| format!("not a record: {error}"))?;
    if record.v == 0 {
        return Err("record version 0 is invalid: versions start at 1".to_owned());
    }
    if record.v > RECORD_VERSION {
        return Err(format!("record version {} is newer than this worker's {RECORD_VERSION}", record.v));
    }
    if !STORABLE_US.contains(&record.received_at_us) {
        return Err(format!("received_at_us {} is out of range", record.received_at_us));
    }
    let events = record.events.iter().map(|event| event.at_ms);
    let mut times = events.chain(record.failed_fetches.iter().map(|fetch| fetch.at_ms));
    if let Some(at_ms) = times.find(|at_ms| !STORABLE_MS.contains(at_ms)) {
        return Err(format!("at_ms {at_ms} is out of range"));
    }
    if let Some(report) = record.named_sessions.iter().find(|report| !is_storable(report)) {
        return Err(format!("the report of session {} cannot be stored", report.session_id));
    }
    Ok(record)
}

/// Returns whether PostgreSQL can store the report: its strings don't contain NUL, and its times aren't before PostgreSQL's calendar
/// starts.
fn is_storable(report: &SessionReport) -> bool {
    let texts = [&report.parent_session_id, &report.manifest_ref, &report.agent_id];
    texts.into_iter().flatten().all(|text| !text.contains('\0')) && report.started_at.is_none_or(|at| at.year() >= EARLIEST_YEAR)
}

/// Runs code that reads a record. A panic becomes an error, the reason for the record's dead letter.
pub(crate) fn guarded<T>(look: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err("decoding panicked; see the worker's log".to_owned()))
}

/// Returns the apparent number of events in an undecodable record; 0 without a list of events.
pub(crate) fn count_events(payload: &[u8]) -> usize {
    #[derive(serde::Deserialize)]
    struct Events {
        events: Vec<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Events>(payload).map_or(0, |record| record.events.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::new_report::NewReport;
    use schemas::event::SourceRole;
    use schemas::event_key::EventKey;
    use schemas::ids::OrgId;

    fn report(text: &str) -> NewReport {
        let mut reports = NewReport::from_record(decode(text.as_bytes()).unwrap(), (0, 0));
        assert_eq!(reports.len(), 1);
        reports.remove(0)
    }

    const CORRELATION: &str = r#""correlation_key":"0000000000000000000000000000000b","#;
    const GOOD: &str = r#"{"v":1,"org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events",
        "events":[{"own_key":"0000000000000000000000000000000a","correlation_key":"0000000000000000000000000000000b","type":"content_retrieved","at_ms":1790000000000,
        "source_role":"edge","site":"com.example","content_url":"https://example.com/","data":{"n":1.10}}]}"#;

    #[test]
    fn record_becomes_one_report_per_event() {
        let NewReport { report, event, .. } = report(GOOD);
        let shared = EventKey::shared("com.example", EventKey(11));
        assert_eq!((report.shared_key, report.observer.role), (Some(shared), Some(SourceRole::Edge)));
        assert_eq!((report.accepted.at_us, event.data.unwrap().get()), (1_790_000_000_000_000, r#"{"n":1.10}"#));
    }

    #[test]
    fn only_events_with_a_correlation_id_have_a_shared_key() {
        let report = report(&GOOD.replace(CORRELATION, "")).report;
        let identity = EventKey::for_report(OrgId(uuid::Uuid::from_u128(1)), "com.example", EventKey(10));
        assert_eq!((report.shared_key, report.accepted.identity), (None, identity));
    }

    #[test]
    fn invalid_records_return_a_reason() {
        let newer = GOOD.replace("\"v\":1", &format!("\"v\":{}", RECORD_VERSION + 1));
        let none = GOOD.replace("\"v\":1", "\"v\":0");
        let early = GOOD.replace("1790000000000000", "-1");
        let late = GOOD.replace("\"at_ms\":1790000000000", "\"at_ms\":99999999999999");
        let failed = r#""failed_fetches":[{"own_key":"0000000000000000000000000000000a","at_ms":99999999999999,"path":"/","bot":"b",
            "operator":"o","purpose":"user","status":404}],"events""#;
        let late_failure = GOOD.replace("\"events\":[", &format!("{failed}:["));
        // One bad event rejects its whole record, because a batch is visible completely or not at all.
        let mixed = GOOD
            .replace("\"events\":[", "\"events\":[{\"own_key\":\"not hexadecimal\",\"type\":\"content_retrieved\",\"at_ms\":0},");
        for bad in ["", "{}", "[]", "\u{0}", &newer, &none, &early, &late, &late_failure, &mixed, &GOOD[..GOOD.len() - 1]] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(decode(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn counts_events_of_rejected_records() {
        let newer = format!("\"v\":{}", RECORD_VERSION + 1);
        let two = GOOD.replace("\"v\":1", &newer).replace("\"events\":[", "\"events\":[{\"own_key\":5},");
        for (payload, events) in [(two.as_str(), 2), ("{\"events\":[]}", 0), ("{\"events\":7}", 0), ("nothing", 0)] {
            assert_eq!(count_events(payload.as_bytes()), events, "{payload}");
        }
    }
}
