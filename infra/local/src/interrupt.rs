//! Ctrl-C and its relatives as a question that loops ask. The first signal asks to stop, the second to stop at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Counts the requests to stop. The default one never sees any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    requests: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen for signals")?;
        let requests = Arc::clone(&interrupt.requests);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                requests.fetch_add(1, Ordering::SeqCst);
            }
        });
        Ok(interrupt)
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub(crate) fn is_requested(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 0
    }

    /// Whether it was asked for again: no more grace.
    #[must_use]
    pub(crate) fn is_insisted(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 1
    }

    /// An error if a stop was asked for, to leave a longer piece of work with `?`.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_requested() {
            bail!("interrupted");
        }
        Ok(())
    }
}
