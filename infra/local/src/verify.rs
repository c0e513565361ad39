//! `cargo verify`: all checks and tests, with real servers. CI runs exactly this.

mod binaries;
mod failures;

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result};

use self::binaries::TestBinary;
use self::failures::Failure;
use crate::deny;
use crate::interrupt::Interrupt;
use crate::prerequisites::{Purpose, ensure_components, ensure_programs};
use crate::stack::Endpoints;
use crate::stack_session::StackSession;
use crate::subprocess;

/// Required steps in order. If one is skipped, the run fails.
const STEPS: [&str; 7] = ["format", "lint", "deny", "servers", "build", "tests", "examples"];
/// Required steps with `--full`.
const FULL_STEPS: [&str; 8] = ["format", "lint", "deny", "servers", "build", "tests", "examples", "full"];
/// Required steps with `--quick`, which runs only unit tests of the product.
const QUICK_STEPS: [&str; 5] = ["format", "lint", "servers", "build", "tests"];

/// Commands that `--full` runs, one per line.
const FULL: &str = "lab/full.txt";

/// Time to wait for more output after the tests have ended, because a leftover process may keep the pipe open.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Options of `cargo verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run only format, lints and unit tests of the product
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Then run the commands of lab/full.txt: all sizes, seeds and slow checks; takes a night
    #[arg(long)]
    full: bool,
}

