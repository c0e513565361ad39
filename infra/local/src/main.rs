//! The binary behind `cargo up`, `cargo verify` and `cargo local`.

use std::process::ExitCode;

fn main() -> ExitCode {
    local::cli::run()
}
