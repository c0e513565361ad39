//! Runs the fuzz targets as tests, with a limited number of inputs.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod fuzzed;
