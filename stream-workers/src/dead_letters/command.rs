//! `telemetry stream-workers rejected list|show|retry`: lets operators handle dead letters.

use super::archive::{Archive, StoredDeadLetter};
use super::requeue::{Outcome, REFUSED, Requeue};
use crate::Settings;
use anyhow::bail;
use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use service_kit::command_output::{OutputFormat, OutputOptions, print_json, print_table};
use std::collections::BTreeSet;
use std::io::Write;

/// Commands for dead letters.
#[derive(Subcommand, Clone, Debug)]
pub enum RejectedCommand {
    /// List dead letters, oldest first
    List(OutputOptions),
    /// Show a dead letter: its reason and content
    Show {
        /// TOPIC/PARTITION/OFFSET of the record, as shown by `list`
        origin: String,
        /// Print only the original bytes
        #[arg(long, conflicts_with = "output")]
        raw: bool,
        /// Output format
        #[command(flatten)]
        output: OutputOptions,
    },
    /// Append dead letters to the log again if they can now be read, each at most once
    Retry(Retry),
}

/// The letters to retry.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct DeadLetterSelection {
    /// TOPIC/PARTITION/OFFSET of each record, as shown by `list`
    origins: Vec<String>,
    /// Retry all records that have not been retried
    #[arg(long)]
    all: bool,
}

/// Options of `rejected retry`.
#[derive(Args, Clone, Debug)]
pub struct Retry {
    #[command(flatten)]
    selection: DeadLetterSelection,
    #[command(flatten)]
    output: OutputOptions,
}

impl RejectedCommand {
    pub async fn run(&self, settings: &Settings) -> anyhow::Result<()> {
        let archive = Archive::read(&settings.kafka, !matches!(self, Self::List(_))).await?;
        match self {
            Self::List(output) => list(&archive, output.format()),
            Self::Show { origin, raw, output } => show(archive.find(origin)?, *raw, output.format()),
            Self::Retry(Retry { selection: DeadLetterSelection { origins, all }, output }) => {
                let chosen: Vec<&StoredDeadLetter> = if *all {
                    archive.dead_letters().filter(|letter| letter.retried.is_none()).collect()
                } else {
                    // If an origin is named twice, put its record back only once.
                    let origins: BTreeSet<&String> = origins.iter().collect();
                    origins.into_iter().map(|origin| archive.find(origin)).collect::<Result<_, _>>()?
                };
                retry(settings, &chosen, output.format()).await
            }
        }
    }
}

const TITLES: [&str; 5] = ["origin", "set aside", "bytes", "state", "reason"];

fn list(archive: &Archive, form: OutputFormat) -> anyhow::Result<()> {
    match form {
        OutputFormat::Table => print_table(&TITLES, &archive.dead_letters().map(row).collect::<Vec<_>>()),
        OutputFormat::Json => print_json(&archive.dead_letters().map(document).collect::<Vec<_>>()),
    }
}

fn row(letter: &StoredDeadLetter) -> Vec<String> {
    let state = letter.retried.as_ref().map_or_else(|| "open".to_owned(), |copy| format!("requeued as {copy}"));
    let cells =
        [letter.origin.clone(), set_aside_at(letter).unwrap_or_default(), letter.bytes.to_string(), state, letter.reason.clone()];
    cells.iter().map(|cell| harmless(cell)).collect()
}

fn document(letter: &StoredDeadLetter) -> Value {
    let StoredDeadLetter { origin, reason, bytes, retried, .. } = letter;
    json!({"origin": origin, "set_aside_at": set_aside_at(letter), "bytes": bytes, "reason": reason, "retried": retried})
}

fn set_aside_at(letter: &StoredDeadLetter) -> Option<String> {
    letter.set_aside_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

fn show(letter: &StoredDeadLetter, is_raw: bool, form: OutputFormat) -> anyhow::Result<()> {
    if is_raw {
        return Ok(std::io::stdout().write_all(&letter.payload)?);
    }
    let content = String::from_utf8_lossy(&letter.payload);
    match form {
        OutputFormat::Json => {
            let mut whole = document(letter);
            whole["content"] = json!(content);
            print_json(&whole)
        }
        OutputFormat::Table => {
            print_table(&TITLES, &[row(letter)])?;
            Ok(writeln!(std::io::stdout(), "{}", harmless(&content))?)
        }
    }
}

/// Replaces control characters, which could change the terminal's state.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

impl Outcome {
    fn row(&self, origin: &str) -> Vec<String> {
        [origin, self.status, &self.detail].map(harmless).to_vec()
    }

    fn document(&self, origin: &str) -> Value {
        let detail = if self.status == REFUSED { "reason" } else { "place" };
        json!({"origin": origin, "became": self.status.replace(' ', "_"), detail: self.detail})
    }
}

async fn retry(settings: &Settings, letters: &[&StoredDeadLetter], form: OutputFormat) -> anyhow::Result<()> {
    let queue = Requeue::open(settings)?;
    let (mut outcomes, mut failed) = (Vec::new(), Ok(()));
    for letter in letters {
        match queue.retry(letter).await {
            Ok(outcome) => outcomes.push((letter.origin.as_str(), outcome)),
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    // Print the requeued letters even after a failure.
    match form {
        OutputFormat::Json => print_json(&outcomes.iter().map(|(origin, outcome)| outcome.document(origin)).collect::<Vec<_>>())?,
        OutputFormat::Table if outcomes.is_empty() => eprintln!("no dead letters to retry"),
        OutputFormat::Table => {
            let rows: Vec<_> = outcomes.iter().map(|(origin, outcome)| outcome.row(origin)).collect();
            print_table(&["origin", "became", "place or reason"], &rows)?;
        }
    }
    failed?;
    let refused = outcomes.iter().filter(|(_, outcome)| outcome.status == REFUSED).count();
    if refused > 0 {
        bail!(
            "{refused} of {} records were not requeued: a worker would reject them again. To see one, run `rejected show`.",
            letters.len()
        );
    }
    Ok(())
}
