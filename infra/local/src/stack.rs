//! The servers that all runs in a clone share, with their data in `.local`. Each user of the stack holds a shared lock; the last
//! one to leave stops the servers.

mod endpoints;
mod record;
mod start;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

pub use endpoints::Endpoints;
pub(crate) use endpoints::{check_external, external_address, managed_address};
pub use record::{Entry, Record};

use crate::interrupt::Interrupt;
use crate::locks;
use crate::progress::Progress;
use crate::server_config::ServerConfig;
use crate::server_kind::{ServerKind, ServerPorts};
use crate::workspace::{Workspace, create_open_folder};

/// Time limit for a regular stop.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Files in `.local` that `wipe` keeps: locked files, and the launcher.
const KEPT_BY_WIPE: [&str; 3] = ["lock", "in-use", "bin"];

/// The servers of a clone.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    workspace: Workspace,
    state: PathBuf,
}

/// One use of the stack. Others can't stop the stack during it.
#[derive(Debug)]
pub(crate) struct StackUse {
    _lock: File,
}

impl Stack {
    /// Returns this clone's stack. Creates `.local`.
    pub(crate) fn for_workspace(workspace: Workspace) -> Result<Self> {
        let state = workspace.state();
        create_open_folder(&state)?;
        Ok(Self { workspace, state })
    }

    /// Returns the `.local` folder.
    #[must_use]
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Returns a server's folder.
    #[must_use]
    pub(crate) fn home(&self, kind: ServerKind) -> PathBuf {
        self.state.join(kind.name())
    }

    /// Returns the record of the servers.
    #[must_use]
    pub(crate) fn record(&self) -> Record {
        Record::load(&self.state)
    }

    /// Registers a use of the stack.
    pub(crate) fn begin_use(&self, interrupt: &Interrupt) -> Result<StackUse> {
        let file = locks::open(&self.state.join("in-use"))?;
        locks::shared(&file, || interrupt.is_requested())?;
        Ok(StackUse { _lock: file })
    }

    /// Ends a use. Stops the servers if nothing else uses them and they should not be kept.
    pub(crate) fn end_use(&self, own_use: StackUse, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        drop(own_use);
        let _guard = self.lock_start_and_stop(|| interrupt.is_immediate_stop_requested())?;
        let others = locks::open(&self.state.join("in-use"))?;
        if others.try_lock().is_err() {
            progress.print_line("The servers keep running: another command uses them.");
            return Ok(());
        }
        if self.record().kept {
            progress.print_line(
                "The servers keep running because `cargo local start` started them. To stop them: `cargo local stop`",
            );
            return Ok(());
        }
        self.stop_locked(progress, interrupt)
    }

    /// Stops every server. Fails while the stack is in use.
    pub(crate) fn stop(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let _guard = self.lock_start_and_stop(|| interrupt.is_requested())?;
        let _nobody_else = self.lock_exclusively()?;
        self.stop_locked(progress, interrupt)
    }

    /// Locks the stack exclusively, before stopping it.
    fn lock_exclusively(&self) -> Result<File> {
        let in_use = locks::open(&self.state.join("in-use"))?;
        ensure!(
            in_use.try_lock().is_ok(),
            "the servers are in use: end `cargo up` and `cargo verify` first; that stops the servers, too"
        );
        Ok(in_use)
    }

    /// Stops every server and deletes everything in `.local` except `KEPT_BY_WIPE`. Fails while the stack is in use.
    pub(crate) fn wipe(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let _guard = self.lock_start_and_stop(|| interrupt.is_requested())?;
        let _nobody_else = self.lock_exclusively()?;
        self.stop_locked(progress, interrupt)?;
        for kind in ServerKind::ALL.into_iter().filter(|kind| self.home(*kind).exists()) {
            let data = self.site(kind, ServerPorts::default())?.data;
            if let Some(elsewhere) = data.parent().filter(|parent| !parent.starts_with(&self.state)) {
                remove(elsewhere)?;
            }
        }
        for entry in fs::read_dir(&self.state).context("cannot read .local")? {
            let entry = entry?;
            if !KEPT_BY_WIPE.iter().any(|kept| entry.file_name() == *kept) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn stop_locked(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let mut record = self.record();
        let mut leaving = Vec::new();
        for kind in ServerKind::ALL {
            let known = record.running(kind).and_then(|entry| entry.process);
            let strays = self.home(kind).exists().then(|| self.site(kind, ServerPorts::default())).transpose()?;
            let strays = strays.map(|site| site.unrecorded_processes()).unwrap_or_default();
            let others = strays.into_iter().filter(|stray| Some(*stray) != known);
            leaving.extend(known.into_iter().chain(others).map(|process| (kind, process)));
        }
        let begun = Instant::now();
        for (kind, process) in &leaving {
            // A paused process would never handle the signal.
            process.signal(Signal::CONT);
            process.signal(kind.stop_signal());
        }
        for (kind, process) in &leaving {
            let limit = STOP_LIMIT.saturating_sub(begun.elapsed());
            if !process.wait_until_gone(limit, || interrupt.is_immediate_stop_requested()) {
                progress.print_line(&format!("{} didn't stop in time and was killed; its data is kept", kind.title()));
                process.kill_tree();
            }
        }
        for entry in record.servers.values_mut() {
            entry.process = None;
        }
        record.kept = false;
        record.save(&self.state)?;
        if !leaving.is_empty() {
            let mut names: Vec<&str> = leaving.iter().map(|(kind, _)| kind.title()).collect();
            names.dedup();
            progress.print_line(&format!("Stopped {} ({:.1} s)", names.join(", "), begun.elapsed().as_secs_f32()));
        }
        Ok(())
    }

    fn site(&self, kind: ServerKind, listen: ServerPorts) -> Result<ServerConfig> {
        ServerConfig::new(kind, &self.home(kind), listen, &self.workspace.launcher())
    }

    /// Locks starting and stopping, because only one process may do either at a time.
    fn lock_start_and_stop(&self, give_up: impl Fn() -> bool) -> Result<File> {
        let file = locks::open(&self.state.join("lock"))?;
        locks::exclusive(&file, give_up)?;
        Ok(file)
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot delete {}", path.display()))
}
