//! npm and PyPI packages for tests against real third-party code. Installed once and reused by later runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a directory below `tmp` with the package in its `node_modules`.
pub fn npm_package(package: &str, version: &str, tmp: &Path) -> PathBuf {
    npm_packages(&[(package, version)], tmp)
}

/// Returns a directory below `tmp` with these versions of the packages in its `node_modules`.
pub fn npm_packages(packages: &[(&str, &str)], tmp: &Path) -> PathBuf {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
    npm.args(packages.iter().map(|(package, version)| format!("{package}@{version}"))).arg("--prefix");
    let names: Vec<String> = packages.iter().map(|(package, version)| format!("{package}-{version}")).collect();
    install(npm, &format!("npm-{}", names.join("-")), tmp)
}

/// Returns a directory for `PYTHONPATH` that contains a package, `name==version`, below `tmp`.
pub fn pip_package(requirement: &str, tmp: &Path) -> PathBuf {
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-warn-script-location",
        "--root-user-action=ignore",
        requirement,
        "--target",
    ]);
    install(pip, &format!("pip-{requirement}"), tmp)
}

/// Runs an installer with a directory as its last argument.
fn install(mut installer: Command, name: &str, tmp: &Path) -> PathBuf {
    let folder = tmp.join(name.replace(['/', '@'], "-"));
    if folder.is_dir() {
        return folder;
    }
    // Install elsewhere and move the result, so a killed or concurrent run leaves no partial result.
    let aside = tmp.join(uuid::Uuid::new_v4().to_string());
    let output = installer.arg(&aside).output();
    let output =
        output.unwrap_or_else(|error| panic!("this test needs npm (it comes with Node.js 20 or later) and Python: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "failed to install {name}; is the registry reachable? Output:\n{said}");
    if fs::rename(&aside, &folder).is_err() {
        assert!(folder.is_dir(), "{} can't be created", folder.display());
        let _ = fs::remove_dir_all(aside);
    }
    folder
}
