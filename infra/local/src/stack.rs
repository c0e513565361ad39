//! The stack that a clone shares among its runs: one Kafka, one PostgreSQL, one ClickHouse under `.local`. Whoever uses
//! it holds a lock; the last one to leave stops it. Servers of single tests are not its business (see `private`).

mod endpoints;
mod record;
mod start;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

pub use endpoints::Endpoints;
pub(crate) use endpoints::{check_given, given_address, own_address};
pub use record::{Entry, Record};

use crate::interrupt::Interrupt;
use crate::kind::{Kind, Listen};
use crate::locks;
use crate::progress::Progress;
use crate::site::Site;
use crate::workspace::{Workspace, create_open_folder};

/// How long a server may take to stop by itself.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// What `wipe` leaves in `.local`: the locks it holds, and the launcher that is no data.
const KEPT_BY_WIPE: [&str; 3] = ["lock", "in-use", "bin"];

/// The servers of one clone.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    workspace: Workspace,
    state: PathBuf,
}

/// Proof that somebody uses the stack; while any exists, nobody stops it by leaving.
#[derive(Debug)]
pub(crate) struct Use {
    _lock: File,
}

impl Stack {
    /// The stack of this clone. Creates `.local`.
    pub(crate) fn of(workspace: Workspace) -> Result<Self> {
        let state = workspace.state();
        create_open_folder(&state)?;
        Ok(Self { workspace, state })
    }

    /// The `.local` folder.
    #[must_use]
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// The folder of one server.
    #[must_use]
    pub(crate) fn home(&self, kind: Kind) -> PathBuf {
        self.state.join(kind.name())
    }

    /// What is known about the servers.
    #[must_use]
    pub(crate) fn record(&self) -> Record {
        Record::load(&self.state)
    }

    /// Declares that the caller uses the stack from now on.
    pub(crate) fn enter(&self, interrupt: &Interrupt) -> Result<Use> {
        let file = locks::open(&self.state.join("in-use"))?;
        locks::shared(&file, || interrupt.is_requested())?;
        Ok(Use { _lock: file })
    }

    /// Ends a use. Stops the servers if nobody else uses them and nobody asked to keep them.
    pub(crate) fn leave(&self, own_use: Use, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        drop(own_use);
        let _guard = self.guard(|| interrupt.is_insisted())?;
        let others = locks::open(&self.state.join("in-use"))?;
        if others.try_lock().is_err() {
            progress.say("The servers keep running: another command uses them.");
            return Ok(());
        }
        if self.record().kept {
            progress.say("The servers keep running because `cargo local start` started them. To stop them: `cargo local stop`");
            return Ok(());
        }
        self.stop_guarded(progress, interrupt)
    }

    /// Stops every server. Refuses while somebody uses the stack.
    pub(crate) fn stop(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let _guard = self.guard(|| interrupt.is_requested())?;
        let _nobody_else = self.alone()?;
        self.stop_guarded(progress, interrupt)
    }

    /// Holds the stack for the caller alone, who is to stop it.
    fn alone(&self) -> Result<File> {
        let in_use = locks::open(&self.state.join("in-use"))?;
        ensure!(
            in_use.try_lock().is_ok(),
            "the servers are in use: end `cargo up` and `cargo verify` first; that stops the servers, too"
        );
        Ok(in_use)
    }

    /// Stops every server and deletes all that a run has left in `.local`. Refuses while somebody uses the stack.
    pub(crate) fn wipe(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let _guard = self.guard(|| interrupt.is_requested())?;
        let _nobody_else = self.alone()?;
        self.stop_guarded(progress, interrupt)?;
        for kind in Kind::ALL.into_iter().filter(|kind| self.home(*kind).exists()) {
            let data = self.site(kind, Listen::default())?.data;
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

    fn stop_guarded(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let mut record = self.record();
        let mut leaving = Vec::new();
        for kind in Kind::ALL {
            let known = record.running(kind).and_then(|entry| entry.process);
            let strays = self.home(kind).exists().then(|| self.site(kind, Listen::default())).transpose()?;
            let strays = strays.map(|site| site.strays()).unwrap_or_default();
            let others = strays.into_iter().filter(|stray| Some(*stray) != known);
            leaving.extend(known.into_iter().chain(others).map(|process| (kind, process)));
        }
        let begun = Instant::now();
        for (kind, process) in &leaving {
            // a paused process would never see the request
            process.signal(Signal::CONT);
            process.signal(kind.stop_signal());
        }
        for (kind, process) in &leaving {
            let limit = STOP_LIMIT.saturating_sub(begun.elapsed());
            if !process.wait_until_gone(limit, || interrupt.is_insisted()) {
                progress.say(&format!("{} didn't stop in time and was killed; its data is kept", kind.title()));
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
            progress.say(&format!("Stopped {} ({:.1} s)", names.join(", "), begun.elapsed().as_secs_f32()));
        }
        Ok(())
    }

    fn site(&self, kind: Kind, listen: Listen) -> Result<Site> {
        Site::new(kind, &self.home(kind), listen, &self.workspace.launcher())
    }

    /// Starting and stopping is done by one process at a time.
    fn guard(&self, give_up: impl Fn() -> bool) -> Result<File> {
        let file = locks::open(&self.state.join("lock"))?;
        locks::exclusive(&file, give_up)?;
        Ok(file)
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot delete {}", path.display()))
}
