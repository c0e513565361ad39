//! Common parts of requests: JSON objects with known members, scopes, and pages of lists (`paging`).

pub(crate) mod paging;

use crate::request::request_slot::{self, RequestSlots};
use axum::body::Body;
use axum::http::Request;
use schemas::identity::Scope;
use schemas::problem::{Code, Fault};
use service_kit::http::{ApiError, BodyLimits, BodyReader};
pub(crate) use service_kit::http::{parse_array as array, parse_object as object};

/// Reads bodies. A request gets a slot only after its body has arrived, and its credential is then looked up again.
pub(crate) struct Bodies {
    reader: BodyReader,
    slots: RequestSlots,
}

impl Bodies {
    pub(crate) fn new(limits: BodyLimits, slots: RequestSlots) -> Self {
        Self { reader: BodyReader::new(limits), slots }
    }

    /// Like [`BodyReader::read`].
    pub(crate) async fn read(&self, request: Request<Body>) -> Result<Vec<u8>, ApiError> {
        request_slot::without_slot(&self.slots, self.reader.read(request)).await?
    }

    /// Like [`BodyReader::read_form`].
    pub(crate) async fn read_form(&self, request: Request<Body>) -> Result<Vec<u8>, ApiError> {
        request_slot::without_slot(&self.slots, self.reader.read_form(request)).await?
    }
}

/// Returns the named scopes, sorted and without duplicates; `default` if `names` is missing.
pub(crate) fn scopes(names: Option<Vec<String>>, known: &[Scope], default: &[Scope]) -> Result<Vec<Scope>, Fault> {
    let Some(names) = names else { return Ok(default.to_vec()) };
    let mut scopes = Vec::with_capacity(names.len());
    for name in names {
        let Some(scope) = name.parse().ok().filter(|scope| known.contains(scope)) else {
            let known: Vec<&str> = known.iter().map(|scope| scope.as_str()).collect();
            return Err(fault("scopes", format!("scopes must contain only: {}; {name:?} is unknown", known.join(", "))));
        };
        scopes.push(scope);
    }
    if scopes.is_empty() {
        return Err(fault("scopes", "scopes must contain at least one scope"));
    }
    scopes.sort_unstable();
    scopes.dedup();
    Ok(scopes)
}

pub(crate) fn fault(field: &str, detail: impl Into<String>) -> Fault {
    Fault { index: None, field: field.to_owned(), code: "invalid".to_owned(), detail: detail.into() }
}

/// Returns 422 for one fault.
pub(crate) fn refuse(fault: Fault) -> ApiError {
    ApiError::faults(Code::InvalidRequest, vec![fault])
}

pub(crate) fn rule_broken(field: &str, detail: impl Into<String>) -> ApiError {
    refuse(fault(field, detail))
}
