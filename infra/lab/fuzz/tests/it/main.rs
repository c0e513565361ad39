//! The fuzz targets on every run, bounded by a number of inputs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fuzzed;
