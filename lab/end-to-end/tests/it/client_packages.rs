//! The packages of `infra/clients`, installed into an empty folder, run the example of their README with its documented output.

use crate::demo::{Demo, DemoApp, wait_for_events};
use crate::documented_commands::expected::missing;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tokio::task::block_in_place;

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/clients");

/// Runs a program in a folder and returns its output.
fn run(folder: &Path, demo: Option<&DemoApp>, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("PYTHONPATH", "site");
    command.envs(demo.into_iter().flat_map(|demo| demo.all()));
    let output = command.output().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}:\n{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Returns the package file in a folder.
fn packed(folder: &Path, extension: &str) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|file| file.extension().is_some_and(|found| found == extension)).expect("no package was written")
}

/// Packs the JavaScript client and installs it into an empty folder.
pub(crate) fn javascript() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let client = format!("{CLIENTS}/javascript");
    run(folder.path(), None, "npm", &["pack", "--silent", "--pack-destination", ".", &client]);
    let package = packed(folder.path(), "tgz");
    run(folder.path(), None, "npm", &["install", "--silent", "--offline", "--no-audit", "--no-fund", package.to_str().unwrap()]);
    folder
}

/// Packs the Python client and installs it into `site` of an empty folder.
fn python() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pip = |arguments: &[&str]| run(folder.path(), None, "python3", &[&["-m", "pip", "--quiet"], arguments].concat());
    pip(&["wheel", "--no-deps", "--wheel-dir", ".", &format!("{CLIENTS}/python")]);
    let package = packed(folder.path(), "whl");
    let warning = "--root-user-action=ignore";
    pip(&["install", "--no-index", warning, "--target", "site", package.to_str().unwrap()]);
    folder
}

/// Returns the first block of a README in a language.
fn block<'a>(readme: &'a str, language: &str) -> &'a str {
    let (_, rest) = readme.split_once(&format!("```{language}\n")).expect("the README has no such block");
    rest.split_once("```").expect("the block has no end").0
}

/// Runs the example in a folder with the package. It must print what the README shows, and report one event.
async fn run_example(folder: &Path, client: &str, program: &str, language: &str, file: &str) {
    let readme = std::fs::read_to_string(format!("{CLIENTS}/{client}/README.md")).unwrap();
    let demo = Demo::start().await;
    std::fs::write(folder.join(file), block(&readme, language)).unwrap();
    let printed = block_in_place(|| run(folder, Some(&demo), program, &[file]));
    let shown = block(&readme, "text");
    assert_eq!(missing(shown, &printed), [""; 0], "{printed}");
    assert_eq!(printed.lines().count(), shown.lines().count(), "{printed}");
    wait_for_events(&demo, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_javascript_client_runs_its_example() {
    let folder = block_in_place(javascript);
    run_example(folder.path(), "javascript", "node", "js", "report.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_python_client_runs_its_example() {
    let folder = block_in_place(python);
    assert!(folder.path().join("site/content_telemetry/py.typed").is_file());
    run_example(folder.path(), "python", "python3", "py", "report.py").await;
}
