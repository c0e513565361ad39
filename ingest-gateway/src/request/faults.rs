//! Collects the broken rules that a response lists.

use schemas::problem::{Code, Fault};
use service_kit::http::ApiError;

const MAX_LISTED: usize = 100;

/// Fault code for a repeated member (docs/api/http.md#bodies).
pub(crate) const REPEATED: &str = "repeated";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Member(pub(crate) &'static str);

/// Faults found so far. Faults added after [`Faults::enter`] belong to that event.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    index: Option<usize>,
    found: Vec<Fault>,
}

impl Faults {
    /// Assigns the following faults to the event at `index`.
    pub(crate) fn enter(&mut self, index: usize) {
        self.index = Some(index);
    }

    pub(crate) fn leave(&mut self) {
        self.index = None;
    }

    /// Adds a fault, unless it is already listed.
    pub(crate) fn add(&mut self, Member(field): Member, code: &'static str, detail: impl Into<String>) {
        let is_listed = |fault: &Fault| fault.index == self.index && fault.field == field && fault.code == code;
        if self.found.len() < MAX_LISTED && !self.found.iter().any(is_listed) {
            self.found.push(Fault { index: self.index, field: field.to_owned(), code: code.to_owned(), detail: detail.into() });
        }
    }

    /// Like [`Self::add`], and returns `None`.
    pub(crate) fn reject<T>(&mut self, member: Member, code: &'static str, detail: impl Into<String>) -> Option<T> {
        self.add(member, code, detail);
        None
    }

    /// Returns an error that lists the faults in event order, if there are any.
    pub(crate) fn into_result(self) -> Result<(), ApiError> {
        self.into_result_as(Code::InvalidEvent)
    }

    /// Like [`Self::into_result`], with another error code.
    pub(crate) fn into_result_as(mut self, code: Code) -> Result<(), ApiError> {
        self.found.sort_by_key(|fault| fault.index);
        // A repeated member makes the document ambiguous, so its code takes precedence over other faults.
        let is_ambiguous = self.found.iter().any(|fault| fault.code == REPEATED);
        let code = if is_ambiguous { Code::InvalidBody } else { code };
        if self.found.is_empty() { Ok(()) } else { Err(ApiError::faults(code, self.found)) }
    }

    /// Returns every fault as `index.field:code`, in the order found.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<String> {
        let place = |index: Option<usize>| index.map(|index| format!("{index}.")).unwrap_or_default();
        self.found.iter().map(|fault| format!("{}{}:{}", place(fault.index), fault.field, fault.code)).collect()
    }
}
