//! Clients generated from the served OpenAPI document report an event and read it.

use crate::demo::{Demo, DemoApp, wait_for_events};
use schemas::openapi;
use service_kit::testing::{npm_packages, pip_package};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tokio::task::block_in_place;

const TYPESCRIPT: [(&str, &str); 4] =
    [("openapi-typescript", "7.13.0"), ("openapi-fetch", "0.17.0"), ("@hey-api/openapi-ts", "0.95.0"), ("typescript", "5.9.3")];
const PYTHON: &str = "openapi-python-client==0.29.1";

/// A folder with the document and the programs that use the clients.
struct Workspace<'a>(TempDir, &'a DemoApp);

impl<'a> Workspace<'a> {
    async fn new(demo: &'a DemoApp) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let document = demo.get("", openapi::PATH).await.body;
        std::fs::write(folder.path().join("openapi.json"), document.to_string()).unwrap();
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated_clients");
        for program in std::fs::read_dir(programs).unwrap().map(Result::unwrap) {
            std::fs::copy(program.path(), folder.path().join(program.file_name())).unwrap();
        }
        Self(folder, demo)
    }

    /// Runs a program in the folder, with the demo's address and keys.
    fn run(&self, program: &str, arguments: &[&str], variables: &[(&str, &Path)]) {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path()).envs(self.1.all()).envs(variables.iter().copied());
        let output = command.output().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
        let printed = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{program} {arguments:?}:\n{}", String::from_utf8_lossy(&printed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_typescript_clients_report_and_read() {
    let demo = Demo::start().await;
    let workspace = Workspace::new(&demo).await;
    block_in_place(|| {
        let modules = npm_packages(&TYPESCRIPT, env!("CARGO_TARGET_TMPDIR").as_ref()).join("node_modules");
        symlink(modules, workspace.0.path().join("node_modules")).unwrap();
        let run = |program: &str, arguments: &[&str]| workspace.run(program, arguments, &[]);
        run("node_modules/.bin/openapi-typescript", &["openapi.json", "--output", "schema.d.ts"]);
        run("node_modules/.bin/openapi-ts", &[]);
        run("node_modules/.bin/tsc", &["--project", "."]);
        run("node", &["out/openapi_fetch.mjs"]);
        run("node", &["out/hey_api.mjs"]);
    });
    wait_for_events(&demo, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_python_client_reports_and_reads() {
    let demo = Demo::start().await;
    let workspace = Workspace::new(&demo).await;
    block_in_place(|| {
        let packages = pip_package(PYTHON, env!("CARGO_TARGET_TMPDIR").as_ref());
        let run = |arguments: &[&str]| workspace.run("python3", arguments, &[("PYTHONPATH", &packages)]);
        let client =
            ["-m", "openapi_python_client", "generate", "--meta", "none", "--path", "openapi.json", "--output-path", "generated"];
        run(&client);
        run(&["report_and_read.py"]);
    });
    wait_for_events(&demo, 1).await;
}
