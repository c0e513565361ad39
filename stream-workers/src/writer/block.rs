//! A block: its reports become rows of `sites`, `reports`, `events` and `progress`, inserted in this order.

use super::gather::Gathered;
use super::new_report::{NewReport, issuer};
use super::progress::Progress;
use super::server::{Ended, Server};
use super::state::{State, Written};
use crate::consume::Block;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::{Site, registrable_domain};
use service_kit::crash_point;
use std::collections::{BTreeSet, HashMap};
use store::facts::Facts;
use store::merge::Changes;
use store::report::Acceptance;
use store::row::{EventWrite, ReportPlace, ReportWrite};
use store::row_binary::Encoder;
use store::tables::{encode_event, encode_report};
use tokio::time::Instant;

/// The bodies of a block's statements.
#[derive(Default)]
struct Bodies {
    sites: Encoder,
    reports: Encoder,
    events_first: Encoder,
    events: Encoder,
}

/// Merges a block into the tables. When it returns, everything is visible and durable.
pub(super) async fn write(block: Block, (state, server, topic): (&mut State, &Server, &str)) -> Result<(), Ended> {
    let Block { rows, offsets, mut tally, .. } = block;
    rows.iter().for_each(|row| tally.of(row.partition).inserted += 1);
    let reports: Vec<NewReport> = rows.into_iter().map(NewReport::from).collect();
    let gathered = Gathered::of(&reports, state, server).await?;
    let changes = gathered.merge(state);
    let sites = new_sites(&changes, state);
    let bodies = bodies(&reports, &gathered, &changes, &sites, state.next_version());
    let progress = state.next_progress(&offsets, &tally);
    insert(&bodies, &progress, (state, server, topic)).await?;
    let Changes { events_first, events, .. } = changes;
    let events = events_first.into_iter().chain(events).collect();
    state.complete(progress, Written { known: gathered.known(), sites, events }, Instant::now());
    Ok(())
}

async fn insert(bodies: &Bodies, progress: &Progress, (state, server, topic): (&State, &Server, &str)) -> Result<(), Ended> {
    let epoch = [("epoch", state.epoch.number.to_string())];
    let statements = [
        ("after_sites", include_str!("sql/insert_sites.sql"), &bodies.sites),
        ("after_reports", include_str!("sql/insert_reports.sql"), &bodies.reports),
        ("after_events_first", include_str!("sql/insert_events.sql"), &bodies.events_first),
        ("after_events", include_str!("sql/insert_events.sql"), &bodies.events),
    ];
    for (point, sql, Encoder(rows)) in statements {
        if !rows.is_empty() {
            server.insist(&state.epoch, sql, &epoch, rows).await?;
        }
        crash_point::reached(point);
    }
    progress.insert(server, &state.epoch, topic).await?;
    crash_point::reached("after_progress");
    Ok(())
}

/// Hosts, also of click tokens' links, that occur for the first time.
fn new_sites(changes: &Changes<Facts>, state: &State) -> Vec<String> {
    let mut sites = BTreeSet::new();
    for write in changes.events_first.iter().chain(&changes.events) {
        let EventWrite::Row(row) = write else { continue };
        let link_site = row.representing().map(|report| report.facts.link_site.as_str());
        sites.extend(row.site.as_ref().map(Site::as_str).into_iter().chain(link_site));
    }
    let is_new = |site: &&str| !matches!(*site, "" | "-") && !state.sites.contains(*site);
    sites.into_iter().filter(is_new).map(str::to_owned).collect()
}

fn bodies(reports: &[NewReport], gathered: &Gathered, changes: &Changes<Facts>, sites: &[String], version: u64) -> Bodies {
    let mut bodies = Bodies::default();
    for site in sites {
        bodies.sites.text(&registrable_domain(site));
        bodies.sites.text(site);
    }
    report_rows(reports, gathered, changes, version, &mut bodies.reports);
    changes.events_first.iter().for_each(|write| encode_event(write, version, &mut bodies.events_first));
    changes.events.iter().for_each(|write| encode_event(write, version, &mut bodies.events));
    bodies
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
        let mut issuers: HashMap<(EventKey, i64), BTreeSet<OrgId>> = HashMap::new();
        for (identity, at_ms, issuer) in new.chain(stored) {
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
    use store::tables::{EVENT_COLUMNS, FETCHED_COLUMNS, REPORT_COLUMNS, structure};

    fn without_spaces(text: &str) -> String {
        text.split_whitespace().collect::<String>().replace(['`', '\\'], "")
    }

    #[test]
    fn inserts_name_and_type_the_encoded_columns() {
        let inserts =
            [(include_str!("sql/insert_events.sql"), EVENT_COLUMNS), (include_str!("sql/insert_reports.sql"), REPORT_COLUMNS)];
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
