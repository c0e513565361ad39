//! `telemetry stream-workers replay`: requests that part of the log is stored again, and follows the active writer's progress.

mod progress;
mod range;
pub(crate) mod rebuild;

use crate::Settings;
use crate::consume::topic_reader::TopicReader;
use crate::writer::replay::{Plan, Reader, Replay, ReplayFigures, Status, message};
use anyhow::bail;
use clap::Args;
use progress::Progress;
use range::{Bound, Range};
use schemas::ids::OrgId;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::command_output::{OutputFormat, OutputOptions, print_json};
use service_kit::databases;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Interval for reading the writer's newest row.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time after which a message on standard error reports that the replay hasn't started.
const WAITS_AFTER: Duration = Duration::from_secs(20);

/// Options of `replay`.
#[derive(Args, Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Start: a time or offsets, such as 2026-11-01T00:00:00Z or 0:1200,3:77 [default: beginning of the log]
    #[arg(long, value_name = "TIME|PARTITION:OFFSET,…")]
    from: Option<Bound>,
    /// End (exclusive): a time or offsets [default: end of the log]
    #[arg(long, value_name = "TIME|PARTITION:OFFSET,…")]
    to: Option<Bound>,
    /// Replay only this organization's reports; can be repeated
    #[arg(long = "org", value_name = "ID")]
    orgs: Vec<OrgId>,
    /// Maximum events per second [default: unlimited; live blocks always come first]
    #[arg(long, value_name = "EVENTS")]
    rate: Option<NonZeroU32>,
    /// Read and decode without storing anything
    #[arg(long)]
    dry_run: bool,
    /// Fail if the replay changes anything
    #[arg(long, conflicts_with = "dry_run")]
    expect_unchanged: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// Requests a replay and waits until the active writer has processed it. If this command is interrupted, the writer continues.
///
/// # Errors
///
/// Fails if a record can't be read and has no dead letter, if reading fails or, with `--expect-unchanged`, if something was missing from
/// the store. Prints the figures first.
pub async fn replay(settings: &Settings, options: &ReplayOptions) -> anyhow::Result<()> {
    databases::check_clickhouse(&settings.clickhouse).await?;
    let topic = TopicReader::open(&settings.kafka, &settings.kafka.topic)?;
    let range = Range::find(&topic, options.from.as_ref(), options.to.as_ref()).await?;
    for (partition, first) in &range.gaps {
        eprintln!("partition {partition} of the log begins at offset {first}: earlier records are lost and not replayed");
    }
    let plan = Plan { orgs: options.orgs.clone(), rate: options.rate.map_or(0, NonZeroU32::get) };
    let (figures, message) =
        if options.dry_run { dry_run(settings, &plan, &range).await? } else { follow(settings, plan, &range).await? };
    match options.output.format() {
        OutputFormat::Table => println!("{}", sentence(&figures, options.dry_run)),
        OutputFormat::Json => print_json(&document(&figures, options.dry_run))?,
    }
    if !message.is_empty() {
        bail!(message);
    }
    if options.expect_unchanged && figures.changed_events + figures.changed_reports > 0 {
        bail!("events in the replayed records were missing in the store");
    }
    Ok(())
}

/// Reads the range without storing it.
async fn dry_run(settings: &Settings, plan: &Plan, range: &Range) -> anyhow::Result<(ReplayFigures, String)> {
    let mut reader = Reader::begin(settings, plan, &range.parts).await?;
    let (mut figures, mut unexpected, mut progress) = (ReplayFigures::default(), Vec::new(), Progress::new(range.len()));
    while let Some(chunk) = reader.chunk().await? {
        figures.add(&chunk.figures);
        unexpected.extend(chunk.unexpected);
        progress.show(figures.records, figures.events);
    }
    Ok((figures, message(&unexpected)))
}

async fn follow(settings: &Settings, plan: Plan, range: &Range) -> anyhow::Result<(ReplayFigures, String)> {
    let requested_ms = Clock::System.now().timestamp_millis();
    let request = Replay::new(&settings.kafka.topic, requested_ms, plan, range.parts.clone());
    request.request(&settings.clickhouse).await?;
    let (mut progress, begun, mut has_waited) = (Progress::new(range.len()), Instant::now(), false);
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let replay = match request.read(&settings.clickhouse).await {
            Ok(replay) => replay,
            Err(error) => {
                tracing::warn!("failed to read the replay's progress, retrying: {error:#}");
                continue;
            }
        };
        progress.show(replay.figures.records, replay.figures.events);
        match replay.status {
            Status::Done => {
                progress.finish(replay.figures.events);
                return Ok((replay.figures, replay.message));
            }
            Status::Failed => bail!("the replay failed: {}", replay.message),
            Status::Waiting if begun.elapsed() >= WAITS_AFTER && !std::mem::replace(&mut has_waited, true) => {
                eprintln!("waiting for the active writer: it is processing earlier replays, or no worker is running");
            }
            Status::Waiting | Status::Running => {}
        }
    }
}

fn sentence(figures: &ReplayFigures, is_dry: bool) -> String {
    let ReplayFigures { records, events, unreadable, quarantined, changed_events, changed_reports } = figures;
    let changed = match is_dry {
        true => "nothing was stored".to_owned(),
        false => format!("{changed_events} rows of events and {changed_reports} rows of reports changed"),
    };
    format!(
        "{records} records with {events} events were read; {changed}; {unreadable} records are unreadable, {quarantined} quarantined"
    )
}

fn document(figures: &ReplayFigures, is_dry: bool) -> Value {
    let ReplayFigures { records, events, unreadable, quarantined, changed_events, changed_reports } = figures;
    json!({
        "dry_run": is_dry, "records": records, "events": events, "unreadable": unreadable, "quarantined": quarantined,
        "changed_events": changed_events, "changed_reports": changed_reports,
    })
}
