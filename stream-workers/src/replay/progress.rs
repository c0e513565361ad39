//! Tells people how far a replay is: a bar on a terminal, else a line now and then. On standard error only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows a replay until dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    begun: Instant,
    said: Instant,
    events: u64,
}

impl Progress {
    pub(super) fn of(records: u64) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(records), target);
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} records, {msg}, {eta} to go");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self { bar, is_terminal, begun: now, said: now, events: 0 }
    }

    /// So many records with so many events more are done.
    pub(super) fn advance(&mut self, records: u64, events: u64) {
        self.events += events;
        self.bar.inc(records);
        let rate = format!("{:.0} events/s", self.events_per_second());
        if !self.is_terminal && self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            eprintln!("{}/{} records, {rate}", self.bar.position(), self.bar.length().unwrap_or(0));
        }
        self.bar.set_message(rate);
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(super) fn events_per_second(&self) -> f64 {
        self.events as f64 / self.begun.elapsed().as_secs_f64().max(0.001)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
