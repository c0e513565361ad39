//! Tests the load generator: the oracle finds every violation, the schedule hides no stall, and runs against the real service succeed.

mod chaos;
mod documented_build;
mod drains;
mod fake_service;
mod linear;
mod oracle;
mod pacing;
mod proxy;
mod read_bench;
mod real_service;
mod small_bench;

/// Creates a folder with the `telemetry` program for `--binaries`.
fn binaries() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let program = env!("CARGO_BIN_EXE_telemetry-with-crash-points");
    std::os::unix::fs::symlink(program, folder.path().join("telemetry")).expect("the program can be linked");
    folder
}
