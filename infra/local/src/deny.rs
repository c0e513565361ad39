//! `cargo deny check` as part of `cargo verify`: licences, bans and sources of every dependency, and advisories where their
//! database can be had. What is checked stands in `deny.toml`.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::fetch;
use crate::session::Session;
use crate::subprocess;

/// Whether everything that can be checked here is as it must be.
pub(crate) fn check(session: &Session) -> Result<bool> {
    let program = fetch::cargo_deny_place()?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        // cargo itself would be asked under a name that is no path
        command.args(arguments).current_dir(session.workspace.root());
        for name in crate::settings::of_the_running_package() {
            command.env_remove(name);
        }
        command
    };
    let mut kinds = vec!["--locked", "check", "bans", "licenses", "sources"];
    if has_advisories(deny(&["fetch", "db"]), session)? {
        kinds.push("advisories");
    } else {
        eprintln!("advisories are NOT checked: their database, a repository of github.com, cannot be had from here");
    }
    eprintln!("cargo deny {}", kinds.join(" "));
    let outcome = subprocess::run(deny(&kinds), &session.launcher, &session.interrupt)?;
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

/// Brings the database up to date; whether there is one.
fn has_advisories(mut fetch: Command, session: &Session) -> Result<bool> {
    fetch.stdout(Stdio::null()).stderr(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
    let outcome = subprocess::run(fetch, &session.launcher, &session.interrupt)?;
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

#[cfg(test)]
mod tests {
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