/// Runs every step, even after failures, and prints a summary.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let expected = match options {
        Options { quick: true, .. } => &QUICK_STEPS[..],
        Options { full: true, .. } => &FULL_STEPS,
        _ => &STEPS,
    };
    let mut report = Report { begun: Instant::now(), expected, steps: Vec::new(), failures: Vec::new() };
    let work = if options.quick { quick_steps } else { steps };
    let outcome = StackSession::run_in(&interrupt, |session| work(options, session, &mut report));
    let outcome = outcome.and_then(|()| interrupt.check());
    if let Err(error) = &outcome {
        eprintln!("error: {error:#}");
    }
    report.print();
    Ok(if outcome.is_ok() && report.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn steps(options: &Options, session: &StackSession, report: &mut Report) -> Result<()> {
    ensure_programs(Purpose::Verify, &session.managed_servers())?;
    ensure_components()?;
    session.fetch_cargo_deny()?;
    session.fetch_during(|| check_sources(session, report, true))?;
    report.step("deny", || deny::check(session))?;
    let servers = start_servers(session, report, || session.fetch_programs())?;
    // Built together with the tests, so that the programs have the same features as in the tests and dependencies aren't compiled twice.
    let tests = build_tests(session, report, &["build", "--workspace", "--bins", "--tests"])?;
    run_tests(tests, &servers, session, report)?;
    report.step("examples", || run_cargo(cargo(session, &["test", "--doc"]), session))?;
    if options.full {
        report.step("full", || session.watch(|| run_commands(session)))?;
    }
    Ok(())
}

fn quick_steps(_: &Options, session: &StackSession, report: &mut Report) -> Result<()> {
    ensure_programs(Purpose::Build, &session.managed_servers())?;
    ensure_components()?;
    session.fetch_during(|| check_sources(session, report, false))?;
    let servers = start_servers(session, report, || Ok(()))?;
    let tests = build_tests(session, report, &["test", "--no-run", "--lib", "--bins"])?;
    run_tests(tests, &servers, session, report)
}

/// `whole` selects the packages to lint: all of them, or only the product's.
fn check_sources(session: &StackSession, report: &mut Report, whole: bool) -> Result<()> {
    report.step("format", || run_cargo(cargo(session, &["fmt", "--all", "--check"]), session))?;
    let mut lint = cargo(session, &["clippy", "--all-targets"]);
    lint.args(whole.then_some("--workspace")).args(["--", "--deny", "warnings"]);
    report.step("lint", || run_cargo(lint, session))
}

fn start_servers(session: &StackSession, report: &mut Report, fetch: impl FnOnce() -> Result<()>) -> Result<Endpoints> {
    let mut servers = None;
    report.step("servers", || {
        fetch()?;
        servers = Some(session.start()?);
        Ok(true)
    })?;
    servers.context("the servers did not start")
}

fn cargo(session: &StackSession, arguments: &[&str]) -> Command {
    let mut cargo = subprocess::cargo(session.workspace.root());
    cargo.args(arguments);
    cargo
}

/// Compiles the tests and returns their binaries, or no binaries if the build fails.
fn build_tests(session: &StackSession, report: &mut Report, arguments: &[&str]) -> Result<Vec<TestBinary>> {
    let mut found = Vec::new();
    report.step("build", || {
        let mut cargo = cargo(session, arguments);
        print_running_command(&cargo);
        cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
        let mut built = None;
        let listen = |child: &mut Child| {
            built = child.stdout.take().map(|printed| thread::spawn(move || binaries::read(printed)));
        };
        let outcome = subprocess::run_watched(cargo, &session.launcher, &session.interrupt, listen, || {})?;
        session.interrupt.check()?;
        found = built.context("cargo's output is missing")?.join().expect("reading does not panic")?;
        Ok(outcome.is_success())
    })?;
    Ok(found)
}

fn run_cargo(command: Command, session: &StackSession) -> Result<bool> {
    print_running_command(&command);
    let outcome = subprocess::run(command, &session.launcher, &session.interrupt)?;
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

/// Runs the test binaries, one per core at a time, and collects the output of failed tests.
fn run_tests(mut waiting: Vec<TestBinary>, servers: &Endpoints, session: &StackSession, report: &mut Report) -> Result<()> {
    let found = Arc::new(Mutex::new(Vec::new()));
    // Start the largest ones first, because they run longest.
    waiting.sort_by_key(TestBinary::bytes);
    let any = !waiting.is_empty();
    let waiting = Mutex::new(waiting);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let run_all = || {
        let mut has_passed = any;
        while let Some(binary) = next() {
            has_passed &= run_test_binary(&binary, servers, &found, session)?;
        }
        Ok(has_passed)
    };
    let outcome = report.step("tests", || {
        session.watch(|| {
            thread::scope(|scope| {
                let runners: Vec<_> = (0..binaries::concurrency()).map(|_| scope.spawn(run_all)).collect();
                let outcomes = runners.into_iter().map(|runner| runner.join().expect("a run does not panic"));
                outcomes.collect::<Result<Vec<_>>>().map(|all| all.into_iter().all(|has_passed| has_passed))
            })
        })
    });
    report.failures.append(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
    outcome
}

/// Prints the output at the end, because other tests run concurrently.
fn run_test_binary(
    binary: &TestBinary,
    servers: &Endpoints,
    found: &Arc<Mutex<Vec<Failure>>>,
    session: &StackSession,
) -> Result<bool> {
    eprintln!("Testing {}", binary.name);
    let (mut tests, begun, output) = (binary.command(), Instant::now(), Arc::new(Mutex::new(Vec::new())));
    servers.apply(&mut tests);
    tests.stdout(Stdio::piped());
    let mut relay = None;
    let listen = |child: &mut Child| {
        let (found, lines) = (Arc::clone(found), failures::SharedBuffer(Arc::clone(&output)));
        let add = move |failure| found.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        relay = child.stdout.take().map(|printed| thread::spawn(move || failures::copy_output(printed, lines, add)));
    };
    let outcome = subprocess::run_watched(tests, &session.launcher, &session.interrupt, listen, || {})?;
    let ended = Instant::now();
    while relay.as_ref().is_some_and(|relay| !relay.is_finished()) && ended.elapsed() < LAST_LINES {
        thread::sleep(Duration::from_millis(20));
    }
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    print!("{} ({:.0} s)\n{}", binary.name, begun.elapsed().as_secs_f32(), String::from_utf8_lossy(&output));
    session.interrupt.check()?;
    Ok(outcome.is_success())
}

/// Runs the commands of `lab/full.txt`, even after failures, and prints which ones failed.
fn run_commands(session: &StackSession) -> Result<bool> {
    let root = session.workspace.root();
    let text = fs::read_to_string(root.join(FULL)).with_context(|| format!("cannot read {FULL}"))?;
    let mut failed = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (begun, mut command) = (Instant::now(), Command::new("bash"));
        eprintln!("\n{line}");
        command.args(["-c", line]).current_dir(root);
        let has_passed = subprocess::run(command, &session.launcher, &session.interrupt)?.is_success();
        session.interrupt.check()?;
        eprintln!("{} after {}: {line}", if has_passed { "passed" } else { "FAILED" }, minutes(begun.elapsed()));
        failed.extend((!has_passed).then_some(line));
    }
    failed.iter().for_each(|line| eprintln!("FAILED: {line}"));
    Ok(failed.is_empty())
}

fn print_running_command(command: &Command) {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    eprintln!("cargo {}", words.join(" "));
}

struct Report {
    begun: Instant,
    /// Names of all steps, in order.
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
    /// Runs a step. Returns an error only if further steps are pointless.
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
    fn s19_fails_if_a_step_is_missing() {
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
        assert!(!Report { expected: &QUICK_STEPS, ..report(&quick[..4]) }.has_passed());
        assert!(!report(&quick).has_passed(), "a quick run passed as a normal run");
        assert!(!Report { expected: &FULL_STEPS, ..report(&all) }.has_passed(), "a normal run passed as a full run");
    }
}
