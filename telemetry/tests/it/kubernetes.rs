//! Tests `infra/kubernetes`: valid for Kubernetes, with settings that each process accepts, and an nginx configuration that loads.

use crate::subcommands::run_to_exit;
use serde_json::Value;
use service_kit::testing::pip_package;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// kubernetes-validate on PyPI contains the schemas of each Kubernetes release.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";
const RELEASES: [&str; 2] = ["1.34.0", "1.37.0"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/kubernetes")
}

/// Returns the manifests, without kustomize's own files.
fn manifests() -> Vec<PathBuf> {
    let files = ["", "jobs"].iter().flat_map(|sub| std::fs::read_dir(folder().join(sub)).expect("the folder is readable"));
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("the file is readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "yaml") && !file.ends_with("kustomization.yaml"));
    files.sort();
    files
}

fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the file is readable");
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
        .collect()
}

#[test]
fn manifests_match_the_kubernetes_schemas() {
    let (validator, files) = (pip_package(VALIDATOR, env!("CARGO_TARGET_TMPDIR").as_ref()), manifests());
    assert!(files.len() >= 10, "{files:?}");
    for release in RELEASES {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &validator).args(["-m", "kubernetes_validate", "--strict", "--no-warn", "-k", release]);
        let output = python.args(&files).output().expect("python3 runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
}

#[test]
fn kustomizations_list_every_manifest() {
    for sub in ["", "jobs"] {
        let folder = folder().join(sub);
        let own = manifests().into_iter().filter(|file| file.parent() == Some(folder.as_path().components().as_path()));
        let own: BTreeSet<String> = own.map(|file| file.file_name().expect("a file").to_string_lossy().into_owned()).collect();
        let listed = documents(&folder.join("kustomization.yaml"))[0]["resources"].clone();
        let listed: BTreeSet<String> = serde_json::from_value(listed).expect("a list of files");
        assert_eq!(listed.into_iter().filter(|file| file != "../front").collect::<BTreeSet<_>>(), own, "{sub}");
    }
}

#[tokio::test]
async fn processes_accept_every_setting_in_their_manifests() {
    let all: Vec<Value> = manifests().iter().flat_map(|file| documents(file)).collect();
    let common = all.iter().find(|document| document["metadata"]["name"] == "telemetry-common").expect("common settings");
    let common: Vec<String> = common["data"].as_object().expect("settings").keys().cloned().collect();
    let mut programs = 0;
    for document in &all {
        for container in document["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten() {
            if container["image"] != "content-telemetry" {
                continue;
            }
            let words: Vec<&str> = container["args"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
            // One-shot commands have their service's settings too.
            let mut help = String::new();
            for words in [&words[..], &words[..1]] {
                let (code, printed, said) = run_to_exit(&[words, &["--help"]].concat(), &[]).await;
                assert_eq!(code, Some(0), "{words:?}: {said}");
                help += &printed;
            }
            let own = container["env"].as_array().expect("settings").iter().filter_map(|setting| setting["name"].as_str());
            for name in own.chain(common.iter().map(String::as_str)) {
                assert!(help.contains(&format!("[env: {name}")), "{words:?} has no setting {name}");
            }
            programs += 1;
        }
    }
    assert_eq!(programs, 8, "six services and two jobs");
}

#[test]
fn query_api_can_close_months() {
    let query = documents(&folder().join("query-api.yaml")).swap_remove(0);
    let pod = &query["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let keys = container["env"].as_array().into_iter().flatten().find(|setting| setting["name"] == "TELEMETRY_STATEMENT_KEYS");
    assert_eq!(keys.expect("a setting")["valueFrom"]["secretKeyRef"]["name"], "telemetry");
    let mount = &container["volumeMounts"][0];
    assert_eq!((&mount["mountPath"], &mount["name"]), (&"/tmp".into(), &pod["volumes"][0]["name"]), "a folder for evidence");
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_accepts_kubernetes_addresses() {
    let place = tempfile::tempdir().expect("a folder is created");
    let read = |file: &str| std::fs::read_to_string(folder().join(file)).expect("the file is readable");
    let front = read("../front/nginx.conf").replace(" /tmp/", &format!(" {}/", place.path().display()));
    let mut addresses = read("addresses.conf");
    for service in ["ingest-gateway", "query-api", "identity-api", "console"] {
        let port = documents(&folder().join(format!("{service}.yaml")))[1]["spec"]["ports"][0]["port"].to_string();
        let server = format!("server {service}:{port};");
        assert!(addresses.contains(&server), "{server}");
        addresses = addresses.replace(&server, "server 127.0.0.1:1;");
    }
    for (name, text) in [("nginx.conf", front), ("addresses.conf", addresses)] {
        std::fs::write(place.path().join(name), text).expect("the file is written");
    }
    let nginx = tokio::task::spawn_blocking(local::test_programs::nginx).await.expect("fetching does not panic").expect("nginx");
    let output = Command::new(nginx).args(["-t", "-e", "stderr", "-c"]).arg(place.path().join("nginx.conf")).output();
    let output = output.expect("nginx runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
