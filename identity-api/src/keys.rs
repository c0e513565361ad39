//! Keys of organisations, and the drains that some of them feed.
//!
//! Must show a key only in the answer that makes it.

pub mod api_keys;
pub(crate) mod drains;
