//! Runs cargo and the service for `up` and `verify`. The program has its own process group, so that it gets Ctrl-C only once, from us.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Signal, kill_process_group};

use crate::environment;
use crate::interrupt::Interrupt;
use crate::kill_on_exit::KillOnExit;
use crate::process::{Process, pid_of};

/// Time limit for a regular stop.
const STOP_LIMIT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// Ended by itself.
    Exited(ExitStatus),
    /// Stopped on request.
    Stopped,
}

impl Outcome {
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

/// Returns a cargo command in the workspace, without the variables of the running package.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(environment::cargo());
    command.current_dir(root);
    for name in environment::running_package_variables() {
        command.env_remove(name);
    }
    command
}

/// Runs `command` to its end, or until a stop is requested.
pub(crate) fn run(command: Command, launcher: &Path, interrupt: &Interrupt) -> Result<Outcome> {
    run_watched(command, launcher, interrupt, |_| {}, || {})
}

/// Like `run`. Calls `begun` with the child after the start, and `meanwhile` repeatedly.
pub(crate) fn run_watched(
    mut command: Command,
    launcher: &Path,
    interrupt: &Interrupt,
    begun: impl FnOnce(&mut Child),
    mut meanwhile: impl FnMut(),
) -> Result<Outcome> {
    interrupt.check()?;
    command.stdin(Stdio::null()).process_group(0);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    // If we are killed, the program must end too.
    let _tether = Process::find(child.id()).map(|process| KillOnExit::attach(launcher, process, None)).transpose()?;
    begun(&mut child);
    loop {
        meanwhile();
        if let Some(status) = child.try_wait()? {
            return Ok(if interrupt.is_requested() { Outcome::Stopped } else { Outcome::Exited(status) });
        }
        if interrupt.is_requested() {
            stop(&mut child, interrupt)?;
            return Ok(Outcome::Stopped);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn stop(child: &mut Child, interrupt: &Interrupt) -> Result<()> {
    let signal_group = |signal| {
        if let Some(group) = pid_of(child.id()) {
            // The group may have ended already.
            let _ = kill_process_group(group, signal);
        }
    };
    signal_group(Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < STOP_LIMIT && !interrupt.is_immediate_stop_requested() {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let signal_group = |signal| pid_of(child.id()).map(|group| kill_process_group(group, signal));
    signal_group(Signal::KILL);
    child.wait().context("cannot wait for a program to end")?;
    Ok(())
}
