//! Runs another program to its end on behalf of `up` and `verify`: cargo, and the service itself. It gets a process
//! group of its own, so that a Ctrl-C reaches it once, from us, and everything it started with it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Signal, kill_process_group};

use crate::interrupt::Interrupt;
use crate::process::{Process, pid_of};
use crate::settings;
use crate::tether::Tether;

/// How long a program may take to stop when asked.
const STOP_LIMIT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// By itself.
    Exited(ExitStatus),
    /// Because somebody asked us to stop.
    Stopped,
}

impl Outcome {
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

/// A cargo in the workspace, free of what the cargo that runs us has set for us alone.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(settings::cargo());
    command.current_dir(root);
    for name in settings::of_the_running_package() {
        command.env_remove(name);
    }
    command
}

/// Runs `command` to its end, or until a stop is requested.
pub(crate) fn run(command: Command, launcher: &Path, interrupt: &Interrupt) -> Result<Outcome> {
    run_watched(command, launcher, interrupt, |_| {}, || {})
}

/// The same, with a look at the child when it has begun, and one at the clock every now and then.
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
    // should we be killed, it must not go on alone
    let _tether = Process::of(child.id()).map(|process| Tether::tie(launcher, process, None)).transpose()?;
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
            // a group that is gone needs no signal
            let _ = kill_process_group(group, signal);
        }
    };
    signal_group(Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < STOP_LIMIT && !interrupt.is_insisted() {
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
