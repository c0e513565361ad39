//! What a read is asked for: which time, which part of a list, and where a walk goes on. Pure.

pub(crate) mod period;
pub(crate) mod paging;
pub(crate) mod cursor;
pub(crate) mod event_filter;
pub(crate) mod pages;

use period::Period;
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::ApiError;

pub(crate) use service_kit::http::sort;

/// What every read of an owner supports.
const VIEW: [&str; 3] = ["domain", "delegated_from", "seen_by"];

/// The parameters of all reads as given, so that each read can refuse those of others. Numbers are texts, so that each fault has its
/// own sentence.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ReadParameters {
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    /// One of the owner's domains.
    pub(crate) domain: Option<String>,
    /// The owner who lets the caller read.
    pub(crate) delegated_from: Option<String>,
    /// The partner as whom an owner looks.
    pub(crate) seen_by: Option<String>,
    pub(crate) limit: Option<String>,
    pub(crate) offset: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) by: Option<String>,
    pub(crate) split: Option<String>,
    pub(crate) sort: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) agent_id: Option<String>,
    pub(crate) platform_id: Option<String>,
    pub(crate) reported_by: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) outcome: Option<String>,
}

impl ReadParameters {
    /// Refuses parameters that only other reads support: whoever narrows or splits a read by one must not be answered as if nothing had
    /// been said. Parameters that no read supports are ignored.
    pub(crate) fn refuse_others(&self, supported: &[&str]) -> Result<(), ApiError> {
        let given = [
            ("domain", &self.domain),
            ("delegated_from", &self.delegated_from),
            ("seen_by", &self.seen_by),
            ("limit", &self.limit),
            ("offset", &self.offset),
            ("after", &self.after),
            ("by", &self.by),
            ("split", &self.split),
            ("sort", &self.sort),
            ("event_type", &self.event_type),
            ("agent_id", &self.agent_id),
            ("platform_id", &self.platform_id),
            ("reported_by", &self.reported_by),
            ("path", &self.path),
            ("outcome", &self.outcome),
        ];
        match given.iter().find(|(name, value)| value.is_some() && !supported.contains(name)) {
            Some((name, _)) => Err(invalid(format!("{name} is not supported here."))),
            None => Ok(()),
        }
    }

    /// The same for reads of owners, which support some more.
    pub(crate) fn refuse_others_of_owner(&self, supported: &[&str]) -> Result<(), ApiError> {
        self.refuse_others(&[&VIEW[..], supported].concat())
    }

    pub(crate) fn period(&self) -> Result<Period, ApiError> {
        Period::parse(self.since.as_deref(), self.until.as_deref())
    }
}

pub(crate) fn invalid(detail: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidParameter, detail)
}
