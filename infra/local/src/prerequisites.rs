//! Checks that the programs needed by other commands are installed. As root, installs missing ones with the system's package manager;
//! otherwise fails and names the command that installs them.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::fetch;
use crate::server_kind::ServerKind;
use crate::{environment, process_account};

/// The oldest Java version that Kafka supports.
const OLDEST_JAVA: u32 = 17;

/// Why programs are needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    Servers,
    /// Also compile the services.
    Build,
    /// Also run the tests.
    Verify,
}

/// A program, with its package for each package manager.
struct Tool {
    program: &'static str,
    /// Package names for apt-get, dnf, apk and brew.
    packages: [&'static str; 4],
}

/// A package manager, with its index in `Tool::packages`.
struct Manager {
    program: &'static str,
    install: &'static [&'static str],
    refresh: Option<&'static [&'static str]>,
    column: usize,
}

const JAVA: Tool =
    Tool { program: "java", packages: ["default-jdk-headless", "java-21-openjdk-devel", "openjdk21-jdk", "openjdk"] };
const FETCHERS: [Tool; 3] = [
    Tool { program: "mvn", packages: ["maven", "maven", "maven", "maven"] },
    Tool { program: "node", packages: ["nodejs", "nodejs", "nodejs", "node"] },
    Tool { program: "npm", packages: ["npm", "nodejs-npm", "npm", "node"] },
];
/// OpenSSL, for librdkafka's TLS.
const OPENSSL: &str = "the OpenSSL headers";
const COMPILERS: [Tool; 6] = [
    Tool { program: "cmake", packages: ["cmake", "cmake", "cmake", "cmake"] },
    Tool { program: "make", packages: ["make", "make", "make", "make"] },
    Tool { program: "cc", packages: ["gcc", "gcc", "gcc", "gcc"] },
    Tool { program: "c++", packages: ["g++", "gcc-c++", "g++", "gcc"] },
    Tool { program: "pkg-config", packages: ["pkg-config", "pkgconf-pkg-config", "pkgconf", "pkgconf"] },
    Tool { program: OPENSSL, packages: ["libssl-dev", "openssl-devel", "openssl-dev", "openssl@3"] },
];
/// A browser for the console's tests.
const BROWSER: [Tool; 2] = [
    Tool { program: "chromium", packages: ["chromium", "chromium", "chromium", "chromium"] },
    Tool { program: "chromedriver", packages: ["chromium-driver", "chromedriver", "chromium-chromedriver", "chromedriver"] },
];
/// Python, for the examples in docs/api/webhooks.md.
const PYTHON: Tool = Tool { program: "python3", packages: ["python3", "python3", "python3", "python"] };
/// A shell for the documented commands, because it is the default shell of macOS.
const ZSH: Tool = Tool { program: "zsh", packages: ["zsh", "zsh", "zsh", "zsh"] };
const MANAGERS: [Manager; 4] = [
    Manager {
        program: "apt-get",
        install: &["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends"],
        refresh: Some(&["-o", "DPkg::Lock::Timeout=300", "update"]),
        column: 0,
    },
    Manager { program: "dnf", install: &["install", "-y"], refresh: None, column: 1 },
    Manager { program: "apk", install: &["add", "--no-cache"], refresh: None, column: 2 },
    Manager { program: "brew", install: &["install"], refresh: None, column: 3 },
];

/// Installs programs that are missing for this purpose and for the `own` servers.
pub(crate) fn ensure_programs(purpose: Purpose, own: &[ServerKind]) -> Result<()> {
    let missing = missing_tools(purpose, own)?;
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.program).collect();
    let names = names.join(", ").replace("java", "java (17 or newer)");
    let Some(manager) = MANAGERS.iter().find(|manager| is_installed(manager.program)) else {
        bail!("missing programs: {names}. Install them with your system's package manager");
    };
    let mut packages: Vec<&str> = missing.iter().filter_map(|tool| tool.packages.get(manager.column).copied()).collect();
    packages.dedup();
    if !process_account::is_root() || manager.program == "brew" {
        let sudo = if manager.program == "brew" { "" } else { "sudo " };
        bail!("missing programs: {names}. To install them: {sudo}{} install {}", manager.program, packages.join(" "));
    }
    eprintln!("Missing programs: {names}. Installing {} with {}", packages.join(", "), manager.program);
    install(manager, &packages)?;
    let still: Vec<&str> = missing_tools(purpose, own)?.iter().map(|tool| tool.program).collect();
    ensure!(still.is_empty(), "installed {}, but these are still missing or too old: {}", packages.join(", "), still.join(", "));
    Ok(())
}

