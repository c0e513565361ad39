//! Statements of random months, created by a small model. The crate and the Python program must verify them and find every change.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod agreement;
mod changes;
mod files;
mod model;
mod months;
