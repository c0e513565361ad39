//! A block: its reports become rows of `sites`, `reports`, `events`, `failed_fetches` and `progress`, inserted in this order.

use super::batch::Batch;
use super::gather::Gathered;
use super::keep_beating;
use super::progress::{NextOffsets, Progress};
use super::rows::{self, Bodies};
use super::server::{Ended, FailedBlock, Server};
use super::state::{State, Written};
use crate::consume::{Block, Origin};
use crate::metrics;
use crate::record::decode::guarded;
use service_kit::clock::Clock;
use service_kit::crash_point;
use std::time::Duration;
use store::merge::Changes;
use store::report::Home;
use store::row_binary::Encoder;
use tokio::time::Instant;

/// Most bytes of one statement's body, and of the current rows that a block needs, unless it has one record.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Where a block goes.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    pub(super) server: &'a Server,
    pub(super) topic: &'a str,
    /// Heartbeats are inserted beside, so that no standby takes over during a long block.
    pub(super) beat_every: Duration,
}

/// Merges the reports of these records into the tables, as one block or, if they are too large, as several. When it returns, everything
/// is visible and durable.
pub(super) async fn write(block: Block, records: Vec<Origin>, (state, to): (&mut State, Destination<'_>)) -> Result<(), Ended> {
    let all = records.clone();
    let mut batch = guarded(|| Ok(Batch::new(block, records, to.server.shard()))).map_err(|reason| failed(reason, all))?;
    batch.failed_fetches.retain(|row| !Home::of(&row.accepted).is_expired(state.first_month));
    let mut waiting = vec![batch];
    while let Some(batch) = waiting.pop() {
        // A block that covers an interrupted one is never divided: its groups could be.
        let can_be_divided = batch.records.len() > 1 && state.cover.is_empty();
        let most_bytes = Some(MOST_BYTES).filter(|_| can_be_divided);
        let written = write_batch(&batch, most_bytes, (state, to)).await;
        if written.map_err(|ended| blame(ended, &batch.records))? == Size::TooLarge {
            waiting.extend(batch.halves().into_iter().flat_map(|[first, second]| [second, first]));
        }
    }
    Ok(())
}

fn failed(reason: String, records: Vec<Origin>) -> Ended {
    Ended::Block(FailedBlock { reason, is_data: true, records })
}

/// Names the records of a block that failed.
fn blame(ended: Ended, records: &[Origin]) -> Ended {
    match ended {
        Ended::Block(failed) => Ended::Block(FailedBlock { records: records.to_vec(), ..failed }),
        other => other,
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
) -> Result<Size, Ended> {
    let begun = Instant::now();
    let progress = state.next_progress(&batch.offsets, &batch.tally);
    let next = progress.next();
    let inserted = tokio::select! {
        inserted = merge_and_insert(batch, &next, (state, to.server, most_bytes)) => inserted?,
        ended = keep_beating(to.server, (to.topic, to.beat_every), state) => match ended? {},
    };
    let Some(written) = inserted else { return Ok(Size::TooLarge) };
    let progress = Progress { beat: state.next_beat(), ..progress };
    progress.insert(to.server, &state.epoch, to.topic).await?;
    crash_point::reached("after_progress");
    measure(batch, (&state.progress, &progress), begun);
    state.complete(progress, written, Instant::now());
    Ok(Size::Fits)
}

/// Inserts all but `progress`; `None` if the rows are too large.
async fn merge_and_insert(
    batch: &Batch,
    next: &NextOffsets,
    (state, server, most_bytes): (&State, &Server, Option<usize>),
) -> Result<Option<Written>, Ended> {
    let Some(gathered) = Gathered::of(&batch.reports, next, (state, server, most_bytes)).await? else { return Ok(None) };
    let merged = guarded(|| {
        #[cfg(feature = "deadly-records")]
        batch.reports.iter().for_each(|new| crate::record::deadly_records::while_merging(&new.report.facts.url));
        let changes = gathered.merge(state);
        let sites = rows::new_sites(&changes, &batch.failed_fetches, state);
        let bodies = rows::bodies((batch, &gathered, &changes, &sites), (state.next_version(), most_bytes));
        Ok(bodies.map(|bodies| (changes, sites, bodies)))
    });
    let Some((changes, sites, bodies)) = merged.map_err(|reason| failed(reason, Vec::new()))? else { return Ok(None) };
    insert(&bodies, (state, server)).await?;
    let Changes { events_first, events, reports } = changes;
    let events = events_first.into_iter().chain(events).collect();
    Ok(Some(Written { known: gathered.known(), sites, events, reports: reports.len() as u64 }))
}

fn measure(batch: &Batch, (former, progress): (&Progress, &Progress), begun: Instant) {
    // A replay: its records were counted when they were read first.
    if batch.offsets.is_empty() {
        return;
    }
    metrics::stored(batch.tally.all(), begun.elapsed());
    let received = batch.reports.iter().map(|new| new.report.accepted.at_us);
    metrics::readable(received, Clock::System.now().timestamp_micros());
    let ((_, missing_before), (counts, missing)) = (former.all(), progress.all());
    metrics::settled(counts, missing);
    let missed = missing.saturating_sub(missing_before);
    if missed > 0 {
        metrics::missed(missed);
        tracing::warn!(records = missed, "the log has dropped records before they were read");
    }
}

async fn insert(bodies: &Bodies, (state, server): (&State, &Server)) -> Result<(), Ended> {
    let epoch = [("epoch", state.epoch.number.to_string())];
    let statements = [
        ("after_sites", include_str!("sql/insert_sites.sql"), &bodies.sites),
        ("after_reports", include_str!("sql/insert_reports.sql"), &bodies.reports),
        ("after_events_first", include_str!("sql/insert_events.sql"), &bodies.events_first),
        ("after_events", include_str!("sql/insert_events.sql"), &bodies.events),
        ("after_failed_fetches", include_str!("sql/insert_failed_fetches.sql"), &bodies.failed_fetches),
    ];
    for (point, sql, Encoder(rows)) in statements {
        if !rows.is_empty() {
            server.insist(&state.epoch, sql, &epoch, rows).await?;
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
    fn inserts_name_and_type_the_encoded_columns() {
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
    fn fetches_select_the_decoded_columns() {
        let sql = without_spaces(include_str!("sql/fetch.sql"));
        assert!(sql.contains(&format!("SELECT{}FROMevents", FETCHED_COLUMNS.join(","))), "{sql}");
    }
}
