//! N1: commands that build the services before they begin ask cargo for packages and features that exist. Other tests
//! give them binaries at hand, and so never see what they would build.
//!
//! Must not build: a `cargo` of its own, first on the path, has the real one resolve what it is asked for and ends there.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");
/// `cargo build` becomes `cargo tree`, which takes the same packages and features; how it ended is written down.
const STAND_IN: &str = r#"#!/bin/bash
arguments=()
for argument in "${@:2}"; do [ "$argument" = --release ] || arguments+=("$argument"); done
if "$REAL_CARGO" tree --offline --depth 0 "${arguments[@]}" >/dev/null 2>"$OUTCOME.said"; then echo resolved; else cat "$OUTCOME.said"; fi >"$OUTCOME"
exit 1
"#;

async fn with_stand_in(folder: &Path, arguments: &[&str]) -> Output {
    let stand_in = folder.join("cargo");
    std::fs::write(&stand_in, STAND_IN).expect("the stand-in is written");
    std::fs::set_permissions(&stand_in, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
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
async fn what_chaos_and_a_bench_build_first_exists_with_its_features() {
    for arguments in [&["chaos"][..], &["bench"], &["run", "--start"]] {
        let folder = tempfile::tempdir().expect("a folder is made");
        let ended = with_stand_in(folder.path(), arguments).await;
        let outcome = std::fs::read_to_string(folder.path().join("outcome"));
        let said = String::from_utf8_lossy(&ended.stderr);
        let outcome = outcome.unwrap_or_else(|_| panic!("{arguments:?} built nothing: {said}"));
        assert_eq!(outcome.trim_end(), "resolved", "{arguments:?}");
        assert!(!ended.status.success() && said.contains("cannot be built"), "{arguments:?}: {said}");
    }
}
