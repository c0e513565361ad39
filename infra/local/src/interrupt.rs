//! Stop requests by Ctrl-C and other signals, which loops poll. The first signal requests a stop, the second an immediate stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Counts stop requests. The default never receives any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    requests: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Starts to listen for SIGINT, SIGTERM and SIGHUP.
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

    /// Returns whether a stop was requested.
    #[must_use]
    pub(crate) fn is_requested(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 0
    }

    /// Returns whether an immediate stop was requested.
    #[must_use]
    pub(crate) fn is_immediate_stop_requested(&self) -> bool {
        self.requests.load(Ordering::SeqCst) > 1
    }

    /// Returns an error if a stop was requested.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_requested() {
            bail!("interrupted");
        }
        Ok(())
    }
}
