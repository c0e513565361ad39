//! Writes responses: JSON, CSV or newline-delimited JSON, whole or streamed, compressed.

pub(crate) mod accept_header;
pub(crate) mod named_rows;
pub(crate) mod page;
pub(crate) mod streamed_response;
pub(crate) mod compression;
pub(crate) mod response_memory;
