//! Reports of sessions that PostgreSQL did not take in time, until this gateway has written them: events that come in the meantime
//! have to know a level that was declared.
//!
//! Must not grow with the length of an outage: what gives way is written by the worker, which has it from the log.

use schemas::ids::OrgId;
use schemas::session::SessionReport;
use service_kit::byte_lru::ByteLru;
use service_kit::sessions::Session;

/// Most bytes; some 100,000 sessions that say little of themselves.
const BUDGET: usize = 32 * 1024 * 1024;
/// What one takes besides its texts.
const BESIDE_TEXTS: usize = 320;

/// What PostgreSQL lacks of what was reported, by session, as many as the budget holds.
pub(super) struct LeftReports(ByteLru<Session, SessionReport>);

impl Default for LeftReports {
    fn default() -> Self {
        Self(ByteLru::new(BUDGET, size))
    }
}

impl LeftReports {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, session: &Session) -> bool {
        self.0.peek(session).is_some()
    }

    /// Adds a report to what was left of its session; the sessions that were named least recently give way.
    pub(super) fn add(&mut self, org: OrgId, report: &SessionReport) {
        let session = (org, report.session_id);
        let mut whole = self.0.pop(&session).unwrap_or_else(|| SessionReport::of(report.session_id));
        whole.add(report);
        self.0.put(session, whole);
    }

    /// What was left of the sessions of these reports, and of so many others, the oldest first.
    pub(super) fn with(&self, reports: &[(OrgId, SessionReport)], others: usize) -> Vec<(OrgId, SessionReport)> {
        let own = reports.iter().filter_map(|(org, report)| Some((*org, self.0.peek(&(*org, report.session_id))?.clone())));
        let others = self.0.oldest_first().take(others).map(|((org, _), report)| (*org, report.clone()));
        own.chain(others).collect()
    }

    /// Forgets a report that PostgreSQL has taken, unless more was left of its session meanwhile.
    pub(super) fn remove(&mut self, org: OrgId, report: &SessionReport) {
        let session = (org, report.session_id);
        if self.0.peek(&session) == Some(report) {
            self.0.pop(&session);
        }
    }
}

fn size(report: &SessionReport) -> usize {
    let texts = [&report.parent_session_id, &report.manifest_ref, &report.agent_id];
    BESIDE_TEXTS + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::event::MAX_STRING_BYTES;
    use schemas::ids::SessionId;
    use schemas::session::PrivacyLevel;
    use uuid::Uuid;

    const ORG: OrgId = OrgId(Uuid::nil());

    fn report(number: u128) -> SessionReport {
        SessionReport::of(SessionId(Uuid::from_u128(number)))
    }

    fn kept(left: &LeftReports) -> Vec<SessionReport> {
        left.with(&[], usize::MAX).into_iter().map(|(_, report)| report).collect()
    }

    #[test]
    fn what_was_left_of_a_session_is_one_report_and_goes_with_the_oldest_of_the_others() {
        let mut left = LeftReports::default();
        let strict = SessionReport { privacy_level: Some(PrivacyLevel::Minimal), ..report(1) };
        let named = SessionReport { agent_id: Some("bot".to_owned()), ..report(1) };
        for report in [&report(3), &strict, &report(2), &named] {
            left.add(ORG, report);
        }
        let whole = SessionReport { agent_id: Some("bot".to_owned()), ..strict.clone() };
        assert_eq!(left.with(&[(ORG, report(1))], 1), [(ORG, whole.clone()), (ORG, report(3))]);
        left.remove(ORG, &strict);
        assert!(left.contains(&(ORG, whole.session_id)), "more was left of it meanwhile");
        left.remove(ORG, &whole);
        assert_eq!(kept(&left), [report(3), report(2)]);
    }

    #[test]
    fn f33_however_long_an_outage_and_whatever_is_reported_in_it_the_budget_of_memory_holds() {
        let (mut left, text) = (LeftReports::default(), || Some("x".repeat(MAX_STRING_BYTES)));
        for number in 0..20_000 {
            left.add(ORG, &report(number % 7_000));
            let long =
                SessionReport { parent_session_id: text(), manifest_ref: text(), agent_id: text(), ..report(number % 7_000) };
            left.add(ORG, &long);
            assert!(left.0.bytes() <= BUDGET, "after {number}");
        }
        assert_eq!(left.0.bytes(), kept(&left).iter().map(size).sum::<usize>());
        assert!(left.0.bytes() > BUDGET / 2 && !left.contains(&(ORG, report(6_000).session_id)), "the oldest gave way");
        for report in kept(&left) {
            left.remove(ORG, &report);
        }
        assert!(left.is_empty() && left.0.bytes() == 0);
    }
}
