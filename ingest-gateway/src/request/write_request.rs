//! Reads the object in a request body. Every write endpoint starts here.

use super::body_memory::out_of_memory_error;
use super::cpu_permits::ReceivedBody;
use super::raw_json::{MAX_BODY_LEVELS, RawObject, as_array, as_str, depth, require_clean_text};
use super::report_signature::{self, PendingSignature};
use crate::State;
use crate::validate::{Faults, Member};
use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, header};
use schemas::event::MAX_STRING_BYTES;
use schemas::problem::Code;
use serde_json::value::RawValue;
use service_kit::auth::{Caller, Reporter};
use service_kit::http::{ApiError, RequestId};
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The only supported version besides `1.x`.
const OLD_VERSION: &str = "0.1";

/// Upload time after which the key is checked again, because it may have been revoked in the meantime.
const RECHECK_AFTER: Duration = Duration::from_millis(100);

pub(crate) struct WriteRequest {
    pub(crate) body: ReceivedBody,
    pub(crate) request_id: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) signature: PendingSignature,
}

impl WriteRequest {
    /// Reads a report and checks its signature.
    pub(crate) async fn read(state: &State, caller: &Caller, request: Request<Body>) -> Result<Self, ApiError> {
        let is_signed = report_signature::is_signed(request.headers());
        let (mut read, parts, sha256) = Self::read_body(state, caller, request, is_signed).await?;
        let sha256 = async || match sha256 {
            Some(sha256) => sha256,
            None => state.cpu_permits.run(&read.body, |turn| Sha256::digest(read.body.read(turn)).into()).await,
        };
        read.signature = report_signature::check(state, caller, &parts, sha256).await?;
        Ok(read)
    }

    /// Like [`Self::read`], but for requests that aren't reports and need no signature.
    pub(crate) async fn read_unsigned(state: &State, caller: &Caller, request: Request<Body>) -> Result<Self, ApiError> {
        Self::read_body(state, caller, request, false).await.map(|(read, ..)| read)
    }

    /// Checks the caller's rate, reads the body within the limits, and spends it from the caller's budget. If asked to, returns the
    /// SHA-256 of a compressed body as sent.
    async fn read_body(
        state: &State,
        caller: &Caller,
        request: Request<Body>,
        is_digested: bool,
    ) -> Result<(Self, Parts, Option<[u8; 32]>), ApiError> {
        state.rates.admit(caller.key_id, caller.org_id)?;
        let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
        let idempotency_key = idempotency_key(request.headers())?;
        let mut room = state.body_memory.reserve(caller.tenant()).map_err(out_of_memory_error)?;
        let ((mut parts, body), began) = (request.into_parts(), Instant::now());
        let (admit, turn) = (|bytes| room.grow_to(bytes).map_err(out_of_memory_error), state.cpu_permits.wait(caller.tenant()));
        let (bytes, sha256) = state.bodies.read_admitted(&parts.headers, body, admit, turn, is_digested).await?;
        if began.elapsed() > RECHECK_AFTER {
            Reporter::from_request_parts(&mut parts, state).await?;
        }
        let body = ReceivedBody::new(room, bytes);
        state.write_budgets.spend(state, caller, 1, body.len()).await?;
        Ok((Self { body, request_id, idempotency_key, signature: PendingSignature::default() }, parts, sha256))
    }

    /// Like [`Self::read`], but the body and its content type may be missing.
    pub(crate) async fn read_optional(state: &State, caller: &Caller, mut request: Request<Body>) -> Result<Self, ApiError> {
        let is_empty = request.headers().get(header::CONTENT_LENGTH).is_none_or(|length| length == "0")
            && !request.headers().contains_key(header::TRANSFER_ENCODING);
        if is_empty {
            let json = header::HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        Self::read(state, caller, request).await
    }
}

/// Returns a 400 whose detail contains this reason.
pub(crate) fn invalid(why: impl std::fmt::Display) -> ApiError {
    ApiError::new(Code::InvalidBody, format!("Invalid body: {why}."))
}

/// Returns 400 if one of these members is repeated, because parsers disagree on which one counts.
pub(crate) fn require_once(object: &RawObject<'_>, known: &[&'static str]) -> Result<(), ApiError> {
    object.first_repeated(known).map_or(Ok(()), |name| Err(invalid(format!("{name} is repeated"))))
}

pub(crate) fn as_text(body: &[u8]) -> Result<&str, ApiError> {
    std::str::from_utf8(body).map_err(|_| invalid("it is not UTF-8"))
}

pub(crate) fn read_object(body: &[u8]) -> Result<RawObject<'_>, ApiError> {
    as_object(as_text(body)?)
}

/// Parses an object and checks that every store accepts its strings. Rejects bodies that are nested too deeply.
pub(crate) fn as_object(text: &str) -> Result<RawObject<'_>, ApiError> {
    let object = RawObject::parse(text).map_err(invalid)?;
    require_clean_text(text).map_err(invalid)?;
    let mut faults = Faults::default();
    if depth(text) > MAX_BODY_LEVELS {
        faults.add(Member("body"), "too_deep", format!("the body must have at most {MAX_BODY_LEVELS} levels of nesting"));
    }
    faults.into_result_as(Code::InvalidRequest)?;
    Ok(object)
}

/// Returns a document's events. Adds a fault if they are not an array or too many.
pub(crate) fn list_events<'a>(events: &'a RawValue, max_events: usize, faults: &mut Faults) -> Option<Vec<&'a RawValue>> {
    let member = Member("events");
    let Some(events) = as_array(events) else { return faults.reject(member, "wrong_type", "events must be an array") };
    if events.len() > max_events {
        let detail = format!("events contains {} events; the maximum is {max_events}", events.len());
        return faults.reject(member, "too_many", detail);
    }
    Some(events)
}

/// Adds a fault for an unsupported `schema_version`. It may be missing.
pub(crate) fn check_version(members: &RawObject<'_>, faults: &mut Faults) {
    let Some(version) = members.get("schema_version") else { return };
    let is_served = as_str(version).is_some_and(|version| {
        version == OLD_VERSION
            || version.strip_prefix("1.").is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit()))
    });
    if !is_served {
        faults.add(Member("schema_version"), "unsupported_version", "schema_version must be \"0.1\" or \"1.x\"");
    }
}

/// Returns whether the version is missing or before 1.0, in which old member names keep their meaning.
pub(crate) fn is_before_1_0(members: &RawObject<'_>) -> bool {
    members.get("schema_version").is_none_or(|version| as_str(version).is_some_and(|version| version == OLD_VERSION))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MAX_STRING_BYTES);
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => {
            Err(ApiError::new(Code::InvalidParameter, "Idempotency-Key must be sent once and contain only printable characters."))
        }
    }
}
