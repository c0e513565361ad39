//! HTTP code that all services share: the error format, the middleware around handlers, bodies and parameters.

mod body;
mod request_middleware;
pub mod csv;
mod error;
pub mod sanitize_text;
mod inflate;
mod inflate_threads;
mod malformed_head;
mod parameters;
pub mod sort;
mod quality_values;

pub(crate) use body::single_header;
pub use body::{BodyLimits, BodyReader, is_form, parse_array, parse_object, read_wire};
pub use error::ApiError;
pub use inflate::content_encoding;
pub(crate) use malformed_head::MalformedHead;
pub use parameters::{Parameters, parse_instant};
pub use quality_values::quality_values;
pub use request_middleware::{RequestId, Transport, with_request_middleware, with_request_middleware_over};
pub(crate) use request_middleware::{reject_malformed_head, set_security_headers};

use axum::http::HeaderName;

pub const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");
