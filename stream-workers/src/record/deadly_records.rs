//! Crashes the worker on records that request it, if compiled with the feature `deadly-records`, as in tests.

const IS_ENABLED: bool = cfg!(feature = "deadly-records");

/// Aborts or panics if the record requests it.
pub(crate) fn while_decoding(payload: &[u8]) {
    let says = |what: &[u8]| IS_ENABLED && payload.windows(what.len()).any(|part| part == what);
    if says(b"deadly-record:abort") {
        std::process::abort();
    }
    assert!(!says(b"deadly-record:panic"), "the record requested a panic");
}

/// Panics if a report's URL requests it.
pub(crate) fn while_merging(url: &str) {
    assert!(!IS_ENABLED || !url.contains("deadly-report:panic"), "the report requested a panic");
}
