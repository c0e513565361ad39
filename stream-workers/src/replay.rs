//! `telemetry stream-workers replay`: a part of the log is read again and inserted again, by the same decode, resolve, fold and
//! insert that the worker uses.
//!
//! Safe live, twice and overlapping: whatever is inserted lands on the keys it has. Must not commit for any group, must
//! not set records aside a second time, and must not end well when something happened that a replay cannot bring about.

mod figures;
mod progress;
mod range;
mod reader;
pub(crate) mod rebuild;

use crate::Settings;
use crate::consume::Block;
use crate::consume::partition_stats::CountsByPartition;
use crate::consume::topic_reader::TopicReader;
use crate::dead_letters::Archive;
use crate::record::fold::fold;
use crate::resolve::Resolver;
use crate::store::Store;
use anyhow::{Context, bail};
use chrono::{DateTime, Utc};
use clap::Args;
use figures::{Difference, Figures};
use progress::Progress;
pub(crate) use range::{Bound, Range};
use reader::Reader;
use schemas::ids::OrgId;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::command::{Form, OutputOptions, print_json};
use service_kit::stores;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A surprise names so many examples.
const MAX_EXAMPLES: usize = 3;

/// What to read again, and how.
#[derive(Args, Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Where to begin, by the log's clock or by offset: 2026-11-01T00:00:00Z or 0:1200,3:77 [default: where the log begins]
    #[arg(long, value_name = "TIME|PARTITION:OFFSET,…")]
    from: Option<Bound>,
    /// Where to end, without it: as for --from [default: where the log ends now]
    #[arg(long, value_name = "TIME|PARTITION:OFFSET,…")]
    to: Option<Bound>,
    /// Only what this organisation reported; may stand several times
    #[arg(long = "org", value_name = "ID")]
    orgs: Vec<OrgId>,
    /// Most events a second, to leave the store to others
    #[arg(long, value_name = "EVENTS")]
    rate: Option<NonZeroU32>,
    /// Read, decode and look up everything, insert nothing
    #[arg(long)]
    dry_run: bool,
    /// Fail when anything was missing from the store
    #[arg(long, conflicts_with = "dry_run")]
    expect_unchanged: bool,
    #[command(flatten)]
    output: OutputOptions,
}

impl ReplayOptions {
    /// All of the log, printed in this form.
    pub(crate) fn whole(output: OutputOptions) -> Self {
        Self { output, ..Self::default() }
    }
}

/// What a replay has done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    records: u64,
    events: u64,
    inserted: u64,
    skipped: u64,
    /// Origins and reasons.
    unreadable: Vec<(String, String)>,
}

/// Reads a part of the log again. Fails on what a replay cannot bring about, after it has printed the figures.
pub async fn replay(settings: &Settings, options: &ReplayOptions, clock: Clock) -> anyhow::Result<()> {
    stores::check_clickhouse(&settings.clickhouse).await?;
    let range =
        Range::find(&TopicReader::open(&settings.kafka, &settings.kafka.topic)?, options.from.as_ref(), options.to.as_ref())
            .await?;
    for (partition, first) in &range.gaps {
        eprintln!("partition {partition} of the log begins at offset {first}: what came before is gone, and is not replayed");
    }
    let store = Store::connect(&settings.clickhouse, clock.clone())?.below_watermark();
    read_again(settings, options, (&range, store), clock).await.map(drop)
}

/// Replays `range` into `store` and answers how many observations it holds then.
pub(crate) async fn read_again(
    settings: &Settings,
    options: &ReplayOptions,
    (range, store): (&Range, Store),
    clock: Clock,
) -> anyhow::Result<u64> {
    let shards = stores::clickhouse_shards(&settings.clickhouse)?;
    let store = store.anew().in_background();
    store.check_columns().await?;
    let until = clock.now();
    let before = count(&shards, until, options).await?;
    let archive = Archive::of_heads(&settings.kafka).await?;
    let mut replayer = Replayer::begin(settings, options, range, store, &archive)?;
    let done = replayer.run().await?;
    drop(replayer);
    let after = count(&shards, until, options).await?;
    let difference = Difference { before: &before, after: &after };
    match options.output.form() {
        Form::Table => {
            done.print(options.dry_run);
            println!("{difference}");
        }
        Form::Json => print_json(&done.document(options.dry_run, &difference))?,
    }
    let mut surprises = difference.surprises();
    surprises.extend(done.surprise(&archive));
    if options.expect_unchanged && !difference.is_none() && surprises.is_empty() {
        surprises.push("the store lacked something of what was replayed".to_owned());
    }
    match surprises.as_slice() {
        [] => Ok(after.observations()),
        surprises => bail!("surprise: {}", surprises.join("; ")),
    }
}

async fn count(shards: &[clickhouse::Client], until: DateTime<Utc>, options: &ReplayOptions) -> anyhow::Result<Figures> {
    Figures::count_all(shards, until, &options.orgs).await.context("CLICKHOUSE_URL: the figures cannot be counted")
}

