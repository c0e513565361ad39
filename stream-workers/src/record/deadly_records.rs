//! Records that break the worker on purpose. Compiled in under the feature `deadly-records`, which only tests have.
//!
//! Must do nothing to a record that does not ask for it.

/// Dies, or panics, over a record that says so.
pub(crate) fn while_decoding(payload: &[u8]) {
    let says = |what: &[u8]| payload.windows(what.len()).any(|part| part == what);
    if says(b"deadly-record:abort") {
        std::process::abort();
    }
    assert!(!says(b"deadly-record:panic"), "a record asked for a panic");
}

/// Panics over a report whose URL says so.
pub(crate) fn while_merging(url: &str) {
    assert!(!url.contains("deadly-report:panic"), "a report asked for a panic");
}
