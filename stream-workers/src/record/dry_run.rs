//! Consuming without its effects: what a record's bytes would become, or why they would be a dead letter.
//!
//! Must stay the path that records take, minus everything with state: it is what fuzzing enters.

use super::decode::decode;
use super::fold::fold;
use super::row::ObservationRow;

/// How many observations a record's bytes hold, or the reason on the dead letter.
pub fn dry_run(payload: &[u8]) -> Result<usize, String> {
    Ok(fold(ObservationRow::of(decode(payload)?, (0, 0))).rows.len())
}
