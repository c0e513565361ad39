//! `telemetry stream-workers rejected list|show|retry`: what operators do about dead letters.
//!
//! Must put a record back as it was, once, and only where it can now be read; must let nothing that is stored act on a
//! terminal.

use super::archive::{Archive, Letter};
use crate::Settings;
use crate::record::decode::{decode, guarded};
use crate::resolve::Resolver;
use anyhow::bail;
use clap::{Args, Subcommand};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use schemas::log::header;
use serde_json::json;
use service_kit::kafka;
use std::collections::BTreeSet;
use std::io::Write;

/// What to do about dead letters.
#[derive(Subcommand, Clone, Debug)]
pub enum RejectedCommand {
    /// One line for each, oldest place on the log first
    List {
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// One of them: why it was set aside, and what it holds
    Show {
        /// TOPIC/PARTITION/OFFSET of the record, as `list` shows it
        origin: String,
        /// Print the original bytes and nothing else
        #[arg(long)]
        raw: bool,
    },
    /// Put records back on the log that can be read now; one that was put back before is left alone
    Retry(DeadLetterSelection),
}

/// Which letters to put back.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct DeadLetterSelection {
    /// TOPIC/PARTITION/OFFSET of each, as `list` shows it
    origins: Vec<String>,
    /// All that were not put back yet
    #[arg(long)]
    all: bool,
}

impl RejectedCommand {
    /// Does it, and prints what came of it.
    pub async fn run(&self, settings: &Settings) -> anyhow::Result<()> {
        let archive = match self {
            Self::List { .. } => Archive::of_heads(&settings.kafka).await?,
            Self::Show { .. } | Self::Retry(_) => Archive::whole(&settings.kafka).await?,
        };
        match self {
            Self::List { json } => print(archive.letters().map(|letter| line(letter, *json))),
            Self::Show { origin, raw } => show(archive.find(origin)?, *raw),
            Self::Retry(DeadLetterSelection { origins, all }) => {
                let chosen: Vec<&Letter> = if *all {
                    archive.letters().filter(|letter| letter.retried.is_none()).collect()
                } else {
                    // Whoever names one twice wants it back once.
                    let origins: BTreeSet<&String> = origins.iter().collect();
                    origins.into_iter().map(|origin| archive.find(origin)).collect::<Result<_, _>>()?
                };
                retry(settings, &chosen).await
            }
        }
    }
}

fn print(lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn line(letter: &Letter, as_json: bool) -> String {
    let Letter { origin, reason, set_aside_at, bytes, retried, .. } = letter;
    let at = set_aside_at.map(|at| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
    if as_json {
        return json!({"origin": origin, "set_aside_at": at, "bytes": bytes, "reason": reason, "retried": retried}).to_string();
    }
    let state = retried.as_ref().map_or_else(|| "open".to_owned(), |copy| format!("put back as {copy}"));
    harmless(&format!("{origin}  {}  {bytes} bytes  {state}  {reason}", at.unwrap_or_default()))
}

fn show(letter: &Letter, is_raw: bool) -> anyhow::Result<()> {
    if is_raw {
        return Ok(std::io::stdout().write_all(&letter.payload)?);
    }
    let content = String::from_utf8_lossy(&letter.payload);
    print([line(letter, false), harmless(&content)].into_iter())
}

/// Control characters could move the cursor, or worse.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

async fn retry(settings: &Settings, letters: &[&Letter]) -> anyhow::Result<()> {
    let desk = Requeue::open(settings)?;
    let mut unreadable = 0;
    for letter in letters {
        let said = match &letter.retried {
            Some(copy) => format!("was put back before, as {copy}; nothing is done"),
            None => match desk.refusal(letter).await? {
                Some(reason) => {
                    unreadable += 1;
                    format!("cannot be read yet ({reason}); nothing is done")
                }
                None => format!("is put back as {}", desk.put_back(letter).await?),
            },
        };
        print([harmless(&format!("{} {said}", letter.origin))].into_iter())?;
    }
    if unreadable > 0 {
        bail!("{unreadable} of {} records cannot be read by this build; `rejected show` shows them", letters.len());
    }
    Ok(())
}

/// What putting records back takes.
struct Requeue<'a> {
    settings: &'a Settings,
    producer: FutureProducer,
    resolver: Resolver,
}

impl<'a> Requeue<'a> {
    fn open(settings: &'a Settings) -> anyhow::Result<Self> {
        let producer = kafka::producer_of_any_size(&settings.kafka)?;
        Ok(Self { settings, producer, resolver: Resolver::connect(&settings.postgres)? })
    }

    /// Why a worker of this build would set the record aside again, if it would.
    async fn refusal(&self, letter: &Letter) -> anyhow::Result<Option<String>> {
        match guarded(|| decode(&letter.payload)) {
            Ok(record) => self.resolver.refusal(record).await,
            Err(reason) => Ok(Some(reason)),
        }
    }

    /// Appends the record as it was, then notes that; answers where it stands. Whoever dies in between puts it back
    /// twice, which changes no figure.
    async fn put_back(&self, letter: &Letter) -> anyhow::Result<String> {
        let kafka = &self.settings.kafka;
        let copy = FutureRecord::<(), [u8]>::to(&kafka.topic).payload(&letter.payload).headers(letter.headers.clone());
        let place = self.producer.send_result(copy).map_err(|(error, _)| error)?.await?.map_err(|(error, _)| error)?;
        let place = format!("{}/{}/{}", kafka.topic, place.partition, place.offset);
        let headers = OwnedHeaders::new()
            .insert(Header { key: header::ORIGIN, value: Some(letter.origin.as_str()) })
            .insert(Header { key: header::REASON, value: Some("put back") })
            .insert(Header { key: header::RETRIED, value: Some(place.as_str()) });
        let note = FutureRecord::<str, [u8]>::to(&kafka.rejected_topic).key(letter.origin.as_str()).headers(headers);
        self.producer.send_result(note).map_err(|(error, _)| error)?.await?.map_err(|(error, _)| error)?;
        Ok(place)
    }
}
