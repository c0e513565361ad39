//! Shows a replay's progress on standard error: as a bar on a terminal, otherwise as a line every few seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    begun: Instant,
    last_line: Instant,
}

impl Progress {
    pub(super) fn new(records: u64) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(records), target);
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} records, {msg}, {eta} to go");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self { bar, is_terminal, begun: now, last_line: now }
    }

    /// Prints the whole replay's duration and rate.
    #[expect(clippy::cast_precision_loss, reason = "only displayed")]
    pub(super) fn finish(&self, events: u64) {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.bar.suspend(|| eprintln!("{seconds:.1} s, {:.0} events/s", events as f64 / seconds.max(0.001)));
    }

    #[expect(clippy::cast_precision_loss, reason = "only displayed")]
    pub(super) fn show(&mut self, records: u64, events: u64) {
        self.bar.set_position(records);
        let rate = format!("{:.0} events/s", events as f64 / self.begun.elapsed().as_secs_f64().max(0.001));
        if !self.is_terminal && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            eprintln!("{}/{} records, {rate}", self.bar.position(), self.bar.length().unwrap_or(0));
        }
        self.bar.set_message(rate);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
