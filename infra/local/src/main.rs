//! The binary behind `cargo up`, `cargo verify` and `cargo local`. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    local::cli::run()
}
