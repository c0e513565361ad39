//! The program as a process.
//!
//! Must stay a table of contents: everything it does is in the library.

use mimalloc::MiMalloc;
use service_kit::{process, settings};
use std::process::ExitCode;

/// Small short-lived pieces of JSON are most of what a request costs; the system's allocator took a fifth of it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    process::main(async { telemetry::start(settings::parse()).await })
}
