//! Shared by all HTTP services: the error format, the layer around handlers, bodies and parameters.

mod body;
mod boundary;
pub mod csv;
mod error;
pub mod inert;
mod inflate;
mod inflaters;
mod malformed;
mod parameters;
pub mod sort;
mod weighted;

pub(crate) use body::only;
pub use body::{BodyLimits, BodyReader, is_form, read_wire};
pub use boundary::{RequestId, Transport, with_boundary, with_boundary_over};
pub(crate) use boundary::{refuse, shield};
pub use error::ApiError;
pub use inflate::content_encoding;
pub(crate) use malformed::Malformed;
pub use parameters::{Parameters, parse_instant};
pub use weighted::weighted;

use axum::http::HeaderName;

pub const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");
