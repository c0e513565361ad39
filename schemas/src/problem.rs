//! The error format (RFC 9457) and all error codes.

use serde::{Deserialize, Serialize};

pub const PROBLEM_JSON: &str = "application/problem+json";

macro_rules! codes {
    ($($(#[$says:meta])* $code:ident = $status:literal, $name:literal, $title:literal;)+) => {
        named_enum! {
            /// Error codes, each with a fixed status. Stable, because clients depend on them.
            pub enum Code {
                $($(#[$says])* $code = $name,)+
            }
        }

        impl Code {
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$code => $status,)+
                }
            }

            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$code => $title,)+
                }
            }
        }
    };
}

codes! {
    /// The body is not JSON, or not an object.
    InvalidBody = 400, "invalid_body", "Invalid body";
    InvalidParameter = 400, "invalid_parameter", "Invalid parameter";
    /// The key or user session is missing or unknown.
    Unauthenticated = 401, "unauthenticated", "Not authenticated";
    MissingScope = 403, "missing_scope", "Missing scope";
    /// The requested data is not permitted.
    Forbidden = 403, "forbidden", "Forbidden";
    NotFound = 404, "not_found", "Not found";
    MethodNotAllowed = 405, "method_not_allowed", "Method not allowed";
    RequestTimeout = 408, "request_timeout", "Request timeout";
    /// The request contradicts stored data.
    Conflict = 409, "conflict", "Conflict";
    /// The object existed, but has expired.
    Expired = 410, "expired", "Expired";
    TooLarge = 413, "too_large", "Too large";
    /// Content type or encoding not supported.
    UnsupportedMediaType = 415, "unsupported_media_type", "Unsupported media type";
    InvalidEvent = 422, "invalid_event", "Invalid event";
    InvalidRequest = 422, "invalid_request", "Invalid request";
    /// Retry after the time in `retry-after`.
    TooManyRequests = 429, "too_many_requests", "Too many requests";
    HeadTooLarge = 431, "head_too_large", "Head too large";
    Internal = 500, "internal", "Internal error";
    /// A dependency is unavailable. Retry after the time in `retry-after`.
    Unavailable = 503, "unavailable", "Temporarily unavailable";
}

/// The body of every error response (docs/api/http.md#errors).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// A sentence that describes this error.
    pub detail: String,
    /// Stable identifier for programs.
    pub code: String,
    /// Also in the `x-request-id` response header.
    pub request_id: String,
    /// The right path, if the request was sent to the wrong one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
    /// Every broken rule of the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Index of the event in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Dotted member name.
    pub field: String,
    /// Stable identifier for programs.
    pub code: String,
    pub detail: String,
}
