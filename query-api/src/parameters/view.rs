//! For whom, as whom and where a content owner's figures are looked at.

use serde::Deserialize;

/// As they were asked for; beside the parameters of every read, so that those that have no such choice can refuse it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ViewParameters {
    /// One of the owner's domains.
    pub(crate) domain: Option<String>,
    /// The owner who lets the caller read.
    pub(crate) delegated_from: Option<String>,
    /// The partner as whom an owner looks.
    pub(crate) seen_by: Option<String>,
}

impl ViewParameters {
    pub(crate) fn given(&self) -> [(&'static str, Option<&String>); 3] {
        [("domain", self.domain.as_ref()), ("delegated_from", self.delegated_from.as_ref()), ("seen_by", self.seen_by.as_ref())]
    }
}
