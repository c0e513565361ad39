//! `cargo verify`: everything that must hold before a change lands, against the real servers. CI runs nothing else.

mod failures;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Result, bail};

use self::failures::Failure;
use crate::deny;
use crate::interrupt::Interrupt;
use crate::prerequisites::{Purpose, ensure_components, ensure_programs};
use crate::session::Session;
use crate::stack::Endpoints;
use crate::subprocess;
use crate::workspace::MANIFESTS;

/// The test runner's own variable: how many tests of one crate run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

/// What has to have passed, in this order: a step that is left out fails the run as one that fails does.
const STEPS: [&str; 6] = ["format", "lint", "deny", "servers", "build", "tests"];
/// The same of a quick run, whose tests are those that stand beside the code.
const QUICK_STEPS: [&str; 4] = ["format", "lint", "servers", "tests"];

/// How long what tests have printed is waited for after they ended: a process that one of them left behind may hold it open.
const LAST_LINES: Duration = Duration::from_secs(5);

/// What can be typed after `cargo verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run only format, lints and unit tests
    #[arg(long)]
    quick: bool,
    /// Arguments for `cargo test`, after `--`
    #[arg(last = true)]
    test_args: Vec<String>,
}

/// Runs every step, also after one has failed, and sums up.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let expected = if options.quick { &QUICK_STEPS[..] } else { &STEPS };
    let mut report = Report { begun: Instant::now(), expected, steps: Vec::new(), failures: Vec::new() };
    let work = if options.quick { quick_steps } else { steps };
    let outcome = Session::hold(&interrupt, |session| work(options, session, &mut report));
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
    session.fetch_beside(|| check_the_text(session, report))?;
    report.step("deny", || deny::check(session))?;
    let mut endpoints = None;
    report.step("servers", || {
        session.fetch_programs()?;
        endpoints = Some(session.start()?);
        Ok(true)
    })?;
    // `cargo test` builds a binary only for the integration tests of its own package, and these tests start all of them.
    // With the tests beside them, the binaries have the features that the tests' dependencies have: nothing is compiled twice.
    report.step("build", || run_each(session, &["build", "--workspace", "--bins", "--tests"]))?;
    run_tests(tests(session, options, &[])?, endpoints.as_ref(), session, report)
}

fn quick_steps(options: &Options, session: &Session, report: &mut Report) -> Result<()> {
    ensure_programs(Purpose::Build, &session.own())?;
    ensure_components()?;
    session.fetch_beside(|| check_the_text(session, report))?;
    let mut endpoints = None;
    report.step("servers", || {
        endpoints = Some(session.start()?);
        Ok(true)
    })?;
    run_tests(tests(session, options, &["--lib", "--bins"])?, endpoints.as_ref(), session, report)
}

fn check_the_text(session: &Session, report: &mut Report) -> Result<()> {
    for (name, arguments) in [
        ("format", &["fmt", "--all", "--check"][..]),
        ("lint", &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
    ] {
        report.step(name, || run_each(session, arguments))?;
    }
    Ok(())
}

/// Has cargo do the same in both workspaces, also in the second when it has failed in the first.
fn run_each(session: &Session, arguments: &[&str]) -> Result<bool> {
    let (subcommand, rest) = arguments.split_at(1);
    let mut has_passed = true;
    for manifest in MANIFESTS {
        let mut cargo = cargo(session, subcommand, manifest);
        cargo.args(rest);
        has_passed &= run_cargo(cargo, session)?;
    }
    Ok(has_passed)
}

fn cargo(session: &Session, subcommand: &[&str], manifest: &str) -> Command {
    let mut cargo = subprocess::cargo(session.workspace.root());
    cargo.args(subcommand).args(["--manifest-path", manifest]);
    cargo
}

/// The tests of each workspace, or of the one that has the packages which are asked for.
fn tests(session: &Session, options: &Options, targets: &[&str]) -> Result<Vec<Command>> {
    let named = packages(&options.test_args);
    let asked = asked_for(&named, session.workspace.root())?;
    let each = asked.iter().map(|manifest| {
        let mut tests = cargo(session, &["test"], manifest);
        tests.arg("--no-fail-fast").args(targets).args(named.is_empty().then_some("--workspace")).args(&options.test_args);
        if std::env::var_os(THREADS).is_none() {
            tests.env(THREADS, test_threads().to_string());
        }
        tests
    });
    Ok(each.collect())
}

/// The manifests of the workspaces that have these packages; both where none is named.
fn asked_for(packages: &[&str], root: &Path) -> Result<&'static [&'static str]> {
    let of_lab = packages.iter().filter(|package| root.join("infra/lab").join(package).is_dir()).count();
    match (packages.len(), of_lab) {
        (0, _) => Ok(&MANIFESTS),
        (_, 0) => Ok(&MANIFESTS[..1]),
        (all, of_lab) if all == of_lab => Ok(&MANIFESTS[1..]),
        _ => bail!("{} are in two workspaces: test the packages of infra/lab separately", packages.join(", ")),
    }
}

