//! One use of the stack, from entering to leaving: the frame of `up` and `verify`. While it lasts, servers that die are
//! started again; when it ends, however it ends, the servers stop unless somebody else needs them.

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

/// How often the watcher looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long it leaves a server alone that could not be started.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What the work inside a session needs.
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
    /// Enters, does the work and leaves.
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

    /// The servers that are ours to run.
    pub(crate) fn own(&self) -> Vec<Kind> {
        Stack::own(&self.given)
    }

    /// The folder for what a run leaves behind.
    pub(crate) fn state(&self) -> &Path {
        self.stack.state()
    }

    /// Whether a server was ever started for this clone.
    pub(crate) fn has_data(&self) -> bool {
        !self.stack.record().servers.is_empty()
    }

    /// Fetches the servers while `other` does something else.
    pub(crate) fn fetch_beside<T>(&self, other: impl FnOnce() -> Result<T>) -> Result<T> {
        std::thread::scope(|scope| {
            let fetch = scope.spawn(|| fetch::fetch(&self.own(), &self.progress, &self.interrupt));
            let other = other();
            let fetched = fetch.join().expect("a fetch does not panic");
            let other = other?;
            fetched.map(|()| other)
        })
    }

    /// Compiles what checks dependencies if it is missing.
    pub(crate) fn fetch_cargo_deny(&self) -> Result<()> {
        fetch::fetch_cargo_deny(&self.progress, &self.interrupt)
    }

    /// One line for whoever waits.
    pub(crate) fn say(&self, line: &str) {
        self.progress.say(line);
    }

    /// Fetches the programs that tests need.
    pub(crate) fn fetch_programs(&self) -> Result<()> {
        programs::fetch_all(&self.progress, &self.interrupt)
    }

    pub(crate) fn start(&self) -> Result<Endpoints> {
        self.stack.start(&self.given, false, &self.progress, &self.interrupt)
    }

    /// Starts the servers, for a service that is not to administer them.
    pub(crate) fn start_for_service(&self) -> Result<Endpoints> {
        self.start().map(|endpoints| endpoints.of_the_owner(&self.given))
    }

    /// Keeps the servers alive for as long as `work` takes.
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
                self.progress.say(&format!("error: {error:#}; trying again"));
                pause = AFTER_FAILURE;
            }
            let naps = pause.as_millis() / 100;
            (0..naps).take_while(|_| !must_end()).for_each(|_| std::thread::sleep(Duration::from_millis(100)));
        }
    }
}
