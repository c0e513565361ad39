//! Decodes a record without any effect, for fuzzing.

use super::decode::decode;
use super::row::ReportRow;

/// Returns the number of reports in the bytes of a record.
///
/// # Errors
///
/// The reason on the dead letter that the record would become.
pub fn dry_run(payload: &[u8]) -> Result<usize, String> {
    Ok(ReportRow::of(decode(payload)?, (0, 0)).len())
}
