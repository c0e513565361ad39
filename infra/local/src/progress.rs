//! Shows progress on standard error, on a terminal or in a log.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};

#[derive(Clone, Debug)]
pub(crate) struct Progress {
    bars: Option<MultiProgress>,
}

impl Progress {
    /// Creates animated spinners if standard error is a terminal, plain lines otherwise.
    #[must_use]
    pub(crate) fn spinners() -> Self {
        Self { bars: std::io::stderr().is_terminal().then(MultiProgress::new) }
    }

    /// Creates plain lines, for use while another program writes to the same terminal.
    #[must_use]
    pub(crate) fn lines() -> Self {
        Self { bars: None }
    }

    /// Prints a permanent line.
    pub(crate) fn print_line(&self, line: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// Starts a task, such as `Downloading Kafka 4.3.0`.
    #[must_use]
    pub(crate) fn start_task(&self, what: &str) -> Task {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            self.print_line(what);
        }
        Task { progress: self.clone(), bar, begun: Instant::now() }
    }
}

/// A running task.
#[derive(Debug)]
pub(crate) struct Task {
    progress: Progress,
    bar: Option<ProgressBar>,
    begun: Instant,
}

impl Task {
    /// Shows the current step and the bytes on disk.
    pub(crate) fn step(&self, doing: &str, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{doing}, {} so far", HumanBytes(bytes)));
        }
    }

    /// Prints the result, such as `Downloaded Kafka 4.3.0`, and the time it took.
    pub(crate) fn done(self, result: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.progress.print_line(&format!("{result} ({:.1} s)", self.begun.elapsed().as_secs_f32()));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
