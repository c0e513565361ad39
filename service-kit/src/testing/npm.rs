//! npm packages for tests against real third-party code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a directory whose `node_modules` contains the package. Installed once under `tmp` and reused by later runs.
pub fn npm_package(package: &str, version: &str, tmp: &Path) -> PathBuf {
    let name: String = package.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = tmp.join(format!("npm-{}-{version}", name.trim_matches('-')));
    let module = |folder: &Path| folder.join("node_modules").join(package).join("package.json");
    if module(&folder).is_file() {
        return folder;
    }
    // Install elsewhere and move the result, so a killed or concurrent run leaves no partial result.
    let aside = tmp.join(format!("npm-{}", uuid::Uuid::new_v4()));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&aside);
    let output = npm.arg(format!("{package}@{version}")).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs npm (it comes with Node.js 20 or later): {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "npm failed to install {package}@{version}; is the registry reachable? Output:\n{said}");
    if fs::rename(&aside, &folder).is_err() {
        assert!(module(&folder).is_file(), "{} exists but is incomplete: remove it", folder.display());
        let _ = fs::remove_dir_all(aside);
    }
    folder
}
