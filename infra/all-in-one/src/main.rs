//! The all-in-one as a process.
//!
//! Must stay a table of contents: everything it does is in the library.

use all_in_one::{Cli, run};
use service_kit::clock::Clock;
use service_kit::{process, settings};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let cli: Cli = settings::parse();
    process::run(|stop| run(cli, Clock::System, stop)).await
}
