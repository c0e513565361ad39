//! N1: commands that build the services use existing packages and features. Other tests use prebuilt binaries, so they don't cover the
//! build.
//!
//! Nothing is built: a fake `cargo`, first in PATH, resolves the arguments with the real one and exits.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");
/// Runs `cargo tree` instead of `cargo build`, with the same packages and features, and writes the result to a file.
const STAND_IN: &str = r#"#!/bin/bash
arguments=()
for argument in "${@:2}"; do [ "$argument" = --release ] || arguments+=("$argument"); done
if "$REAL_CARGO" tree --offline --depth 0 "${arguments[@]}" >/dev/null 2>"$OUTCOME.said"; then echo resolved; else cat "$OUTCOME.said"; fi >"$OUTCOME"
exit 1
"#;

async fn with_stand_in(folder: &Path, arguments: &[&str]) -> Output {
    let stand_in = folder.join("cargo");
    std::fs::write(&stand_in, STAND_IN).expect("the fake cargo can be written");
    std::fs::set_permissions(&stand_in, std::fs::Permissions::from_mode(0o755)).expect("the fake cargo can be made executable");
    let programs = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&programs)));
    let mut program = tokio::process::Command::new(PROGRAM);
    program
        .args(arguments)
        .env("PATH", path.expect("no folder has a colon"))
        .env("REAL_CARGO", env!("CARGO"))
        .env("OUTCOME", folder.join("outcome"));
    program.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the program runs")
}

#[tokio::test]
async fn builds_existing_packages_and_features() {
    for arguments in [&["chaos"][..], &["bench"], &["run", "--start"]] {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let ended = with_stand_in(folder.path(), arguments).await;
        let outcome = std::fs::read_to_string(folder.path().join("outcome"));
        let said = String::from_utf8_lossy(&ended.stderr);
        let outcome = outcome.unwrap_or_else(|_| panic!("{arguments:?} built nothing: {said}"));
        assert_eq!(outcome.trim_end(), "resolved", "{arguments:?}");
        assert!(!ended.status.success() && said.contains("failed to build the services"), "{arguments:?}: {said}");
    }
}
