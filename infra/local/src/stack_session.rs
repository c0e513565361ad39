//! A use of the stack by `up` or `verify`. Restarts servers that end during the session. Stops the servers afterwards, unless another
//! command uses them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::environment::ExternalServers;
use crate::fetch;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::server_kind::ServerKind;
use crate::stack::{Endpoints, Stack};
use crate::test_programs;
use crate::workspace::Workspace;

/// Interval between checks for ended servers.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before a failed restart is retried.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Context of the work in a session.
#[derive(Debug)]
pub(crate) struct StackSession {
    pub(crate) workspace: Workspace,
    pub(crate) launcher: PathBuf,
    pub(crate) interrupt: Interrupt,
    stack: Stack,
    external: ExternalServers,
    progress: Progress,
}

impl StackSession {
    /// Starts a session, does the work and ends the session.
    pub(crate) fn run_in<T>(interrupt: &Interrupt, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let workspace = Workspace::find()?;
        let stack = Stack::for_workspace(workspace.clone())?;
        let own_use = stack.begin_use(interrupt)?;
        let launcher = workspace.install_launcher()?;
        let (given, progress) = (ExternalServers::from_environment(), Progress::lines());
        let session = Self { workspace, launcher, interrupt: interrupt.clone(), stack, external: given, progress };
        let outcome = work(&session);
        session.stack.end_use(own_use, &session.progress, interrupt)?;
        outcome
    }

    /// Returns the servers that we run.
    pub(crate) fn managed_servers(&self) -> Vec<ServerKind> {
        Stack::managed(&self.external)
    }

    /// Returns the folder for a run's files.
    pub(crate) fn state(&self) -> &Path {
        self.stack.state()
    }

    /// Returns whether a server was ever started for this clone.
    pub(crate) fn has_data(&self) -> bool {
        !self.stack.record().servers.is_empty()
    }

    /// Downloads the servers concurrently with `other`.
    pub(crate) fn fetch_during<T>(&self, other: impl FnOnce() -> Result<T>) -> Result<T> {
        std::thread::scope(|scope| {
            let fetch = scope.spawn(|| fetch::fetch(&self.managed_servers(), &self.progress, &self.interrupt));
            let other = other();
            let fetched = fetch.join().expect("a fetch does not panic");
            let other = other?;
            fetched.map(|()| other)
        })
    }

    /// Compiles `cargo-deny` if it is missing.
    pub(crate) fn fetch_cargo_deny(&self) -> Result<()> {
        fetch::fetch_cargo_deny(&self.progress, &self.interrupt)
    }

    /// Prints a progress line.
    pub(crate) fn print_line(&self, line: &str) {
        self.progress.print_line(line);
    }

    /// Downloads the programs that tests need.
    pub(crate) fn fetch_programs(&self) -> Result<()> {
        test_programs::fetch_all(&self.progress, &self.interrupt)
    }

    pub(crate) fn start(&self) -> Result<Endpoints> {
        self.stack.start(&self.external, false, &self.progress, &self.interrupt)
    }

    /// Starts the servers for a service, without administrator access.
    pub(crate) fn start_for_service(&self) -> Result<Endpoints> {
        self.start().map(|endpoints| endpoints.with_owner_accounts(&self.external))
    }

    /// Restarts ended servers while `work` runs.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.restart_ended_until(&is_over));
            let outcome = work();
            is_over.store(true, Ordering::SeqCst);
            outcome
        })
    }

    fn restart_ended_until(&self, is_over: &AtomicBool) {
        let must_end = || is_over.load(Ordering::SeqCst) || self.interrupt.is_requested();
        while !must_end() {
            let mut pause = CHECK_INTERVAL;
            if let Err(error) = self.stack.restart_ended(&self.progress, &self.interrupt)
                && !must_end()
            {
                self.progress.print_line(&format!("error: {error:#}, retrying"));
                pause = AFTER_FAILURE;
            }
            let naps = pause.as_millis() / 100;
            (0..naps).take_while(|_| !must_end()).for_each(|_| std::thread::sleep(Duration::from_millis(100)));
        }
    }
}
