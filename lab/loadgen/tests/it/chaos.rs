//! C1 to C3, C6, C13 and F23 in short: a minute of all kinds of faults, and plans that depend only on the seed. The full run is `cargo
//! chaos`.

use service_kit::testing::random_seed;
use std::process::{Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_loadgen");

async fn chaos(arguments: &[&str]) -> Output {
    let mut program = tokio::process::Command::new(PROGRAM);
    program.arg("chaos").args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the program runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_c2_c3_faults_do_not_change_results() {
    let seed = random_seed().to_string();
    let binaries = crate::binaries();
    let folder = binaries.path().to_str().expect("the path of a temporary folder is UTF-8");
    let output = chaos(&["--smoke", "--seed", &seed, "--binaries", folder]).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}

#[tokio::test]
async fn c13_plan_depends_only_on_the_seed() {
    let plan = async |seed| String::from_utf8_lossy(&chaos(&["--plan", "--smoke", "--seed", seed]).await.stdout).into_owned();
    let first = plan("7").await;
    assert_eq!(first, plan("7").await);
    assert_ne!(first, plan("8").await);
    assert!(first.lines().count() > 10, "{first}");
}
