//! The hours with server data (docs/api/reads.md#get-content-ownerscoverage).

use serde::{Deserialize, Serialize};

/// The hours of a period, with and without server data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    pub hours_covered: u64,
    /// Hours without data. Their figures are unknown, not zero.
    pub hours_uncovered: u64,
    /// Alternating spans with and without data, from the first hour to the last.
    pub spans: Vec<CoverageSpan>,
}

/// Consecutive hours with the same coverage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageSpan {
    pub start: String,
    pub end: String,
    pub covered: bool,
}
