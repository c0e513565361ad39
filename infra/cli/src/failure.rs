//! Why a command did not do what it was asked to, and the exit code that says so (docs/cli.md#exit-codes).
//!
//! Must not hold a secret: what is said here goes to the terminal and into the logs of whoever runs the command.

use schemas::problem::Problem;
use std::fmt::{self, Write};
use std::io;

/// Faults of one request that are listed; the answer may hold a hundred.
const LISTED_FAULTS: usize = 20;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// 1: it was tried and is not so.
    Failed(String),
    /// 2: the command line, a file or a setting cannot be used; nothing was sent.
    Usage(String),
    /// 3: there is no credential for it.
    NoCredential(String),
    /// 4: there is no such thing.
    Missing(String),
    /// 5: nobody answered.
    Unreachable(String),
    /// By its status: what the service answered.
    Refused(Box<Refusal>),
    /// 0: whoever reads the output has seen enough.
    Closed,
}

/// An answer that is an error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) problem: Option<Problem>,
    /// Seconds after which to try again, where the answer says so.
    pub(crate) retry_after: Option<u64>,
}

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NoCredential(_) => 3,
            Self::Missing(_) => 4,
            Self::Unreachable(_) => 5,
            Self::Refused(refusal) => match refusal.status {
                401 | 403 => 3,
                404 => 4,
                408 | 429 | 502..=504 => 5,
                _ => 1,
            },
        }
    }

    /// The same, found after something was sent: the exit code that says otherwise would be wrong.
    pub(crate) fn after_sending(self, before: &str) -> Self {
        match self {
            Self::Usage(text) => Self::Failed(format!("{text}; lines before {before} were sent")),
            other => other,
        }
    }

    /// Whether the same may go well later.
    pub(crate) fn is_passing(&self) -> bool {
        self.code() == 5
    }

    /// Seconds that the service asks for before the next try.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        if let Self::Refused(refusal) = self { refusal.retry_after } else { None }
    }

    /// The status of the answer, where there was one.
    pub(crate) fn status(&self) -> Option<u16> {
        if let Self::Refused(refusal) = self { Some(refusal.status) } else { None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) | Self::Usage(text) | Self::NoCredential(text) | Self::Missing(text) | Self::Unreachable(text) => {
                f.write_str(text)
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Closed => Ok(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(problem) = &self.problem else {
            return write!(
                f,
                "the server answered {} and nothing that this program can read; is the address right?",
                self.status
            );
        };
        write!(f, "{} ({})", problem.detail, self.status)?;
        if problem.detail.contains("?organization_id=") {
            f.write_str("\n  here by --organization ID; `telemetry org list` shows yours")?;
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

/// A fault of a file, with its name.
pub(crate) fn of_file(file: &std::path::Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("{}: {}", file.display(), reason(error)))
}

/// What the system says, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" (os error") {
        text.truncate(at);
    }
    text
}

/// An error with those beneath it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        let said = error.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        inner = error.source();
    }
    text
}
