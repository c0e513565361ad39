//! The worker as a process of its own, and what operators do with the same binary.
//!
//! Must stay a table of contents: everything it does is in the library.

use mimalloc::MiMalloc;
use service_kit::{process, settings};
use std::process::ExitCode;

/// Rows are many small strings; the gateway measured a fifth of its time in the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    process::main(async { stream_workers::start(settings::parse()).await })
}
