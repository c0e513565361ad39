//! Tells people at a terminal how a load is going. It only writes to standard error, and nothing when that is no terminal.

use crate::drive::{Course, Tally, lock};
use crate::oracle::Fate;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

const REFRESH: Duration = Duration::from_millis(250);

/// Shows a load until dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    _stop: DropGuard,
}

impl Progress {
    /// Shows the load `what`, which takes `duration`.
    pub fn show(what: &str, duration: Duration, course: &Arc<Course>, tally: &Arc<Mutex<Tally>>) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        let target = if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(millis(duration)), target);
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(what.to_owned());
        let stop = CancellationToken::new();
        if is_seen {
            tokio::spawn(keep_showing(bar.clone(), Arc::clone(course), Arc::clone(tally), stop.clone()));
        } else {
            eprintln!("{what}: {duration:.0?}");
        }
        Self { bar, _stop: stop.drop_guard() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

async fn keep_showing(bar: ProgressBar, course: Arc<Course>, tally: Arc<Mutex<Tally>>, stop: CancellationToken) {
    let begun = Instant::now();
    let (mut acked_before, mut looked) = (0, begun);
    while !stop.is_cancelled() {
        sleep(REFRESH).await;
        let (acked, refused, unknown) = {
            let tally = lock(&tally);
            (tally.events(Fate::Acked), tally.events(Fate::Refused), tally.events(Fate::Unknown))
        };
        let violations = lock(&course.oracle).violations().count();
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let rate = acked.saturating_sub(acked_before) as f64 / looked.elapsed().as_secs_f64();
        (acked_before, looked) = (acked, Instant::now());
        bar.set_position(millis(begun.elapsed()));
        bar.set_message(format!(
            "{rate:.0} events/s, {acked} acked, {refused} refused, {unknown} unknown, {violations} violations"
        ));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
