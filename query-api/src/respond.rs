//! How answers are written: whole or item by item, as JSON, CSV or lines, compressed.
//!
//! Must not know what they hold.

pub(crate) mod accept_header;
pub(crate) mod page;
pub(crate) mod streamed_answer;
pub(crate) mod compression;
