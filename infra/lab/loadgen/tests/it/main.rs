//! The load generator from outside: does its oracle find what it must, does its clock hide nothing, does it get along
//! with the real service.

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

/// A folder with the program of the product, as `--binaries` takes it.
fn binaries() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder is made");
    let program = env!("CARGO_BIN_EXE_telemetry-with-crash-points");
    std::os::unix::fs::symlink(program, folder.path().join("telemetry")).expect("the program is put there");
    folder
}
