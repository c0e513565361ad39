//! The hours of which servers tell (docs/api/reads.md#get-content-ownerscoverage).

use serde::{Deserialize, Serialize};

/// The hours of a window: those in which a server has told of anything, and those of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    pub hours_covered: u64,
    /// Hours of which none does: what they held is not known, and no figure of theirs is a zero.
    pub hours_uncovered: u64,
    /// Both in turn, from the first hour to the last.
    pub spans: Vec<CoverageSpan>,
}

/// Hours in a row that are all covered, or all not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageSpan {
    pub start: String,
    pub end: String,
    pub covered: bool,
}
