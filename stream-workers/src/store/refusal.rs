//! What ClickHouse says when it does not take a block, and what follows from that. Pure.
//!
//! Must not call anything lasting that may pass by itself: who waits for an operator in vain waits for ever.

use crate::metrics;
use clickhouse::error::Error;

/// Longest part of ClickHouse's own words that is repeated in one line.
const MAX_SAID_CHARS: usize = 400;

/// Why a block was not taken, by what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Away, slow, shutting down, read-only: the same block is taken once that is over.
    Passing,
    /// More parts than merges keep up with: inserting less often heals it.
    Crowded,
    /// The block takes more memory than ClickHouse may use: half of it takes half.
    TooLarge,
    /// The table or the account is not what this build needs: nothing is taken until somebody mends it.
    Lasting,
}

impl Refusal {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::SchemaMismatch(_) => Self::Lasting,
            Error::BadResponse(said) => code(said).map_or(Self::Passing, Self::of_code),
            _ => Self::Passing,
        }
    }

    /// The codes of ClickHouse's `ErrorCodes.cpp`; what is not named passes.
    fn of_code(code: u32) -> Self {
        match code {
            // TOO_MANY_PARTS
            252 => Self::Crowded,
            // MEMORY_LIMIT_EXCEEDED, and a single allocation that fails
            241 | 173 => Self::TooLarge,
            // columns that are missing, or of another kind
            10 | 16 | 20 | 33 | 43 | 44 | 47 | 53 | 117 | 349 | 469 => Self::Lasting,
            // the table, the database, a setting
            60 | 81 | 115 => Self::Lasting,
            // the account
            192 | 193 | 194 | 497 | 516 => Self::Lasting,
            _ => Self::Passing,
        }
    }

    /// The label of metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Passing => metrics::PASSING,
            Self::Crowded => metrics::TOO_MANY_PARTS,
            Self::TooLarge => metrics::MEMORY,
            Self::Lasting => metrics::LASTING,
        }
    }
}

/// What to do about a refusal that lasts.
pub(crate) fn fix(error: &Error) -> &'static str {
    let Error::BadResponse(said) = error else { return "bring the columns to those of this build" };
    match code(said) {
        Some(60 | 81) => "run `telemetry stream-workers prepare`",
        Some(192..=194 | 497 | 516) => "correct the account in CLICKHOUSE_URL, or what it may do",
        _ => "run `telemetry stream-workers prepare`, and bring the columns to those of schemas/clickhouse/observations.sql",
    }
}

/// ClickHouse's words in one line of bounded length.
pub(crate) fn in_one_line(error: &Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SAID_CHARS).collect()
}

/// The number in `Code: 252. DB::Exception: …`.
fn code(said: &str) -> Option<u32> {
    let (_, rest) = said.split_once("Code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(said: &str) -> Refusal {
        Refusal::of(&Error::BadResponse(said.to_owned()))
    }

    #[test]
    fn what_passes_is_told_from_what_lasts() {
        for (code, expected) in
            [(252, Refusal::Crowded), (241, Refusal::TooLarge), (242, Refusal::Passing), (164, Refusal::Passing)]
        {
            assert_eq!(refusal(&format!("Code: {code}. DB::Exception: said. (NAME)")), expected, "{code}");
        }
        for code in [16, 47, 53, 60, 81, 497, 516] {
            assert_eq!(refusal(&format!("Code: {code}. DB::Exception: said. (NAME)")), Refusal::Lasting, "{code}");
        }
        assert_eq!(refusal("502 Bad Gateway"), Refusal::Passing);
        assert_eq!(Refusal::of(&Error::SchemaMismatch("said".to_owned())), Refusal::Lasting);
        assert_eq!(Refusal::of(&Error::TimedOut), Refusal::Passing);
    }

    #[test]
    fn a_refusal_is_one_line_whatever_clickhouse_says() {
        let said = in_one_line(&Error::BadResponse(format!("Code: 16.\nNo such\n\tcolumn {}", "x".repeat(5_000))));
        assert!(said.starts_with("bad response: Code: 16. No such column xxx") && said.len() == MAX_SAID_CHARS, "{said}");
    }
}
