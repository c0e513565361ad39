//! A process of the stack, known by its id *and* its start time, so that an id the system has given to somebody else
//! is never mistaken for ours. It signals and waits; it does not know what the process is for.

mod table;

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One running process. Two values are equal only if they mean the same run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Process {
    /// The id the system gave it.
    pub pid: u32,
    /// When it started, in the system's own unit (clock ticks since boot on Linux).
    pub started: u64,
}

impl Process {
    /// The process that has this id now; `None` if there is none or only its unreaped remains.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let row = table::row(pid)?;
        (!row.is_zombie).then_some(Self { pid, started: row.started })
    }

    /// Whether this very run still exists.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal; does nothing if the process is gone.
    pub(crate) fn signal(self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = pid_of(self.pid)
        {
            // it may end between the question and the signal; both outcomes are fine
            let _ = kill_process(pid, signal);
        }
    }

    /// This process and everything it started, parents first.
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

    /// Ends this process and everything it started, and waits until they are gone.
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

    /// Waits for the end of the process. False if it still runs after `limit`, or when `hurry` says to stop waiting.
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

/// Every process of the program `program` that carries exactly `argument`: a server whose record was lost.
pub(crate) fn strays(program: &str, argument: &str) -> Vec<Process> {
    let is_stray = |row: &table::Row| {
        let name = row.arguments.first().and_then(|path| path.rsplit('/').next());
        !row.is_zombie && name == Some(program) && row.arguments.iter().any(|given| given == argument)
    };
    table::rows().iter().filter(|row| is_stray(row)).map(|row| Process { pid: row.pid, started: row.started }).collect()
}

/// Kills and reaps a child with all it started.
pub(crate) fn end(child: &mut Child) {
    if let Some(process) = Process::of(child.id()) {
        process.kill_tree();
    }
    // an error here means that it was reaped already
    let _ = child.wait();
}

pub(crate) fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
