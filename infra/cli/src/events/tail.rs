//! `telemetry events tail`: the newest events again and again.
//!
//! Must print an event once, as long as it is among those that are remembered.

use super::{COLUMNS, path};
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::reads::Window;
use crate::talk::say;
use clap::Args;
use serde_json::Value;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// How many of the newest events are looked at each time.
const NEWEST: &str = "200";
/// How many events are remembered.
const REMEMBERED: usize = 10_000;

/// What to wait for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Tail {
    #[command(flatten)]
    window: Window,
    /// What the organisation reported itself, and what others did with its click tokens
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
    /// Events of before to begin with
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10)]
    lines: usize,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// End after so many events
    #[arg(long, value_name = "NUMBER")]
    count: Option<usize>,
}

/// Events that were shown.
#[derive(Default)]
struct Shown {
    ids: HashSet<String>,
    oldest_first: VecDeque<String>,
}

impl Shown {
    /// Whether the event is new; from then on it is not.
    fn takes(&mut self, event: &Value) -> bool {
        let id = event["event_id"].as_str().unwrap_or_default().to_owned();
        if !self.ids.insert(id.clone()) {
            return false;
        }
        self.oldest_first.push_back(id);
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

pub(super) async fn run(context: &Context, what: &Tail) -> Result<(), Failure> {
    let client = context.client(Asker::Either)?;
    let mut shown = Shown::default();
    let (mut is_first, mut left) = (true, what.count);
    loop {
        let mut parameters = what.window.parameters(context);
        parameters.push(("limit", NEWEST.to_owned()));
        match client.get(path(what.agent), &parameters).await {
            Ok(answer) => {
                let newest_first = answer["items"].as_array().cloned().unwrap_or_default();
                let fresh: Vec<&Value> = newest_first.iter().filter(|event| shown.takes(event)).collect();
                let most = if is_first { what.lines } else { usize::MAX };
                for event in fresh.into_iter().take(most).rev() {
                    context.output().line(event, &COLUMNS)?;
                    left = left.map(|left| left.saturating_sub(1));
                    if left == Some(0) {
                        return Ok(());
                    }
                }
                is_first = false;
            }
            Err(failure) if failure.is_passing() && !is_first => say(&failure.to_string()),
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(Duration::from_secs(what.interval)).await;
    }
}
