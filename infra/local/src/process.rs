//! A process, identified by its id *and* start time, because the system reuses ids.

mod table;

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A running process. Two values are equal only if they are the same run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start time in the system's unit (clock ticks since boot on Linux).
    pub started: u64,
}

impl Process {
    /// Returns the process with this id, or `None` if it does not exist or is a zombie.
    #[must_use]
    pub fn find(pid: u32) -> Option<Self> {
        let row = table::row(pid)?;
        (!row.is_zombie).then_some(Self { pid, started: row.started })
    }

    /// Returns whether this run still exists.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    /// Sends a signal. No-op if the process has ended.
    pub(crate) fn signal(self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = pid_of(self.pid)
        {
            // The process may end in between; both outcomes are fine.
            let _ = kill_process(pid, signal);
        }
    }

    /// Returns this process and its descendants, parents first.
    pub(crate) fn tree(self) -> Vec<Self> {
        let rows = table::rows();
        let mut tree = vec![self];
        let mut next = 0;
        while let Some(parent) = tree.get(next).map(|process| process.pid) {
            let children = rows.iter().filter(|row| row.parent == parent && !row.is_zombie);
            tree.extend(children.map(|row| Self { pid: row.pid, started: row.started }));
            next += 1;
        }
        tree
    }

    /// Kills this process and its descendants, and waits for their end.
    pub(crate) fn kill_tree(self) {
        if !self.is_alive() {
            return;
        }
        let tree = self.tree();
        for process in &tree {
            process.signal(Signal::KILL);
        }
        for process in tree {
            process.wait_until_gone(Duration::from_secs(10), || false);
        }
    }

    /// Waits for the end of the process. Returns false if it is still running after `limit`, or once `hurry` returns true.
    pub(crate) fn wait_until_gone(self, limit: Duration, hurry: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        while self.is_alive() {
            if begun.elapsed() > limit || hurry() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// Returns the processes of `program` that have exactly this `argument`: servers whose record was lost.
pub(crate) fn with_argument(program: &str, argument: &str) -> Vec<Process> {
    let is_stray = |row: &table::Row| {
        let name = row.arguments.first().and_then(|path| path.rsplit('/').next());
        !row.is_zombie && name == Some(program) && row.arguments.iter().any(|given| given == argument)
    };
    table::rows().iter().filter(|row| is_stray(row)).map(|row| Process { pid: row.pid, started: row.started }).collect()
}

/// Kills a child process and its descendants, and reaps it.
pub(crate) fn end(child: &mut Child) {
    if let Some(process) = Process::find(child.id()) {
        process.kill_tree();
    }
    // An error means that it was already reaped.
    let _ = child.wait();
}

pub(crate) fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
