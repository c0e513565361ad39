//! The rows of a block's statements.

use super::batch::Batch;
use super::gather::Gathered;
use super::new_report::{NewReport, issuer};
use super::state::State;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::{Site, registrable_domain};
use std::collections::{BTreeSet, HashMap};
use store::facts::Facts;
use store::merge::Changes;
use store::report::Acceptance;
use store::row::{EventWrite, ReportPlace, ReportWrite};
use store::row_binary::Encoder;
use store::tables::{FailedFetchRow, encode_event, encode_report};

/// The bodies of a block's statements.
#[derive(Default)]
pub(super) struct Bodies {
    pub(super) sites: Encoder,
    pub(super) reports: Encoder,
    pub(super) events_first: Encoder,
    pub(super) events: Encoder,
    pub(super) failed_fetches: Encoder,
}

/// Hosts, also of click tokens' links, that occur for the first time.
pub(super) fn new_sites(changes: &Changes<Facts>, failed_fetches: &[FailedFetchRow], state: &State) -> Vec<String> {
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
pub(super) fn bodies(
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
