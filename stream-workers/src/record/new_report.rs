//! A record's reports, as needed by the merge function and the tables.

use schemas::bots::Purpose;
use schemas::click_tokens::LinkRelation;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord};
use schemas::report_keys::ReportKeys;
use schemas::signature::SignatureResult;
use schemas::site::Site;
use std::sync::Arc;
use store::facts::{Facts, Fetch, ReportFacts, role, session_digest};
use store::report::{Acceptance, Observer, Report};
use store::tables::ReportContent;

/// Event types that only agents report, so a missing role means agent (docs/api/events.md#event-types).
const AGENTS_TYPES: [&str; 6] =
    ["content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started", "turn_completed"];

/// One event of a record, after looking up its click token and agent.
pub(crate) struct NewReport {
    pub(crate) report: Report<Facts>,
    /// The rest of the event, which isn't part of the facts.
    pub(crate) event: LogEvent,
    /// Partition and offset of its record.
    pub(crate) origin: (i32, i64),
}

impl NewReport {
    pub(crate) fn from_record(record: LogRecord, origin: (i32, i64)) -> Vec<Self> {
        let LogRecord { org, is_owners, drain, received_at_us, events, signature, .. } = record;
        let report = |(place, mut event): (usize, LogEvent)| {
            let ReportKeys { shared, identity } = ReportKeys::new(org, drain, &event);
            event.signature = event.signature.take().or_else(|| signature.clone());
            let place = u16::try_from(place).unwrap_or(u16::MAX);
            let report = Report {
                shared_key: shared,
                accepted: Acceptance { at_us: received_at_us, place, identity },
                observer: Observer { org, role: event.source_role, drain: drain.filter(|_| shared.is_some()) },
                site: (!event.site.is_empty()).then(|| Site::from_stored(&event.site)),
                at_ms: event.at_ms,
                facts: Arc::new(take_facts(&mut event, org, is_owners)),
            };
            Self { report, event, origin }
        };
        events.into_iter().enumerate().map(report).collect()
    }

    /// Returns the organization whose click token bound the report, if it isn't the reporter.
    pub(crate) fn issuer(&self) -> Option<OrgId> {
        issuer(self.report.observer.org, &self.report.facts)
    }

    pub(crate) fn content(&self) -> ReportContent<'_> {
        ReportContent { report: &self.report, event: &self.event, origin: self.origin }
    }
}

/// Returns the organization whose click token bound a report, if it isn't the reporter.
pub(crate) fn issuer(reporter: OrgId, facts: &ReportFacts) -> Option<OrgId> {
    Some(facts.platform).filter(|platform| *platform != reporter)
}

fn take_facts(event: &mut LogEvent, reporter: OrgId, is_owners: bool) -> ReportFacts {
    let is_agents = event.source_role.is_none() && AGENTS_TYPES.contains(&event.event_type.as_str());
    let platform = event.session_org.unwrap_or(reporter);
    let link_site = match (event.link, event.link_site.as_str()) {
        (Some(LinkRelation::Other), "") => "-",
        (Some(LinkRelation::Other), site) => site,
        _ => "",
    };
    ReportFacts {
        role: if is_agents { role::AGENT } else { SourceRole::code(event.source_role) },
        platform,
        session: event.session_id.filter(|session| !session.0.is_nil()).map_or(0, |session| session_digest(platform, session)),
        link_site: link_site.to_owned(),
        fetch: event.crawler.as_deref_mut().map(take_fetch).filter(|fetch| *fetch != Fetch::default()),
        event_type: std::mem::take(&mut event.event_type),
        url: event.content_url.take().unwrap_or_default(),
        agent: event.agent_id.take().unwrap_or_default(),
        is_owners,
        signature: event.signature.as_ref().map_or(SignatureResult::None, |signature| signature.result),
    }
}

fn take_fetch(crawler: &mut Crawler) -> Fetch {
    Fetch {
        bot: std::mem::take(&mut crawler.bot),
        operator: std::mem::take(&mut crawler.operator),
        purpose: crawler.purpose.map(Purpose::as_str).unwrap_or_default().to_owned(),
        verified: u8::try_from(Crawler::verified_code(crawler.verified)).unwrap_or(0),
        status: crawler.response_status,
        bytes: crawler.response_bytes,
    }
}
