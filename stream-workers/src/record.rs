//! Decodes records into reports, without I/O. `resolve` looks up what the gateway could not look up.

pub(crate) mod decode;
pub(crate) mod new_report;
pub(crate) mod deadly_records;

/// Decodes a record without side effects, for fuzzing. Returns the number of its reports.
///
/// # Errors
///
/// Returns the reason for the dead letter that the record would become.
pub fn dry_run(payload: &[u8]) -> Result<usize, String> {
    Ok(new_report::NewReport::from_record(decode::decode(payload)?, (0, 0)).len())
}
