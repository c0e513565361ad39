//! Runs Maven, npm, apt-get and pip with the user's mirrors, proxies and credentials. Their working copies are in the draft folder, so
//! broken ones are never reused.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::size_bytes;
use crate::environment;
use crate::interrupt::Interrupt;
use crate::process::end;
use crate::progress::Task;

/// Number of output lines to show if a client fails.
const OUTPUT_TAIL_LINES: usize = 15;

/// Copies these artifacts and their runtime dependencies into `target`.
pub(super) fn from_maven(
    draft: &Path,
    target: &Path,
    dependencies: &[(&str, &str, &str)],
    task: &Task,
    interrupt: &Interrupt,
) -> Result<()> {
    fs::write(draft.join("pom.xml"), pom(dependencies)).context("cannot write into the cache")?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
    maven.arg(format!("-DoutputDirectory={}", target.display()));
    maven.arg(format!("-Dmaven.repo.local={}", draft.join("maven").display()));
    run(maven, draft, "mvn", task, interrupt)
}

/// Downloads a scoped package and returns the tarball.
pub(super) fn from_npm(
    draft: &Path,
    scope: &str,
    package: &str,
    version: &str,
    task: &Task,
    interrupt: &Interrupt,
) -> Result<PathBuf> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--cache"]).arg(draft.join("npm")).arg(format!("@{scope}/{package}@{version}"));
    run(npm, draft, "npm", task, interrupt)?;
    Ok(draft.join(format!("{scope}-{package}-{version}.tgz")))
}

/// Downloads a Debian package and returns it. Uses separate package lists, so it needs neither root nor a previous
/// `apt-get update`. apt verifies the package against the signed lists and installs nothing.
pub(super) fn from_apt(draft: &Path, package: &str, version: &str, task: &Task, interrupt: &Interrupt) -> Result<PathBuf> {
    let (state, cache, target) = (draft.join("apt"), draft.join("apt-cache"), draft.join("debian"));
    for folder in [state.join("lists/partial"), cache.join("archives/partial"), target.clone()] {
        fs::create_dir_all(folder).context("cannot write into the cache")?;
    }
    // The `*` permits Debian's own revisions of the version.
    for arguments in [&["update"][..], &["download", &format!("{package}={version}*")]] {
        let mut apt = Command::new("apt-get");
        apt.arg("-q").args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        apt.arg("-o").arg(format!("Dir::State={}", state.display())).arg("-o").arg(format!("Dir::Cache={}", cache.display()));
        apt.args(arguments);
        run_in(&target, apt, draft, "apt-get", task, interrupt)?;
    }
    let mut found = fs::read_dir(&target)?.flatten().map(|entry| entry.path());
    found.find(|file| file.extension().is_some_and(|kind| kind == "deb")).context("apt-get didn't download a package")
}

/// Downloads a wheel and returns it, without installing it.
pub(super) fn from_pip(draft: &Path, package: &str, version: &str, task: &Task, interrupt: &Interrupt) -> Result<PathBuf> {
    let target = draft.join("wheels");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--dest"]);
    pip.arg(&target).arg(format!("{package}=={version}"));
    run(pip, draft, "pip", task, interrupt)?;
    let mut found = fs::read_dir(&target)?.flatten().map(|entry| entry.path());
    found.find(|file| file.extension().is_some_and(|kind| kind == "whl")).context("pip didn't download a wheel")
}

/// Compiles a crate from crates.io without optimizations into `release/bin`.
pub(super) fn from_cargo(draft: &Path, package: &str, version: &str, task: &Task, interrupt: &Interrupt) -> Result<()> {
    let mut cargo = Command::new(environment::cargo());
    for name in environment::running_package_variables() {
        cargo.env_remove(name);
    }
    cargo.args(["install", "--locked", "--debug", "--version", version, package, "--root"]).arg(draft.join("release"));
    cargo.env("CARGO_TARGET_DIR", draft.join("target")).env("CARGO_PROFILE_DEV_DEBUG", "0");
    run(cargo, draft, "cargo", task, interrupt)
}

fn run(command: Command, draft: &Path, name: &str, task: &Task, interrupt: &Interrupt) -> Result<()> {
    run_in(draft, command, draft, name, task, interrupt)
}

fn run_in(folder: &Path, mut command: Command, draft: &Path, name: &str, task: &Task, interrupt: &Interrupt) -> Result<()> {
    let output = draft.join(format!("{name}.log"));
    let log = File::create(&output).context("cannot write into the cache")?;
    command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}: install it first"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupt.is_requested() {
            end(&mut child);
            bail!("interrupted");
        }
        task.step("downloading", size_bytes(draft));
        std::thread::sleep(Duration::from_millis(200));
    };
    if !status.success() {
        let said = fs::read_to_string(output).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(OUTPUT_TAIL_LINES)..).unwrap_or_default().join("\n");
        bail!("{name} failed. Check the network and {name}'s proxy and mirror settings, then try again. Its output:\n{tail}");
    }
    Ok(())
}

fn pom(dependencies: &[(&str, &str, &str)]) -> String {
    let dependencies: String = dependencies
        .iter()
        .map(|(group, artifact, version)| {
            format!("<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\n")
        })
        .collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">
<modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>servers</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{dependencies}</dependencies>
<build><pluginManagement><plugins><plugin>
<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version>
</plugin></plugins></pluginManagement></build>
</project>
"
    )
}
