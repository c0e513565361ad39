//! Ends a process when ours ends. If we are killed, a helper sees our end of a pipe close, and ends the process with its children. A
//! regular end releases the helper first.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::process::Process;

/// Arguments of the helper.
#[derive(Debug, clap::Args)]
pub(crate) struct HelperArgs {
    /// The process to end
    #[arg(long)]
    pid: u32,
    /// Its start time
    #[arg(long)]
    started: u64,
    /// Folder to delete after the process ends
    #[arg(long)]
    delete: Option<PathBuf>,
}

/// Waits for a byte or the end of the input. At the end of the input, ends the process.
pub(crate) fn run_helper(tied: &HelperArgs) {
    let mut word = [0; 1];
    let released = std::io::stdin().read(&mut word).is_ok_and(|count| count > 0);
    if !released {
        Process { pid: tied.pid, started: tied.started }.kill_tree();
        if let Some(folder) = &tied.delete {
            // Nothing is left that a failure could be reported to.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Our end of the pipe.
#[derive(Debug)]
pub(crate) struct KillOnExit {
    helper: Child,
}

impl KillOnExit {
    /// Ties a process to ours. The helper also deletes the `delete` folder.
    pub(crate) fn attach(launcher: &Path, process: Process, delete: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(launcher);
        command.args(["tether", "--pid", &process.pid.to_string(), "--started", &process.started.to_string()]);
        if let Some(folder) = delete {
            command.arg("--delete").arg(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { helper: command.spawn().context("cannot start the launcher")? })
    }

    /// Releases the helper without any effect. Can be called repeatedly.
    pub(crate) fn release(&mut self) {
        if let Some(mut pipe) = self.helper.stdin.take() {
            // The helper may have ended already.
            let _ = pipe.write_all(b".");
        }
        if let Some(helper) = Process::find(self.helper.id()) {
            helper.signal(Signal::CONT);
        }
        let _ = self.helper.wait();
    }
}

impl Drop for KillOnExit {
    fn drop(&mut self) {
        self.release();
    }
}
