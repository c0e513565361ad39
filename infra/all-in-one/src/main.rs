//! Entry point of the all-in-one.

use all_in_one::{Cli, run};
use mimalloc::MiMalloc;
use service_kit::clock::Clock;
use service_kit::{process, settings};
use std::process::ExitCode;

/// Requests mostly allocate small, short-lived JSON values; the system allocator took a fifth of their time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    process::main(start())
}

async fn start() -> ExitCode {
    let cli: Cli = settings::parse();
    process::run(|stop| run(cli, Clock::System, stop)).await
}