/// The packages that these words name to cargo.
fn packages(words: &[String]) -> Vec<&str> {
    let mut own = words.iter().map(String::as_str).take_while(|word| *word != "--");
    let mut found = Vec::new();
    while let Some(word) = own.next() {
        match word {
            "-p" | "--package" => found.extend(own.next()),
            word => found.extend(word.strip_prefix("--package=")),
        }
    }
    found
}

/// Tests mostly wait for servers and for deadlines to pass: four times as many as there are cores keep the cores busy.
fn test_threads() -> usize {
    4 * thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn run_cargo(command: Command, session: &Session) -> Result<bool> {
    say_what_runs(&command);
    let outcome = subprocess::run(command, &session.launcher, &session.interrupt)?;
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

/// Runs the tests on these servers and keeps what failed ones said.
fn run_tests(all: Vec<Command>, servers: Option<&Endpoints>, session: &Session, report: &mut Report) -> Result<()> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let run_all = || {
        let mut has_passed = !all.is_empty();
        for mut tests in all {
            servers.into_iter().for_each(|servers| servers.apply(&mut tests));
            has_passed &= run_and_listen(tests, &found, session)?;
        }
        Ok(has_passed)
    };
    let outcome = report.step("tests", || session.watch(run_all));
    report.failures.append(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
    outcome
}

fn run_and_listen(mut tests: Command, found: &Arc<Mutex<Vec<Failure>>>, session: &Session) -> Result<bool> {
    say_what_runs(&tests);
    tests.stdout(Stdio::piped());
    let mut relay = None;
    let begun = |child: &mut Child| {
        let found = Arc::clone(found);
        let add = move |failure| found.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        relay = child.stdout.take().map(|printed| thread::spawn(move || failures::relay(printed, io::stdout(), add)));
    };
    let outcome = subprocess::run_watched(tests, &session.launcher, &session.interrupt, begun, || {})?;
    let ended = Instant::now();
    while relay.as_ref().is_some_and(|relay| !relay.is_finished()) && ended.elapsed() < LAST_LINES {
        thread::sleep(Duration::from_millis(20));
    }
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

fn say_what_runs(command: &Command) {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    eprintln!("cargo {}", words.join(" "));
}

struct Report {
    begun: Instant,
    /// The names of all steps, in order.
    expected: &'static [&'static str],
    steps: Vec<Step>,
    failures: Vec<Failure>,
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
        self.steps.iter().map(|step| step.name).eq(self.expected.iter().copied()) && self.steps.iter().all(|step| step.has_passed)
    }

    fn print(&self) {
        for failure in &self.failures {
            eprintln!("\n---- {} failed; its last output ----", failure.test);
            failure.lines.iter().for_each(|line| eprintln!("{line}"));
        }
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
        Report { begun: Instant::now(), expected: &STEPS, steps: steps.iter().map(step).collect(), failures: Vec::new() }
    }

    #[test]
    fn packages_that_are_asked_for_are_tested_in_the_workspace_that_has_them() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            packages(&words("-p query-api --test it --package console --package=fuzz -- -p no")),
            ["query-api", "console", "fuzz"]
        );
        assert_eq!(packages(&words("--test it")), [""; 0]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let asked = |packages: &[&str]| asked_for(packages, &root).ok();
        assert_eq!(asked(&[]), Some(&MANIFESTS[..]));
        assert_eq!(asked(&["query-api", "console"]), Some(&["Cargo.toml"][..]));
        assert_eq!(asked(&["loadgen", "fuzz"]), Some(&["infra/lab/Cargo.toml"][..]));
        assert_eq!(asked(&["loadgen", "console"]), None);
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
        let quick = QUICK_STEPS.map(|name| (name, true));
        assert!(Report { expected: &QUICK_STEPS, ..report(&quick) }.has_passed());
        assert!(!Report { expected: &QUICK_STEPS, ..report(&quick[..3]) }.has_passed());
        assert!(!report(&quick).has_passed(), "a quick run is no whole one");
    }
}
