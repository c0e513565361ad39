//! Keys of organisations, the drains that some of them feed, and accounts of analysts in ClickHouse.
//!
//! Must show a key or password only in the answer that makes it.

pub(crate) mod analysts;
pub mod api_keys;
pub(crate) mod drains;
