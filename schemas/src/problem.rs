//! The one error shape (RFC 9457) and every code this service emits.
//!
//! Must not carry driver text, SQL, host names or secrets: `detail` is a sentence for the caller.

use serde::{Deserialize, Serialize};

/// Media type of every error body.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Every code, with the status it always has. Stable: callers read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// 400: the body is not JSON, or not an object.
    InvalidBody,
    /// 400: a query parameter does not parse.
    InvalidParameter,
    /// 401: no key or session, or one that is not known.
    Unauthenticated,
    /// 403: the key lacks the scope.
    MissingScope,
    /// 403: not bound to the data asked for.
    Forbidden,
    /// 404: no such route or object.
    NotFound,
    /// 405: the route exists with another method.
    MethodNotAllowed,
    /// 408: the request did not arrive in time.
    RequestTimeout,
    /// 409: contradicts what is recorded.
    Conflict,
    /// 410: was there, and its time is over.
    Expired,
    /// 413: over a size limit.
    TooLarge,
    /// 415: content type or encoding not served.
    UnsupportedMediaType,
    /// 422: well-formed, but breaks a rule.
    InvalidEvent,
    /// 422: well-formed, but breaks a rule.
    InvalidRequest,
    /// 429: more requests than the key may send; retry after the named seconds.
    TooManyRequests,
    /// 431: the head of the request is over its limit.
    HeadTooLarge,
    /// 500: a fault of the service.
    Internal,
    /// 503: a dependency is away; retry after the named seconds.
    Unavailable,
}

impl Code {
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidBody | Self::InvalidParameter => 400,
            Self::Unauthenticated => 401,
            Self::MissingScope | Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::Conflict => 409,
            Self::Expired => 410,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::InvalidEvent | Self::InvalidRequest => 422,
            Self::TooManyRequests => 429,
            Self::HeadTooLarge => 431,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// The short name of the kind of problem.
    pub fn title(self) -> &'static str {
        match self {
            Self::InvalidBody => "Invalid body",
            Self::InvalidParameter => "Invalid parameter",
            Self::Unauthenticated => "Not authenticated",
            Self::MissingScope => "Missing scope",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "Method not allowed",
            Self::RequestTimeout => "Request timeout",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::TooLarge => "Too large",
            Self::UnsupportedMediaType => "Unsupported media type",
            Self::InvalidEvent => "Invalid event",
            Self::InvalidRequest => "Invalid request",
            Self::TooManyRequests => "Too many requests",
            Self::HeadTooLarge => "Head too large",
            Self::Internal => "Internal error",
            Self::Unavailable => "Temporarily unavailable",
        }
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidBody => "invalid_body",
            Self::InvalidParameter => "invalid_parameter",
            Self::Unauthenticated => "unauthenticated",
            Self::MissingScope => "missing_scope",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::InvalidEvent => "invalid_event",
            Self::InvalidRequest => "invalid_request",
            Self::TooManyRequests => "too_many_requests",
            Self::HeadTooLarge => "head_too_large",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The body of every error response (docs/api/http.md#errors).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Short name of the kind of problem.
    pub title: String,
    pub status: u16,
    /// A sentence about this occurrence.
    pub detail: String,
    /// Stable, for programs.
    pub code: String,
    /// Also in the `x-request-id` response header.
    pub request_id: String,
    /// The path that serves what was asked for here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
    /// Every fault at once, for bodies that break rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Place of the event in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Member name, dotted.
    pub field: String,
    /// Stable, for programs.
    pub code: String,
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_on_the_wire_is_the_serde_name() {
        for code in [
            Code::InvalidBody,
            Code::MissingScope,
            Code::Expired,
            Code::UnsupportedMediaType,
            Code::HeadTooLarge,
            Code::Unavailable,
        ] {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
