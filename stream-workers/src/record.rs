//! Decodes records into reports. Pure: `resolve` looks up what the gateway could not.

pub(crate) mod decode;
pub(crate) mod new_report;
pub(crate) mod deadly_records;

/// Decodes a record without any effect, for fuzzing; returns the number of its reports.
///
/// # Errors
///
/// The reason on the dead letter that the record would become.
pub fn dry_run(payload: &[u8]) -> Result<usize, String> {
    Ok(new_report::NewReport::of(decode::decode(payload)?, (0, 0)).len())
}
