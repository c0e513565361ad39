//! A use of the stack by `up` or `verify`. During it, servers that end are restarted. After it, the servers stop unless another
//! command uses them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::fetch;
use crate::interrupt::Interrupt;
use crate::kind::Kind;
use crate::programs;
use crate::progress::Progress;
use crate::settings::Given;
use crate::stack::{Endpoints, Stack};
use crate::workspace::Workspace;

/// Interval of the check for ended servers.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Delay before a failed restart is retried.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Context of the work in a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) workspace: Workspace,
    pub(crate) launcher: PathBuf,
    pub(crate) interrupt: Interrupt,
    stack: Stack,
    given: Given,
    progress: Progress,
}

impl Session {
    /// Starts a session, does the work and ends the session.
    pub(crate) fn hold<T>(interrupt: &Interrupt, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let workspace = Workspace::find()?;
        let stack = Stack::of(workspace.clone())?;
        let own_use = stack.enter(interrupt)?;
        let launcher = workspace.install_launcher()?;
        let (given, progress) = (Given::from_environment(), Progress::lines());
        let session = Self { workspace, launcher, interrupt: interrupt.clone(), stack, given, progress };
        let outcome = work(&session);
        session.stack.leave(own_use, &session.progress, interrupt)?;
        outcome
    }

    /// Returns the servers that we run.
    pub(crate) fn own(&self) -> Vec<Kind> {
        Stack::own(&self.given)
    }

    /// Returns the folder for files of a run.
    pub(crate) fn state(&self) -> &Path {
        self.stack.state()
    }

    /// Returns whether a server was ever started for this clone.
    pub(crate) fn has_data(&self) -> bool {
        !self.stack.record().servers.is_empty()
    }

    /// Downloads the servers concurrently with `other`.
    pub(crate) fn fetch_beside<T>(&self, other: impl FnOnce() -> Result<T>) -> Result<T> {
        std::thread::scope(|scope| {
            let fetch = scope.spawn(|| fetch::fetch(&self.own(), &self.progress, &self.interrupt));
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
    pub(crate) fn say(&self, line: &str) {
        self.progress.say(line);
    }

    /// Downloads the programs that tests need.
    pub(crate) fn fetch_programs(&self) -> Result<()> {
        programs::fetch_all(&self.progress, &self.interrupt)
    }

    pub(crate) fn start(&self) -> Result<Endpoints> {
        self.stack.start(&self.given, false, &self.progress, &self.interrupt)
    }

    /// Starts the servers, for a service without administrator access.
    pub(crate) fn start_for_service(&self) -> Result<Endpoints> {
        self.start().map(|endpoints| endpoints.of_the_owner(&self.given))
    }

    /// Restarts ended servers for the duration of `work`.
    pub(crate) fn watch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.revive_until(&is_over));
            let outcome = work();
            is_over.store(true, Ordering::SeqCst);
            outcome
        })
    }

    fn revive_until(&self, is_over: &AtomicBool) {
        let must_end = || is_over.load(Ordering::SeqCst) || self.interrupt.is_requested();
        while !must_end() {
            let mut pause = LOOK_EVERY;
            if let Err(error) = self.stack.revive(&self.progress, &self.interrupt)
                && !must_end()
            {
                self.progress.say(&format!("error: {error:#}; retrying"));
                pause = AFTER_FAILURE;
            }
            let naps = pause.as_millis() / 100;
            (0..naps).take_while(|_| !must_end()).for_each(|_| std::thread::sleep(Duration::from_millis(100)));
        }
    }
}
