//! The model: naively calculates the events and what an owner sees of each.

use super::fixture::OwnerRead;
use super::reports::TestReport;
use crate::parameters::event_filter::Outcome;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::signature::SignatureResult;
use schemas::site::Site;
use std::collections::{BTreeMap, BTreeSet};
use store::facts::Fetch;
use uuid::Uuid;

const MOST_OBSERVERS: usize = 32;
pub(super) const CONTENT_RETRIEVED: &str = "content_retrieved";

/// The reports of an event, in order of acceptance.
#[derive(Clone)]
pub(in crate::reads) struct Event<'a> {
    pub(in crate::reads) reports: Vec<&'a TestReport>,
}

/// A report as an owner sees it.
pub(super) struct ShownReport<'a> {
    pub(super) role: u8,
    pub(super) org: Uuid,
    pub(super) platform: Uuid,
    pub(super) agent: &'a str,
    /// 0 if there is no session.
    pub(super) session: u64,
}

impl ShownReport<'_> {
    /// Returns whether it counts as an agent's report.
    pub(super) fn has_agent(&self) -> bool {
        self.role == 1 || self.session != 0
    }

    pub(super) fn is_claim(&self) -> bool {
        self.role <= 1 && self.has_agent()
    }

    /// Returns platform and agent.
    pub(super) fn named(&self) -> (String, String) {
        (self.platform.to_string(), self.agent.to_owned())
    }
}

pub(in crate::reads) fn events(reports: &[TestReport]) -> Vec<Event<'_>> {
    let mut ordered: Vec<&TestReport> = reports.iter().collect();
    ordered.sort_by_key(|report| (report.accepted.at_us, report.accepted.place, report.accepted.identity));
    let (mut events, mut copies): (BTreeMap<EventKey, Vec<&TestReport>>, BTreeSet<EventKey>) = Default::default();
    for report in ordered.into_iter().filter(|report| copies.insert(report.accepted.identity)) {
        let has_room = |joined: &Vec<&TestReport>| {
            joined.len() < MOST_OBSERVERS && joined.iter().all(|other| other.observer != report.observer)
        };
        let shared = report.shared_key.filter(|key| events.get(key).is_none_or(has_room));
        events.entry(shared.unwrap_or(report.accepted.identity)).or_default().push(report);
    }
    events.into_values().map(|reports| Event { reports }).collect()
}

impl<'a> Event<'a> {
    /// Returns the time of the first timely report, or of the first report if no report is timely.
    pub(in crate::reads) fn at_ms(&self) -> i64 {
        let is_timely = |report: &&&TestReport| {
            let late_ms = report.accepted.at_us as f64 / 1_000.0 - report.at_ms as f64;
            (-3_600_000.0..=86_400_000.0).contains(&late_ms)
        };
        self.reports.iter().find(is_timely).unwrap_or(&self.reports[0]).at_ms
    }

