//! The identity service as a process of its own.
//!
//! Must stay a table of contents: everything it does is in the library.

use service_kit::{process, settings};
use std::process::ExitCode;

fn main() -> ExitCode {
    process::main(async { identity_api::start(settings::parse()).await })
}
