//! Runs the whole bench with loads of 300 ms, as a functional test.

use std::process::Stdio;

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");

#[tokio::test(flavor = "multi_thread")]
async fn bench_measures_every_target() {
    let binaries = crate::binaries();
    let mut program = tokio::process::Command::new(PROGRAM);
    program.args(["bench", "--duration", "300ms", "--rounds", "1"]).stdin(Stdio::null()).kill_on_drop(true);
    program.arg("--binaries").arg(binaries.path());
    let output = program.output().await.expect("the program runs");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    for figure in ["P1 ", "P2 ", "P3 ", "P4 ", "P5 ", "P10 ", "P11 ", "P12 "] {
        assert!(said.lines().any(|line| line.starts_with(figure)), "{figure}is missing:\n{said}");
    }
}
