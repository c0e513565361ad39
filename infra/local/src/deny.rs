//! `cargo deny check` as part of `cargo verify`: the licenses, bans and sources of every dependency, and security advisories if their
//! database is available. The rules are in `deny.toml`.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::fetch;
use crate::stack_session::StackSession;
use crate::subprocess;

/// Checks that always run. Advisories are checked if their database is available.
const KINDS: [&str; 3] = ["bans", "licenses", "sources"];

/// Returns whether all checks passed.
pub(crate) fn check(session: &StackSession) -> Result<bool> {
    let program = fetch::cargo_deny_path()?;
    check_with(|arguments, has_output| {
        let mut command = Command::new(&program);
        // Called directly, because `cargo deny` would need it in the search path.
        command.args(arguments).current_dir(session.workspace.root());
        for name in crate::environment::running_package_variables() {
            command.env_remove(name);
        }
        if !has_output {
            command.stdout(Stdio::null()).stderr(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
        }
        let outcome = subprocess::run(command, &session.launcher, &session.interrupt)?;
        session.interrupt.check()?;
        Ok(outcome.is_success())
    })
}

/// `deny` runs the program with these arguments and returns whether it succeeded.
fn check_with(mut deny: impl FnMut(&[&str], bool) -> Result<bool>) -> Result<bool> {
    let has_advisories = deny(&["fetch", "db"], false)?;
    if !has_advisories {
        eprintln!("Security advisories are NOT checked: cannot download their database from github.com");
    }
    let checked = ["--workspace", "--locked", "check"].into_iter().chain(KINDS);
    let arguments: Vec<_> = checked.chain(has_advisories.then_some("advisories")).collect();
    eprintln!("cargo deny {}", arguments.join(" "));
    deny(&arguments, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_checks_advisories_if_available() {
        for (has_advisories, expected) in
            [(true, "--locked check bans licenses sources advisories"), (false, "--locked check bans licenses sources")]
        {
            for is_good in [true, false] {
                let mut asked = Vec::new();
                let checked = check_with(|arguments, _| {
                    asked.push(arguments.join(" "));
                    Ok(if arguments == ["fetch", "db"] { has_advisories } else { is_good })
                });
                assert_eq!(checked.unwrap(), is_good, "the step must have cargo deny's result");
                assert_eq!(asked, ["fetch db".to_owned(), format!("--workspace {expected}")]);
            }
        }
    }

    /// All rules, so that a new exception, ignored advisory, source or license requires a change here.
    const RULES: &str = r#"
[graph]
targets = [
"x86_64-unknown-linux-gnu",
"aarch64-unknown-linux-gnu",
"x86_64-apple-darwin",
"aarch64-apple-darwin",
]
all-features = true
[advisories]
yanked = "deny"
[licenses]
allow = [
"0BSD",
"Apache-2.0",
"BSD-3-Clause",
"ISC",
"MIT",
"MIT-0",
"NCSA",
"Unicode-3.0",
"Zlib",
]
confidence-threshold = 0.9
[bans]
multiple-versions = "allow"
wildcards = "deny"
allow-wildcard-paths = true
[sources]
unknown-registry = "deny"
unknown-git = "deny"
"#;

    #[test]
    fn s19_deny_rules_are_unchanged() {
        let lines = include_str!("../../../deny.toml").lines().map(str::trim);
        let rules: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(rules, RULES.trim().lines().collect::<Vec<_>>(), "to change a rule, change it here as well");
    }

    #[test]
    fn s19_cargo_verify_runs_cargo_deny() {
        let steps = include_str!("verify.rs");
        assert!(steps.contains("    report.step(\"deny\", || deny::check(session))?;\n"));
    }
}