impl Done {
    fn print(&self, is_dry: bool) {
        let Self { records, events, inserted, skipped, unreadable } = self;
        let did = if is_dry { "would be inserted, and nothing was" } else { "were inserted" };
        println!(
            "{records} records with {events} events were read; {inserted} observations {did}; {} records are unreadable, {skipped} quarantined",
            unreadable.len()
        );
    }

    fn document(&self, is_dry: bool, difference: &Difference<'_>) -> Value {
        let Self { records, events, inserted, skipped, unreadable } = self;
        json!({
            "dry_run": is_dry, "records": records, "events": events, "observations": inserted, "unreadable": unreadable.len(),
            "quarantined": skipped, "before": difference.before.counts(), "after": difference.after.counts(),
        })
    }

    /// Records that no worker has set aside and that cannot be read all the same.
    fn surprise(&self, archive: &Archive) -> Option<String> {
        let unknown: Vec<_> = self.unreadable.iter().filter(|(origin, _)| !archive.holds(origin)).collect();
        let examples: Vec<String> =
            unknown.iter().take(MAX_EXAMPLES).map(|(origin, reason)| format!("{origin}: {reason}")).collect();
        (!unknown.is_empty()).then(|| {
            format!("{} records cannot be read and are not among the rejected ones ({})", unknown.len(), examples.join(", "))
        })
    }
}

/// Reads, and inserts what was read before.
struct Replayer {
    reader: Reader,
    resolver: Resolver,
    store: Arc<Store>,
    pace: Pace,
    progress: Progress,
    is_dry: bool,
    inserting: Option<JoinHandle<CountsByPartition>>,
}

impl Replayer {
    fn begin(
        settings: &Settings,
        options: &ReplayOptions,
        range: &Range,
        store: Store,
        archive: &Archive,
    ) -> anyhow::Result<Self> {
        let reader = TopicReader::open(&settings.kafka, &settings.kafka.topic)?;
        let pace = Pace { events_per_second: options.rate, begun: Instant::now(), events: 0 };
        Ok(Self {
            reader: Reader::begin(reader, &range.parts, &options.orgs, archive.quarantined(), pace.most_events())?,
            resolver: Resolver::connect(&settings.postgres)?,
            store: Arc::new(store),
            pace,
            progress: Progress::of(range.len()),
            is_dry: options.dry_run,
            inserting: None,
        })
    }

    async fn run(&mut self) -> anyhow::Result<Done> {
        let mut done = Done::default();
        loop {
            let mut block = self.reader.block().await?;
            let read = self.reader.records - done.records;
            if read == 0 {
                break;
            }
            let events = block.events() as u64;
            self.resolver.resolve(&mut block).await;
            done.records += read;
            done.events += events;
            done.unreadable.extend(block.dead_letters.drain(..).map(|letter| (letter.origin, letter.reason)));
            done.inserted += self.insert(block).await?;
            self.progress.advance(read, events);
            self.pace.keep(events).await;
        }
        self.finish_insert().await?;
        done.skipped = self.reader.skipped;
        let (seconds, rate) = (self.progress.elapsed().as_secs_f64(), self.progress.events_per_second());
        eprintln!("{seconds:.1} s, {rate:.0} events/s");
        Ok(done)
    }

    /// Hands a block to the store, which works at it while the next one is read; answers how many rows that are.
    async fn insert(&mut self, block: Block) -> anyhow::Result<u64> {
        let folded = fold(block.rows);
        let rows = folded.rows.len() as u64;
        self.finish_insert().await?;
        if !self.is_dry {
            let (store, offsets) = (Arc::clone(&self.store), block.offsets);
            self.inserting = Some(tokio::spawn(async move { store.insert(folded, &offsets).await }));
        }
        Ok(rows)
    }

    async fn finish_insert(&mut self) -> anyhow::Result<()> {
        match self.inserting.take() {
            Some(inserting) => inserting.await.map(drop).context("inserting ended early"),
            None => Ok(()),
        }
    }
}

/// Keeps to a number of events a second.
struct Pace {
    events_per_second: Option<NonZeroU32>,
    begun: Instant,
    events: u64,
}

impl Pace {
    /// Blocks of a tenth of a second, so that the store is never asked for a second's work at once.
    fn most_events(&self) -> usize {
        self.events_per_second.map_or(usize::MAX, |rate| usize::try_from(rate.get() / 10).unwrap_or(usize::MAX).max(1))
    }

    async fn keep(&mut self, events: u64) {
        self.events += events;
        if let Some(rate) = self.events_per_second {
            #[expect(clippy::cast_precision_loss, reason = "a pause need not be exact")]
            let due = Duration::from_secs_f64(self.events as f64 / f64::from(rate.get()));
            tokio::time::sleep_until(self.begun + due).await;
        }
    }
}
