//! The reads as a process of their own.
//!
//! Must stay a table of contents: everything it does is in the library.

use service_kit::{process, settings};
use std::process::ExitCode;

fn main() -> ExitCode {
    process::main(async { query_api::start(settings::parse()).await })
}