    /// Returns the reports by role (agent, edge, origin, index, no role), then by acceptance.
    pub(in crate::reads) fn by_precedence(&self) -> Vec<&'a TestReport> {
        let mut reports = self.reports.clone();
        reports.sort_by_key(|report| report.observer.role.map_or(u8::MAX, |role| SourceRole::code(Some(role))));
        reports
    }

    pub(in crate::reads) fn representing(&self) -> &'a TestReport {
        self.by_precedence()[0]
    }

    pub(in crate::reads) fn event_type(&self) -> &'a str {
        &self.representing().facts.event_type
    }

    /// Returns whether it is represented by a report from the reading owner.
    pub(super) fn is_owners(&self, read: &OwnerRead) -> bool {
        self.representing().observer.org == read.seen.organization_id()
    }

    pub(super) fn is_retrieval(&self) -> bool {
        self.event_type() == CONTENT_RETRIEVED
    }

    pub(in crate::reads) fn host(&self) -> String {
        self.representing().site.as_ref().map(Site::domain).unwrap_or_default()
    }

    /// Returns a report as an owner sees it.
    pub(super) fn shown(&self, report: &'a TestReport, read: &OwnerRead) -> ShownReport<'a> {
        let (facts, org) = (&report.facts, report.observer.org.0);
        let link = facts.link_site.rsplit('.').collect::<Vec<_>>().join(".");
        let is_told = link.is_empty() || read.may_see(&link, self.at_ms());
        let (platform, agent, session) =
            if is_told { (facts.platform.0, facts.agent.as_str(), facts.session) } else { (org, "", 0) };
        ShownReport { role: facts.role, org, platform, agent, session }
    }

    /// Returns all reports as an owner sees them, the representing one first.
    pub(super) fn all_shown(&self, read: &OwnerRead) -> Vec<ShownReport<'a>> {
        self.by_precedence().into_iter().map(|report| self.shown(report, read)).collect()
    }

    /// Returns the agent that the event counts for, if its representing report is a claim.
    pub(super) fn claimant(&self, read: &OwnerRead) -> Option<(String, String)> {
        let shown = self.shown(self.representing(), read);
        shown.is_claim().then(|| shown.named())
    }

    /// Returns the agent that the event counts for or, without one, the bot.
    pub(super) fn agent_or_bot(&self, read: &OwnerRead) -> String {
        self.claimant(read).map_or_else(|| self.fetch().bot, |(_, agent)| agent)
    }

    /// Returns whether the event is a click that leads to the host of the token's link.
    pub(super) fn is_visit(&self) -> bool {
        let report = self.representing();
        let has_token = report.facts.platform != report.observer.org && report.facts.link_site.is_empty();
        self.event_type() == "content_engaged" && has_token
    }

    /// Returns whether an agent claims the event, and whether a server of an organization without a claim reports it.
    pub(super) fn corroboration(&self, read: &OwnerRead) -> (bool, bool) {
        let all = self.all_shown(read);
        let claimants: BTreeSet<Uuid> = all.iter().filter(|shown| shown.is_claim()).map(|shown| shown.org).collect();
        let is_seen = all.iter().any(|shown| matches!(shown.role, 2 | 3) && !claimants.contains(&shown.org));
        (!claimants.is_empty(), is_seen)
    }

    /// Returns the fetch details from the owner's first report that names a bot, otherwise from the first with a status, otherwise from the
    /// first with any details. Uses other organizations' reports, in the same order, only if no report by the owner has details; a failed
    /// status is then ignored if the owner reports the event.
    pub(super) fn fetch(&self) -> Fetch {
        let describing = |report: &&TestReport| report.facts.fetch.is_some();
        let reports: Vec<&TestReport> = self.by_precedence().into_iter().filter(describing).collect();
        let is_told_by_owner = reports.iter().any(|report| report.facts.is_owners);
        let reports = || reports.iter().filter(|report| report.facts.is_owners == is_told_by_owner);
        let fetches = || reports().filter_map(|report| report.facts.fetch.as_ref());
        let named = fetches().find(|fetch| !fetch.bot.is_empty());
        let told = named.or(fetches().find(|fetch| fetch.status != 0)).or(fetches().next()).cloned().unwrap_or_default();
        let is_owners_event = self.reports.iter().any(|report| report.facts.is_owners);
        let is_others_failure = is_owners_event && !is_told_by_owner && told.status / 100 != 2;
        if is_others_failure { Fetch { status: 0, bytes: 0, ..told } } else { told }
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        let outcome = match self.fetch().status {
            0 | 200..=299 => Outcome::Fetch,
            304 => Outcome::Revalidation,
            _ => Outcome::Failed,
        };
        self.is_retrieval().then_some(outcome)
    }

    /// Returns `Valid` if any report's signature is valid, otherwise `Invalid` if any is invalid.
    pub(super) fn signature(&self) -> SignatureResult {
        let has = |result: &SignatureResult| self.reports.iter().any(|report| report.facts.signature == *result);
        [SignatureResult::Valid, SignatureResult::Invalid].into_iter().find(has).unwrap_or(SignatureResult::None)
    }

    /// Returns the event's evidence, or an empty text.
    pub(super) fn evidence(&self, read: &OwnerRead) -> &'static str {
        match self.corroboration(read) {
            (true, true) => "corroborated",
            (true, false) => "claimed",
            (false, true) => "observed",
            (false, false) => "",
        }
    }
}

pub(super) fn sessions<'a, 's: 'a>(shown: impl IntoIterator<Item = &'a ShownReport<'s>>) -> u64 {
    let distinct: BTreeSet<u64> = shown.into_iter().map(|shown| shown.session).filter(|session| *session != 0).collect();
    distinct.len() as u64
}

pub(super) fn day(at_ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(at_ms).unwrap().format("%Y-%m-%d").to_string()
}
