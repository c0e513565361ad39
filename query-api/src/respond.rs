//! How answers are written: whole or item by item, as JSON, CSV or lines, compressed.

pub(crate) mod accept_header;
pub(crate) mod page;
pub(crate) mod streamed_answer;
pub(crate) mod compression;
