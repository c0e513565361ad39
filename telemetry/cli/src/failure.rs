//! Command errors and their exit codes (docs/cli.md#exit-codes).
//!
//! Errors don't contain secrets, because they are shown in terminals and logs.

use schemas::problem::Problem;
use std::fmt;
use std::io;

/// Maximum number of listed faults; a response may contain a hundred.
const LISTED_FAULTS: usize = 20;

#[derive(Debug)]
pub(crate) enum Failure {
    /// 1: the command failed.
    Failed(String),
    /// 2: the command line, a file or a setting is invalid, and nothing was sent.
    Usage(String),
    /// 3: a credential is missing.
    NoCredential(String),
    /// 4: not found.
    Missing(String),
    /// 5: no response.
    Unreachable(String),
    /// Depends on the status: the service returned an error.
    Rejected(Box<ErrorResponse>),
    /// 0: the reader of the output closed it.
    OutputClosed,
}

#[derive(Debug)]
pub(crate) struct ErrorResponse {
    pub(crate) status: u16,
    pub(crate) problem: Option<Problem>,
    /// Seconds to wait before a retry, from `Retry-After`.
    pub(crate) retry_after: Option<u64>,
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NoCredential(_) => 3,
            Self::Missing(_) => 4,
            Self::Unreachable(_) => 5,
            Self::Rejected(refusal) => match refusal.status {
                401 | 403 => 3,
                404 => 4,
                408 | 429 | 502..=504 => 5,
                _ => 1,
            },
        }
    }

    /// Returns the error for the case that something was already sent, for which exit code 2 would be wrong.
    pub(crate) fn after_sending(self, before: &str) -> Self {
        match self {
            Self::Usage(text) => Self::Failed(format!("{text}; everything before {before} was sent")),
            other => other,
        }
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        self.code() == 5
    }

    /// Returns the number of seconds that the service asks to wait before a retry.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        if let Self::Rejected(refusal) = self { refusal.retry_after } else { None }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        if let Self::Rejected(refusal) = self { Some(refusal.status) } else { None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) | Self::Usage(text) | Self::NoCredential(text) | Self::Missing(text) | Self::Unreachable(text) => {
                f.write_str(text)
            }
            Self::Rejected(refusal) => refusal.fmt(f),
            Self::OutputClosed => Ok(()),
        }
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(problem) = &self.problem else {
            return write!(f, "the server returned status {} without an error message: check the service address", self.status);
        };
        write!(f, "{} ({})", problem.detail, self.status)?;
        if problem.detail.contains("?organization_id=") {
            f.write_str("\n  use --organization ID; `telemetry org list` shows your organizations")?;
        }
        for fault in problem.errors.iter().take(LISTED_FAULTS) {
            let place = fault.index.map(|index| format!("event {index}, ")).unwrap_or_default();
            write!(f, "\n  {place}{}: {}", fault.field, fault.detail)?;
        }
        let unlisted = problem.errors.len().saturating_sub(LISTED_FAULTS);
        if unlisted > 0 {
            write!(f, "\n  and {unlisted} more")?;
        }
        if let Some(path) = &problem.see {
            write!(f, "\n  see {path}")?;
        }
        if let Some(seconds) = self.retry_after {
            write!(f, "\n  try again in {seconds} s")?;
        }
        write!(f, "\n  request id {}", problem.request_id)
    }
}

pub(crate) fn file_error(file: &std::path::Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("{}: {}", file.display(), reason(error)))
}

/// Returns the system's message without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" (os error") {
        text.truncate(at);
    }
    text
}

/// Returns the innermost error, which names the cause.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.downcast_ref::<io::Error>().map_or_else(|| cause.to_string(), reason)
}
