//! Signatures by other programs.

mod clients;
mod documented;
