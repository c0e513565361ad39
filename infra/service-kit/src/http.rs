//! What every HTTP surface shares: the one error shape, the boundary around handlers, bodies and parameters.
//!
//! Must not let a response leave without a request id, nor an error in any other shape than problem+json.

mod body;
mod boundary;
mod error;
mod inflate;
mod inflaters;
mod parameters;

pub use body::{BodyLimits, BodyReader};
pub use boundary::{RequestId, with_boundary};
pub use error::ApiError;
pub use parameters::{Parameters, parse_instant};
