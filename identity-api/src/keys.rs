//! Keys of organisations, the drains that some of them feed, and accounts of analysts in ClickHouse.

pub(crate) mod analysts;
pub mod api_keys;
pub(crate) mod drains;