/// Ensures that the toolchain's formatter and linter are installed.
pub(crate) fn ensure_components() -> Result<()> {
    for component in ["fmt", "clippy"] {
        let mut version = Command::new(environment::cargo());
        version.args([component, "--version"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !version.status().is_ok_and(|status| status.success()) {
            eprintln!("Missing cargo {component}. Running `rustup component add rustfmt clippy`");
            let status = Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]).status();
            ensure!(
                status.is_ok_and(|status| status.success()),
                "cargo {component} is missing: install rustfmt and clippy for this toolchain"
            );
        }
    }
    Ok(())
}

fn missing_tools(purpose: Purpose, own: &[ServerKind]) -> Result<Vec<&'static Tool>> {
    let to_fetch = fetch::missing(own)?;
    let needs_maven = to_fetch.iter().any(|kind| *kind != ServerKind::ClickHouse);
    let mut needed = Vec::new();
    if own.contains(&ServerKind::Kafka) || needs_maven {
        needed.push(&JAVA);
    }
    needed.extend(FETCHERS.iter().filter(|tool| match tool.program {
        "mvn" => needs_maven,
        _ => to_fetch.contains(&ServerKind::ClickHouse),
    }));
    if purpose != Purpose::Servers {
        needed.extend(&COMPILERS);
    }
    if purpose == Purpose::Verify {
        needed.extend([&PYTHON, &ZSH]);
        needed.extend(&BROWSER);
    }
    needed.retain(|tool| !is_present(tool));
    Ok(needed)
}

fn is_present(tool: &Tool) -> bool {
    match tool.program {
        "java" => is_installed("java") && java_is_recent(),
        OPENSSL => environment::openssl_folder().is_some() || pkg_config_knows("openssl"),
        program => is_installed(program),
    }
}

fn pkg_config_knows(library: &str) -> bool {
    let mut command = Command::new("pkg-config");
    command.args(["--exists", library]).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns whether the search path contains the program.
pub(crate) fn is_installed(program: &str) -> bool {
    environment::search_path().iter().any(|folder| is_executable(&folder.join(program)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn java_is_recent() -> bool {
    let output = Command::new("java").arg("-version").stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    java_major(&said).is_some_and(|major| major >= OLDEST_JAVA)
}

/// Returns 17 for `openjdk version "17.0.15" 2025-04-15`. Java 8 calls itself 1.8.
fn java_major(said: &str) -> Option<u32> {
    let version = said.split('"').nth(1)?;
    version.split(['.', '-', '+']).next()?.parse().ok()
}

fn install(manager: &Manager, packages: &[&str]) -> Result<()> {
    let run = |arguments: &[&str], packages: &[&str]| {
        let mut command = Command::new(manager.program);
        command.args(arguments).args(packages).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        let status = command.status().with_context(|| format!("cannot run {}", manager.program))?;
        ensure!(status.success(), "{} {} failed", manager.program, arguments.join(" "));
        Ok(())
    };
    if let Some(refresh) = manager.refresh {
        run(refresh, &[])?;
    }
    run(manager.install, packages)
}

#[cfg(test)]
mod tests {
    use super::java_major;

    #[test]
    fn parses_the_java_version() {
        assert_eq!(java_major("openjdk version \"17.0.15\" 2025-04-15\n"), Some(17));
        assert_eq!(java_major("Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version \"25\" 2025-09-16\n"), Some(25));
        assert_eq!(java_major("openjdk version \"24-ea\" 2025-03-18\n"), Some(24));
        assert_eq!(java_major("java version \"1.8.0_392\"\n"), Some(1));
        assert_eq!(java_major("command not found"), None);
    }
}
