//! `cargo verify`: everything that must hold before a change lands, against the real servers. CI runs nothing else.

use std::num::NonZeroUsize;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::deny;
use crate::interrupt::Interrupt;
use crate::prerequisites::{Purpose, ensure_components, ensure_programs};
use crate::session::Session;
use crate::subprocess;

/// The test runner's own variable: how many tests of one crate run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// What has to have passed, in this order: a step that is left out fails the run as one that fails does.
const STEPS: [&str; 6] = ["format", "lint", "deny", "servers", "build", "tests"];

/// What can be typed after `cargo verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Passed on to `cargo test`, after `--`
    #[arg(last = true)]
    test_args: Vec<String>,
}

/// Runs every step, also after one has failed, and sums up.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let mut report = Report { begun: Instant::now(), steps: Vec::new() };
    let outcome = Session::hold(&interrupt, |session| steps(options, session, &mut report));
    let outcome = outcome.and_then(|()| interrupt.check());
    if let Err(error) = &outcome {
        eprintln!("error: {error:#}");
    }
    report.print();
    Ok(if outcome.is_ok() && report.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn steps(options: &Options, session: &Session, report: &mut Report) -> Result<()> {
    ensure_programs(Purpose::Verify, &session.own())?;
    ensure_components()?;
    session.fetch_cargo_deny()?;
    session.fetch_beside(|| {
        for (name, arguments) in [
            ("format", &["fmt", "--all", "--check"][..]),
            ("lint", &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
        ] {
            let mut cargo = subprocess::cargo(session.workspace.root());
            cargo.args(arguments);
            report.step(name, || run_cargo(cargo, session))?;
        }
        Ok(())
    })?;
    report.step("deny", || deny::check(session))?;
    let mut endpoints = None;
    report.step("servers", || {
        session.fetch_prometheus()?;
        session.fetch_postgres_tools()?;
        endpoints = Some(session.start()?);
        Ok(true)
    })?;
    // `cargo test` builds a binary only for the integration tests of its own package, and these tests start all of them.
    // With the tests beside them, the binaries have the features that the tests' dependencies have: nothing is compiled twice.
    report.step("build", || {
        let mut cargo = subprocess::cargo(session.workspace.root());
        cargo.args(["build", "--workspace", "--bins", "--tests"]);
        run_cargo(cargo, session)
    })?;
    report.step("tests", || {
        let mut cargo = subprocess::cargo(session.workspace.root());
        let names_packages = options.test_args.iter().any(|word| word == "-p" || word.starts_with("--package"));
        cargo.args(["test", "--no-fail-fast"]).args((!names_packages).then_some("--workspace")).args(&options.test_args);
        if std::env::var_os(THREADS).is_none() {
            cargo.env(THREADS, test_threads().to_string());
        }
        if let Some(endpoints) = &endpoints {
            endpoints.apply(&mut cargo);
        }
        session.watch(|| run_cargo(cargo, session))
    })
}

/// Tests mostly wait for servers and for deadlines to pass: twice as many as there are cores keep the cores busy.
fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn run_cargo(command: Command, session: &Session) -> Result<bool> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    eprintln!("cargo {}", words.join(" "));
    let outcome = subprocess::run(command, &session.launcher, &session.interrupt)?;
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

struct Report {
    begun: Instant,
    steps: Vec<Step>,
}

struct Step {
    name: &'static str,
    has_passed: bool,
    took: Duration,
}

impl Report {
    /// Runs one step under its heading. Only what makes further steps pointless is an error.
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<bool>) -> Result<()> {
        eprintln!("\n== {name} (after {})", minutes(self.begun.elapsed()));
        let begun = Instant::now();
        let outcome = work();
        let has_passed = *outcome.as_ref().unwrap_or(&false);
        self.steps.push(Step { name, has_passed, took: begun.elapsed() });
        outcome.map(drop)
    }

    fn has_passed(&self) -> bool {
        self.steps.iter().map(|step| step.name).eq(STEPS) && self.steps.iter().all(|step| step.has_passed)
    }

    fn print(&self) {
        eprintln!();
        for step in &self.steps {
            let verdict = if step.has_passed { "passed" } else { "FAILED" };
            eprintln!("{:<8} {verdict} {:>9}", step.name, minutes(step.took));
        }
        let verdict = if self.has_passed() { "PASSED" } else { "FAILED" };
        eprintln!("{verdict} after {}", minutes(self.begun.elapsed()));
    }
}

fn minutes(time: Duration) -> String {
    format!("{:.1} min", time.as_secs_f32() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(steps: &[(&'static str, bool)]) -> Report {
        let step = |(name, has_passed): &(&'static str, bool)| Step { name, has_passed: *has_passed, took: Duration::ZERO };
        Report { begun: Instant::now(), steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn s19_a_run_that_leaves_a_step_out_has_not_passed() {
        let all = STEPS.map(|name| (name, true));
        assert!(report(&all).has_passed());
        for (left_out, name) in STEPS.iter().enumerate() {
            let without: Vec<_> = all.iter().copied().filter(|(step, _)| step != name).collect();
            assert!(!report(&without).has_passed(), "without {name}");
            let mut failed = all;
            failed[left_out].1 = false;
            assert!(!report(&failed).has_passed(), "{name} has failed");
        }
        assert!(STEPS.contains(&"deny"));
    }
}
