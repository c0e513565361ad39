//! The list of broken rules that one answer carries.

use schemas::problem::{Code, Fault};
use service_kit::http::ApiError;

const MAX_LISTED: usize = 100;

/// The fault of a member that is read and stands twice (docs/api/http.md#bodies).
pub(crate) const REPEATED: &str = "repeated";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Member(pub(crate) &'static str);

/// Faults found so far; those added after [`Faults::enter`] belong to that event.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    index: Option<usize>,
    found: Vec<Fault>,
}

impl Faults {
    /// The following faults are of the event at `index`.
    pub(crate) fn enter(&mut self, index: usize) {
        self.index = Some(index);
    }

    pub(crate) fn leave(&mut self) {
        self.index = None;
    }

    /// Two rules may find the same: it is listed once.
    pub(crate) fn add(&mut self, Member(field): Member, code: &'static str, detail: impl Into<String>) {
        let is_listed = |fault: &Fault| fault.index == self.index && fault.field == field && fault.code == code;
        if self.found.len() < MAX_LISTED && !self.found.iter().any(is_listed) {
            self.found.push(Fault { index: self.index, field: field.to_owned(), code: code.to_owned(), detail: detail.into() });
        }
    }

    /// The same, for a member that then reads as absent.
    pub(crate) fn none<T>(&mut self, member: Member, code: &'static str, detail: impl Into<String>) -> Option<T> {
        self.add(member, code, detail);
        None
    }

    /// Nothing, or the error that lists what was found, in the order of the events.
    pub(crate) fn into_result(self) -> Result<(), ApiError> {
        self.into_result_as(Code::InvalidEvent)
    }

    /// The same under another code.
    pub(crate) fn into_result_as(mut self, code: Code) -> Result<(), ApiError> {
        self.found.sort_by_key(|fault| fault.index);
        // A member that stands twice has no meaning at all, whatever rules the rest breaks.
        let is_ambiguous = self.found.iter().any(|fault| fault.code == REPEATED);
        let code = if is_ambiguous { Code::InvalidBody } else { code };
        if self.found.is_empty() { Ok(()) } else { Err(ApiError::faults(code, self.found)) }
    }

    /// Every fault as `index.field:code`, in the order of their finding.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<String> {
        let place = |index: Option<usize>| index.map(|index| format!("{index}.")).unwrap_or_default();
        self.found.iter().map(|fault| format!("{}{}:{}", place(fault.index), fault.field, fault.code)).collect()
    }
}
