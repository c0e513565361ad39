//! `telemetry events tail`: polls for the newest events, ordered by time.

use super::{COLUMNS, CSV_COLUMNS, path};
use crate::client::{Client, Parameters};
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::reads::Window;
use crate::terminal::print_message;
use clap::Args;
use serde_json::Value;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

const PAGE: usize = 200;
const REMEMBERED: usize = 10_000;
/// Maximum number of pages per poll: as many events as are remembered.
const MOST_PAGES: usize = REMEMBERED / PAGE;

/// Options of `telemetry events tail`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Tail {
    #[command(flatten)]
    window: Window,
    /// Watch your own reports and those that used your click tokens
    #[arg(long, conflicts_with_all = ["domain", "delegated_from"])]
    agent: bool,
    /// Number of past events to start with
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10)]
    lines: usize,
    /// Seconds between requests
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Exit after this many events
    #[arg(long, value_name = "NUMBER")]
    count: Option<usize>,
}

#[derive(Default)]
struct PrintedEvents {
    ids: HashSet<String>,
    oldest_first: VecDeque<String>,
}

impl PrintedEvents {
    fn contains(&self, event: &Value) -> bool {
        self.ids.contains(id(event))
    }

    /// Records an event. Returns whether it is new.
    fn insert(&mut self, event: &Value) -> bool {
        let id = id(event).to_owned();
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

fn id(event: &Value) -> &str {
    event["event_id"].as_str().unwrap_or_default()
}

struct PollResult {
    newest_first: Vec<Value>,
    /// Whether there were more new events than were read.
    is_cut: bool,
}

/// Reads pages until the first event that was already printed, or up to the limit.
async fn poll(
    client: &Client,
    path: &str,
    parameters: &Parameters,
    shown: &PrintedEvents,
    first: Option<usize>,
) -> Result<PollResult, Failure> {
    let mut newest_first: Vec<Value> = Vec::new();
    for page in 0..MOST_PAGES {
        let part = [("limit", PAGE.to_string()), ("offset", (page * PAGE).to_string())];
        let answer = client.get(path, &[parameters.as_slice(), &part].concat()).await?;
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        newest_first.extend(items.iter().cloned());
        let is_enough = first.is_some_and(|most| newest_first.len() >= most);
        if items.len() < PAGE || is_enough || items.iter().any(|event| shown.contains(event)) {
            return Ok(PollResult { newest_first, is_cut: false });
        }
    }
    Ok(PollResult { newest_first, is_cut: true })
}

pub(super) async fn run(context: &Context, what: &Tail) -> Result<(), Failure> {
    let client = context.client(CredentialKind::KeyOrPerson)?;
    context.output().header(&CSV_COLUMNS)?;
    let mut shown = PrintedEvents::default();
    let (mut is_first, mut left) = (true, what.count);
    loop {
        let parameters = what.window.parameters(context);
        match poll(&client, path(what.agent), &parameters, &shown, is_first.then_some(what.lines)).await {
            Ok(PollResult { newest_first, is_cut }) => {
                let fresh: Vec<&Value> = newest_first.iter().rev().filter(|event| shown.insert(event)).collect();
                if is_cut {
                    print_message(&format!(
                        "Showing only the newest {} events; `telemetry events list` shows the others.",
                        fresh.len()
                    ));
                }
                let unwanted = if is_first { fresh.len().saturating_sub(what.lines) } else { 0 };
                for event in fresh.into_iter().skip(unwanted) {
                    context.output().line(event, &COLUMNS, &CSV_COLUMNS)?;
                    left = left.map(|left| left.saturating_sub(1));
                    if left == Some(0) {
                        return Ok(());
                    }
                }
                is_first = false;
            }
            Err(failure) if failure.is_temporary() && !is_first => print_message(&failure.to_string()),
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(Duration::from_secs(what.interval)).await;
    }
}
