//! The list of broken rules that one answer carries.
//!
//! Must not stop at the first.

use schemas::problem::{Code, Fault};
use service_kit::http::ApiError;

/// Most faults one answer lists.
const MAX_LISTED: usize = 100;

/// Where a fault lies, by member name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member(pub(crate) &'static str);

/// Faults found so far; those added after [`Faults::enter`] belong to that event.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    index: Option<usize>,
    found: Vec<Fault>,
    total: usize,
}

impl Faults {
    /// The following faults are of the event at `index`.
    pub(crate) fn enter(&mut self, index: usize) {
        self.index = Some(index);
    }

    pub(crate) fn add(&mut self, Member(field): Member, code: &'static str, detail: impl Into<String>) {
        self.total += 1;
        if self.found.len() < MAX_LISTED {
            self.found.push(Fault { index: self.index, field: field.to_owned(), code: code.to_owned(), detail: detail.into() });
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.total
    }

    pub(crate) fn into_result(self) -> Result<(), ApiError> {
        if self.found.is_empty() { Ok(()) } else { Err(ApiError::faults(Code::InvalidEvent, self.found)) }
    }
}
