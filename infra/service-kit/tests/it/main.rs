//! The way out, over real sockets.
//!
//! Must not look inside the crate, and must not need a server that the test has not started itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod egress;
mod encrypted_stores;
mod rebinding;
mod spellings;
