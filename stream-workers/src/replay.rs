//! Reading the log again: into an empty database (`rebuild`).

mod range;
pub(crate) mod rebuild;
