//! A block: its reports become rows of `sites`, `reports`, `events`, `failed_fetches` and `progress`, inserted in this order.

use super::batch::Batch;
use super::gather::Gathered;
use super::keep_beating;
use super::new_report::{NewReport, issuer};
use super::progress::{NextOffsets, Progress};
use super::server::{Ended, FailedBlock, Server};
use super::state::{State, Written};
use crate::consume::{Block, Origin};
use crate::metrics;
use crate::record::decode::guarded;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::{Site, registrable_domain};
use service_kit::clock::Clock;
use service_kit::crash_point;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use store::facts::Facts;
use store::merge::Changes;
use store::report::{Acceptance, Home};
use store::row::{EventWrite, ReportPlace, ReportWrite};
use store::row_binary::Encoder;
use store::tables::{FailedFetchRow, encode_event, encode_report};
use tokio::time::Instant;

/// The bodies of a block's statements.
#[derive(Default)]
struct Bodies {
    sites: Encoder,
    reports: Encoder,
    events_first: Encoder,
    events: Encoder,
    failed_fetches: Encoder,
}

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
        let sites = new_sites(&changes, &batch.failed_fetches, state);
        let bodies = bodies((batch, &gathered, &changes, &sites), (state.next_version(), most_bytes));
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

/// Hosts, also of click tokens' links, that occur for the first time.
fn new_sites(changes: &Changes<Facts>, failed_fetches: &[FailedFetchRow], state: &State) -> Vec<String> {
    let mut sites: BTreeSet<&str> = failed_fetches.iter().map(|row| row.fetch.site.as_str()).collect();
    for write in changes.events_first.iter().chain(&changes.events) {
        let EventWrite::Row(row) = write else { continue };
        let link_site = row.representing().map(|report| report.facts.link_site.as_str());
        sites.extend(row.site.as_ref().map(Site::as_str).into_iter().chain(link_site));
    }
    let is_new = |site: &&str| !matches!(*site, "" | "-") && !state.sites.contains(site);
    sites.into_iter().filter(is_new).map(str::to_owned).collect()
}

/// The bodies of the statements; `None` if one is too large.
fn bodies(
    (batch, gathered, changes, sites): (&Batch, &Gathered, &Changes<Facts>, &[String]),
    (version, most_bytes): (u64, Option<usize>),
) -> Option<Bodies> {
    let mut bodies = Bodies::default();
    for site in sites {
        bodies.sites.text(&registrable_domain(site));
        bodies.sites.text(site);
    }
    let fits = |body: &Encoder| most_bytes.is_none_or(|most| body.0.len() <= most);
    report_rows(&batch.reports, gathered, changes, version, &mut bodies.reports);
    batch.failed_fetches.iter().for_each(|row| row.encode(&mut bodies.failed_fetches));
    for (writes, body) in [(&changes.events_first, &mut bodies.events_first), (&changes.events, &mut bodies.events)] {
        for write in writes {
            encode_event(write, version, body);
            if !fits(body) {
                return None;
            }
        }
    }
    fits(&bodies.reports).then_some(bodies)
}

fn report_rows(reports: &[NewReport], gathered: &Gathered, changes: &Changes<Facts>, version: u64, body: &mut Encoder) {
    let by_acceptance: HashMap<Acceptance, &NewReport> = reports.iter().rev().map(|new| (new.report.accepted, new)).collect();
    let copies = Copies::of(reports, gathered);
    for write in &changes.reports {
        let new = match write {
            ReportWrite::Row(written) => by_acceptance.get(&written.accepted).copied(),
            ReportWrite::Tombstone(_) => None,
        };
        let content = new.map(NewReport::content);
        let place = write.place();
        encode_report(&place, None, content.as_ref(), version, body);
        let own_issuer = new.and_then(NewReport::issuer);
        if let Some(issuer) = own_issuer {
            encode_report(&place, Some(issuer), content.as_ref(), version, body);
        }
        // Another copy of the report, bound by another token, may have a row at its issuer.
        for issuer in copies.issuers(&place).filter(|issuer| Some(*issuer) != own_issuer) {
            encode_report(&place, Some(issuer), None, version, body);
        }
    }
}

/// The issuers of all known copies of a report, by identity and time.
struct Copies(HashMap<(EventKey, i64), BTreeSet<OrgId>>);

impl Copies {
    fn of(reports: &[NewReport], gathered: &Gathered) -> Self {
        let new = reports.iter().map(|new| (new.report.accepted.identity, new.report.at_ms, new.issuer()));
        let stored = gathered.rows().flat_map(|row| &row.reports);
        let stored = stored.map(|of| (of.accepted.identity, of.at_ms, issuer(of.observer.org, &of.facts)));
        let lost = gathered.lost().map(|row| (row.written.place.identity, row.written.place.at_ms, row.issuer));
        let mut issuers: HashMap<(EventKey, i64), BTreeSet<OrgId>> = HashMap::new();
        for (identity, at_ms, issuer) in new.chain(stored).chain(lost) {
            if let Some(issuer) = issuer {
                issuers.entry((identity, at_ms)).or_default().insert(issuer);
            }
        }
        Self(issuers)
    }

    fn issuers(&self, place: &ReportPlace) -> impl Iterator<Item = OrgId> {
        self.0.get(&(place.identity, place.at_ms)).into_iter().flatten().copied()
    }
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
