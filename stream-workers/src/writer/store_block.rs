//! Stores a block: its reports become rows of `sites`, `reports`, `events`, `failed_fetches` and `progress`, inserted in this
//! order.

use super::batch::{Batch, Records};
use super::culprits;
use super::current_rows::GatheredRows;
use super::progress::{NextOffsets, Progress};
use super::rows::{self, Bodies};
use super::send_heartbeats;
use super::state::{State, Written};
use super::statements::{FailedBlock, Server, Stage, WriterExit};
use crate::consume::partition_stats::{sum, total};
use crate::consume::{Block, Origin};
use crate::metrics;
use crate::record::decode::guarded;
use schemas::site::Site;
use service_kit::clock::Clock;
use service_kit::crash_point;
use std::time::Duration;
use store::merge::Changes;
use store::report::Home;
use store::row_binary::Encoder;
use tokio::time::Instant;

/// Maximum size of a statement's body, and of the current rows that a block needs, unless the block has one record.
const MOST_BYTES: usize = 64 * 1024 * 1024;

#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    pub(super) server: &'a Server,
    pub(super) topic: &'a str,
    /// Interval of heartbeats, which prevent a takeover during a long block.
    pub(super) heartbeat_interval: Duration,
}

/// Merges these records' reports into the tables, as one block or, if they are too large, as several. When it returns, everything is
/// visible and durable.
pub(super) async fn write(block: Block, records: Records, (state, to): (&mut State, Destination<'_>)) -> Result<(), WriterExit> {
    let all = records.all.clone();
    let mut batch =
        guarded(|| Ok(Batch::new(block, records, to.server.shard()))).map_err(|reason| failed(Stage::Other, reason, all))?;
    batch.failed_fetches.retain(|(_, row)| !Home::new(&row.accepted).is_expired(state.first_month));
    let mut waiting = vec![batch];
    while let Some(batch) = waiting.pop() {
        // A block that covers an interrupted one is never divided, because that could divide its groups.
        let can_be_divided = batch.records.len() > 1 && state.interrupted_rows.is_empty();
        let most_bytes = Some(MOST_BYTES).filter(|_| can_be_divided);
        match write_batch(&batch, most_bytes, (state, to)).await {
            Ok(Size::Fits) => {}
            Ok(Size::TooLarge) => waiting.extend(batch.halves().into_iter().flat_map(|[first, second]| [second, first])),
            Err(WriterExit::Block(failed)) => return Err(blame(failed, batch, (state, to)).await),
            Err(ended) => return Err(ended),
        }
    }
    Ok(())
}

fn failed(stage: Stage, reason: String, records: Vec<Origin>) -> WriterExit {
    WriterExit::Block(FailedBlock { stage, reason, is_data: true, records, culprits: Vec::new() })
}

/// Adds the block's records to a failure, and those that cause it.
async fn blame(failed: FailedBlock, batch: Batch, (state, to): (&State, Destination<'_>)) -> WriterExit {
    let records = batch.records.clone();
    if !failed.is_data {
        return WriterExit::Block(FailedBlock { records, ..failed });
    }
    let found = tokio::select! {
        found = culprits::find(failed.stage, batch, (state, to.server)) => found,
        ended = send_heartbeats(to.server, (to.topic, to.heartbeat_interval), state) => ended.map(|never| match never {}),
    };
    match found {
        Ok(culprits) => WriterExit::Block(FailedBlock { records, culprits, ..failed }),
        // The server lacks memory for a trial.
        Err(WriterExit::Block(_)) => WriterExit::Block(FailedBlock { records, ..failed }),
        Err(ended) => ended,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Size {
    Fits,
    TooLarge,
}

async fn write_batch(
    batch: &Batch,
    most_bytes: Option<usize>,
    (state, to): (&mut State, Destination<'_>),
) -> Result<Size, WriterExit> {
    let begun = Instant::now();
    let progress = state.next_progress(&batch.offsets, &batch.tally);
    let next = progress.next();
    let inserted = tokio::select! {
        inserted = merge_and_insert(batch, &next, (state, to.server, most_bytes)) => inserted?,
        ended = send_heartbeats(to.server, (to.topic, to.heartbeat_interval), state) => match ended? {},
    };
    let Some(written) = inserted else { return Ok(Size::TooLarge) };
    let progress = Progress { beat: state.next_beat(), ..progress };
    progress.insert(to.server, &state.epoch, to.topic).await?;
    crash_point::reached("after_progress");
    measure(batch, (&state.progress, &progress), begun);
    state.complete(progress, written, Instant::now());
    Ok(Size::Fits)
}

/// Inserts all rows except `progress`; `None` if they are too large.
async fn merge_and_insert(
    batch: &Batch,
    next: &NextOffsets,
    (state, server, most_bytes): (&State, &Server, Option<usize>),
) -> Result<Option<Written>, WriterExit> {
    let Some(gathered) = GatheredRows::for_reports(&batch.reports, next, (state, server, most_bytes)).await? else {
        return Ok(None);
    };
    let merged = guarded(|| {
        let changes = rows::changes(&batch.reports, &gathered, state);
        let sites = rows::new_sites(&changes, &batch.failed_fetches, state);
        let Some(mut bodies) = rows::bodies((&batch.reports, &gathered, &changes), (state.next_version(), most_bytes)) else {
            return Ok(None);
        };
        for site in &sites {
            for above in Site::from_stored(site).candidates() {
                bodies.sites.text(above.as_str());
                bodies.sites.text(site);
            }
            // A host can have 30 parents, so its rows can take 12 KB.
            if most_bytes.is_some_and(|most| bodies.sites.0.len() > most) {
                return Ok(None);
            }
        }
        batch.failed_fetches.iter().for_each(|(_, row)| row.encode(&mut bodies.failed_fetches));
        Ok(Some((changes, sites, bodies)))
    });
    let merged = merged.map_err(|reason| failed(Stage::Merge, reason, Vec::new()))?;
    let Some((changes, sites, bodies)) = merged else { return Ok(None) };
    insert(&bodies, (state, server)).await?;
    let Changes { events_first, events, reports } = changes;
    let events = events_first.into_iter().chain(events).collect();
    Ok(Some(Written { known: gathered.known(), sites, events, reports: reports.len() as u64 }))
}

fn measure(batch: &Batch, (former, progress): (&Progress, &Progress), begun: Instant) {
    // A replay's records were counted when they were first read.
    if batch.offsets.is_empty() {
        return;
    }
    metrics::stored(sum(batch.tally.values()), begun.elapsed());
    let received = batch.reports.iter().map(|new| new.report.accepted.at_us);
    metrics::readable(received, Clock::System.now().timestamp_micros());
    let ((_, missing_before), (counts, missing)) = (total(former.partitions.values()), total(progress.partitions.values()));
    metrics::processed(counts, missing);
    let missed = missing.saturating_sub(missing_before);
    if missed > 0 {
        metrics::missed(missed);
        tracing::warn!(records = missed, "records expired from the log before they were read");
    }
}

async fn insert(bodies: &Bodies, (state, server): (&State, &Server)) -> Result<(), WriterExit> {
    let epoch = [("epoch", state.epoch.number.to_string())];
    let (sites, reports) = (include_str!("sql/insert_sites.sql"), include_str!("sql/insert_reports.sql"));
    let (events, failed_fetches) = (include_str!("sql/insert_events.sql"), include_str!("sql/insert_failed_fetches.sql"));
    let statements = [
        ("after_sites", Stage::Other, sites, &bodies.sites),
        ("after_reports", Stage::Reports, reports, &bodies.reports),
        ("after_events_first", Stage::Events, events, &bodies.events_first),
        ("after_events", Stage::Events, events, &bodies.events),
        ("after_failed_fetches", Stage::FailedFetches, failed_fetches, &bodies.failed_fetches),
    ];
    for (point, stage, sql, Encoder(rows)) in statements {
        if !rows.is_empty() {
            server.run_until_done(&state.epoch, sql, &epoch, rows).await.map_err(|ended| ended.at(stage))?;
        }
        crash_point::reached(point);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use store::tables::{EVENT_COLUMNS, FAILED_FETCH_COLUMNS, FETCHED_COLUMNS, REPORT_COLUMNS, structure};

    fn without_spaces(text: &str) -> String {
        text.split_whitespace().collect::<String>().replace(['`', '\\'], "")
    }

    #[test]
    fn inserts_match_the_encoded_columns() {
        let inserts = [
            (include_str!("sql/insert_events.sql"), EVENT_COLUMNS),
            (include_str!("sql/insert_reports.sql"), REPORT_COLUMNS),
            (include_str!("sql/insert_failed_fetches.sql"), FAILED_FETCH_COLUMNS),
        ];
        for (sql, columns) in inserts {
            let sql = without_spaces(sql);
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            assert!(sql.contains(&format!("({})", names.join(","))), "{sql}");
            assert!(sql.contains(&format!("input('{}')", without_spaces(&structure(columns)))), "{sql}");
        }
    }

    #[test]
    fn fetch_sql_selects_the_decoded_columns() {
        let sql = without_spaces(include_str!("sql/fetch.sql"));
        assert!(sql.contains(&format!("SELECT{}FROMevents", FETCHED_COLUMNS.join(","))), "{sql}");
    }
}
