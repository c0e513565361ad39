//! The reads over HTTP, against the real stores. One binary, so that it links once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod counting;
mod delegation;
mod former_owners;
mod key_uses;
mod model;
mod parameters;
mod readiness;
mod resolve;
mod visibility;
mod windows;
mod world;
