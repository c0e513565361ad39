//! `cargo deny check` as part of `cargo verify`: licences, bans and sources of every dependency, and advisories where their
//! database can be had. What is checked stands in `deny.toml`.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::fetch;
use crate::session::Session;
use crate::subprocess;

/// What has to be asked for each time; advisories are asked for where they can be had.
const KINDS: [&str; 3] = ["bans", "licenses", "sources"];

/// Whether everything that can be checked here is as it must be.
pub(crate) fn check(session: &Session) -> Result<bool> {
    let program = fetch::cargo_deny_place()?;
    check_with(|arguments, has_output| {
        let mut command = Command::new(&program);
        // cargo itself would be asked under a name that is no path
        command.args(arguments).current_dir(session.workspace.root());
        for name in crate::settings::of_the_running_package() {
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

/// `deny` runs the program with these arguments, and tells whether it has succeeded.
fn check_with(mut deny: impl FnMut(&[&str], bool) -> Result<bool>) -> Result<bool> {
    let mut arguments = ["--locked", "check"].into_iter().chain(KINDS).collect::<Vec<_>>();
    if deny(&["fetch", "db"], false)? {
        arguments.push("advisories");
    } else {
        eprintln!("advisories are NOT checked: their database, a repository of github.com, cannot be had from here");
    }
    eprintln!("cargo deny {}", arguments.join(" "));
    deny(&arguments, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_licences_bans_and_sources_are_checked_and_advisories_where_they_can_be_had() {
        for (has_advisories, expected) in [
            (true, &["--locked", "check", "bans", "licenses", "sources", "advisories"][..]),
            (false, &["--locked", "check", "bans", "licenses", "sources"]),
        ] {
            for is_good in [true, false] {
                let mut asked = Vec::new();
                let checked = check_with(|arguments, _| {
                    asked.push(arguments.join(" "));
                    Ok(if arguments == ["fetch", "db"] { has_advisories } else { is_good })
                });
                assert_eq!(checked.unwrap(), is_good, "what cargo deny says is what the step says");
                assert_eq!(asked, ["fetch db".to_owned(), expected.join(" ")]);
            }
        }
    }

    /// The check itself runs as a step of `cargo verify`, which does not pass without it (`verify`); that it cannot be emptied
    /// unnoticed is what is tested.
    #[test]
    fn s19_the_rules_are_those_of_cargo_deny_and_name_licences_bans_and_sources() {
        let rules = include_str!("../../../deny.toml");
        for rule in
            ["[licenses]", "[bans]", "[sources]", "unknown-registry = \"deny\"", "unknown-git = \"deny\"", "yanked = \"deny\""]
        {
            assert!(rules.contains(rule), "{rule}");
        }
        assert!(!rules.contains("ignore = [") && !rules.contains("GPL"), "{rules}");
        let steps = include_str!("verify.rs");
        assert!(steps.contains("    report.step(\"deny\", || deny::check(session))?;\n"), "cargo verify checks them");
    }
}
