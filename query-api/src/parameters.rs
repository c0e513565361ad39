//! Parameters of the reads: period, paging, cursors and filters. Pure.

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

/// Parameters that all reads of owners support.
const VIEW: [&str; 3] = ["domain", "delegated_from", "seen_by"];

/// The parameters of all reads as given, so that each read can reject those of others. Numbers are texts, so that each invalid
/// one gets its own error.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ReadParameters {
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    /// One of the owner's domains.
    pub(crate) domain: Option<String>,
    /// The content owner that shares data with the caller.
    pub(crate) delegated_from: Option<String>,
    /// The partner whose view the owner requests.
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
    /// Rejects parameters that only other reads support: a filter that is ignored would return wrong figures. Parameters that
    /// no read supports are ignored.
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

    /// Like [`Self::refuse_others`], and accepts the parameters that all reads of owners support.
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
