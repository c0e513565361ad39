//! The stack that a clone shares among its runs: one Kafka, one PostgreSQL, one ClickHouse under `.local`. Whoever uses
//! it holds a lock; the last one to leave stops it. Servers of single tests are not its business (see `private`).

mod endpoints;
mod record;
mod start;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

pub use endpoints::Endpoints;
pub(crate) use endpoints::own_address;
pub use record::{Entry, Record};

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::server::{Kind, Listen, Site};
use crate::workspace::{Workspace, create_open_folder};

/// How long a server may take to stop by itself.
const STOP_LIMIT: Duration = Duration::from_secs(15);

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
    pub(crate) fn enter(&self) -> Result<Use> {
        let file = self.open("in-use")?;
        file.lock_shared().context("cannot lock .local/in-use")?;
        Ok(Use { _lock: file })
    }

    /// Ends a use. Stops the servers if nobody else uses them and nobody asked to keep them; true if it did.
    pub(crate) fn leave(&self, own_use: Use, progress: &Progress, interrupt: &Interrupt) -> Result<bool> {
        drop(own_use);
        let _guard = self.guard()?;
        let others = self.open("in-use")?;
        if others.try_lock().is_err() || self.record().kept {
            return Ok(false);
        }
        self.stop_guarded(progress, interrupt)?;
        Ok(true)
    }

    /// Whether somebody uses the stack right now.
    pub(crate) fn is_in_use(&self) -> Result<bool> {
        Ok(self.open("in-use")?.try_lock().is_err())
    }

    /// Stops every server, whoever uses it.
    pub(crate) fn stop(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let _guard = self.guard()?;
        self.stop_guarded(progress, interrupt)
    }

    /// Stops every server and deletes its data and logs.
    pub(crate) fn wipe(&self, progress: &Progress, interrupt: &Interrupt) -> Result<()> {
        let _guard = self.guard()?;
        self.stop_guarded(progress, interrupt)?;
        let record = self.record();
        for kind in Kind::ALL {
            let data = record.servers.get(&kind).map(|entry| entry.data.clone());
            let folders = [Some(self.home(kind)), data];
            for folder in folders.into_iter().flatten().filter(|folder| folder.exists()) {
                fs::remove_dir_all(&folder).with_context(|| format!("cannot delete {}", folder.display()))?;
            }
        }
        Record::default().save(&self.state)
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
                progress.say(&format!("{} did not stop in time and was killed; its data is kept", kind.name()));
                process.kill_tree();
            }
        }
        for entry in record.servers.values_mut() {
            entry.process = None;
        }
        record.kept = false;
        record.save(&self.state)?;
        if !leaving.is_empty() {
            let mut names: Vec<&str> = leaving.iter().map(|(kind, _)| kind.name()).collect();
            names.dedup();
            progress.say(&format!("stopped {} ({:.1} s)", names.join(", "), begun.elapsed().as_secs_f32()));
        }
        Ok(())
    }

    fn site(&self, kind: Kind, listen: Listen) -> Result<Site> {
        Site::new(kind, &self.home(kind), listen, &self.workspace.launcher())
    }

    /// Starting and stopping is done by one process at a time.
    fn guard(&self) -> Result<File> {
        let file = self.open("lock")?;
        file.lock().context("cannot lock .local/lock")?;
        Ok(file)
    }

    fn open(&self, name: &str) -> Result<File> {
        let path = self.state.join(name);
        File::options().create(true).append(true).open(&path).with_context(|| format!("cannot write {}", path.display()))
    }
}
