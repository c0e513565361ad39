//! Read parameters: period, paging, cursors and filters. Pure.

pub(crate) mod period;
pub(crate) mod paging;
pub(crate) mod cursor;
pub(crate) mod event_filter;

use event_filter::FILTERS;
use period::Period;
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::BTreeMap;

pub(crate) use service_kit::http::sort;

/// Parameters of all reads of organizations. Authentication checks `organization_id`.
const PERIOD: [&str; 3] = ["since", "until", "organization_id"];
/// Parameters of all reads of owners.
const VIEW: [&str; 3] = ["domain", "delegated_from", "seen_by"];
/// Maximum length of a parameter name in an error.
const MAX_NAME: usize = 64;

/// A read's parameters by name, as given. Each read rejects those it doesn't support.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<(String, String)>")]
pub(crate) struct ReadParameters(BTreeMap<String, String>);

impl TryFrom<Vec<(String, String)>> for ReadParameters {
    type Error = &'static str;

    fn try_from(given: Vec<(String, String)>) -> Result<Self, Self::Error> {
        let count = given.len();
        let by_name = BTreeMap::from_iter(given);
        if by_name.len() == count { Ok(Self(by_name)) } else { Err("a parameter is repeated") }
    }
}

impl ReadParameters {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Rejects all other parameters, because ignoring a filter would return wrong figures.
    pub(crate) fn reject_unsupported(&self, supported: &[&str]) -> Result<(), ApiError> {
        match self.0.keys().find(|name| !supported.contains(&name.as_str())) {
            Some(name) => Err(invalid(format!("{} is not supported here.", name.chars().take(MAX_NAME).collect::<String>()))),
            None => Ok(()),
        }
    }

    /// Like [`Self::reject_unsupported`], but also accepts the parameters that all reads of organizations support.
    pub(crate) fn reject_unsupported_of_organization(&self, supported: &[&str]) -> Result<(), ApiError> {
        self.reject_unsupported(&[&PERIOD[..], supported].concat())
    }

    /// Like [`Self::reject_unsupported_of_organization`], but also accepts the parameters that all reads of owners support.
    pub(crate) fn reject_unsupported_by_owners(&self, supported: &[&str]) -> Result<(), ApiError> {
        self.reject_unsupported_of_organization(&[&VIEW[..], supported].concat())
    }

    /// Like [`Self::reject_unsupported_by_owners`], but also accepts all filters.
    pub(crate) fn reject_unsupported_by_filtered(&self, supported: &[&str]) -> Result<(), ApiError> {
        self.reject_unsupported_by_owners(&[&FILTERS[..], supported].concat())
    }

    pub(crate) fn period(&self) -> Result<Period, ApiError> {
        Period::parse(self.get("since"), self.get("until"))
    }
}

#[cfg(test)]
impl ReadParameters {
    pub(crate) fn new<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(given.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

pub(crate) fn invalid(detail: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidParameter, detail)
}
