//! Encodes the rows of a block's statements.

use super::current_rows::GatheredRows;
use super::state::State;
use super::statements::Stage;
use crate::consume::Origin;
use crate::record::new_report::{NewReport, issuer};
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;
use std::collections::{BTreeSet, HashMap};
use store::facts::Facts;
use store::merge::Changes;
use store::report::Acceptance;
use store::row::{EventWrite, ReportPlace, ReportWrite};
use store::row_binary::Encoder;
use store::tables::{FailedFetchRow, encode_event, encode_report};

/// Version of trial rows. Rows in blocks have larger versions.
const TRIAL: u64 = 0;

#[derive(Default)]
pub(super) struct Bodies {
    pub(super) sites: Encoder,
    pub(super) reports: Encoder,
    pub(super) events_first: Encoder,
    pub(super) events: Encoder,
    pub(super) failed_fetches: Encoder,
}

pub(super) fn changes(reports: &[NewReport], gathered: &GatheredRows, state: &State) -> Changes<Facts> {
    reports.iter().for_each(|new| crate::record::deadly_records::while_merging(&new.report.facts.url));
    gathered.merge(state)
}

/// Returns a stage's rows as deleted rows with version 0. They don't replace other rows, and reads don't return them.
pub(super) fn trial_rows(stage: Stage, reports: &[NewReport], gathered: &GatheredRows, state: &State) -> Encoder {
    let changes = changes(reports, gathered, state);
    let bodies = bodies((reports, gathered, &changes), (TRIAL, None)).unwrap_or_default();
    match stage {
        Stage::Reports => bodies.reports,
        Stage::Events => Encoder([bodies.events_first.0, bodies.events.0].concat()),
        Stage::Merge | Stage::FailedFetches | Stage::Other => Encoder::default(),
    }
}

/// Returns hosts that occur for the first time, including those of click tokens' links.
pub(super) fn new_sites(changes: &Changes<Facts>, failed_fetches: &[(Origin, FailedFetchRow)], state: &State) -> Vec<String> {
    let mut sites: BTreeSet<&str> = failed_fetches.iter().map(|(_, row)| row.fetch.site.as_str()).collect();
    for write in changes.events_first.iter().chain(&changes.events) {
        let EventWrite::Row(row) = write else { continue };
        let link_site = row.representative().map(|report| report.facts.link_site.as_str());
        sites.extend(row.site.as_ref().map(Site::as_str).into_iter().chain(link_site));
    }
    let is_new = |site: &&str| !matches!(*site, "" | "-") && !state.sites.contains(site);
    sites.into_iter().filter(is_new).map(str::to_owned).collect()
}

/// Encodes the rows that the merge has changed; `None` if a body is too large.
pub(super) fn bodies(
    (reports, gathered, changes): (&[NewReport], &GatheredRows, &Changes<Facts>),
    (version, most_bytes): (u64, Option<usize>),
) -> Option<Bodies> {
    let mut bodies = Bodies::default();
    let fits = |body: &Encoder| most_bytes.is_none_or(|most| body.0.len() <= most);
    report_rows(reports, gathered, changes, version, &mut bodies.reports);
    for (writes, body) in [(&changes.events_first, &mut bodies.events_first), (&changes.events, &mut bodies.events)] {
        for write in writes {
            encode_event(write, version, body);
            end_row(version, body);
            if !fits(body) {
                return None;
            }
        }
    }
    fits(&bodies.reports).then_some(bodies)
}

/// Turns a trial row into a deleted one, because `is_deleted` is its last column.
fn end_row(version: u64, body: &mut Encoder) {
    if let Some(is_deleted) = body.0.last_mut().filter(|_| version == TRIAL) {
        *is_deleted = 1;
    }
}

fn report_rows(reports: &[NewReport], gathered: &GatheredRows, changes: &Changes<Facts>, version: u64, body: &mut Encoder) {
    let by_acceptance: HashMap<Acceptance, &NewReport> = reports.iter().rev().map(|new| (new.report.accepted, new)).collect();
    let copies = Copies::new(reports, gathered);
    for write in &changes.reports {
        let new = match write {
            ReportWrite::Row(written) => by_acceptance.get(&written.accepted).copied(),
            ReportWrite::Tombstone(_) => None,
        };
        let content = new.map(NewReport::content);
        let place = write.place();
        let own_issuer = new.and_then(NewReport::issuer);
        for issuer in [None].into_iter().chain(own_issuer.map(Some)) {
            encode_report(&place, issuer, content.as_ref(), version, body);
            end_row(version, body);
        }
        // Another copy of the report, bound by another token, may have a row for its issuer.
        for issuer in copies.issuers(&place).filter(|issuer| Some(*issuer) != own_issuer) {
            encode_report(&place, Some(issuer), None, version, body);
        }
    }
}

/// Issuers of all known copies of a report, by identity and time.
struct Copies(HashMap<(EventKey, i64), BTreeSet<OrgId>>);

impl Copies {
    fn new(reports: &[NewReport], gathered: &GatheredRows) -> Self {
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
