//! Decoded reports as the merge function and the tables need them.

use crate::record::row::ReportRow;
use schemas::event::SourceRole;
use schemas::ids::{OrgId, SessionId};
use schemas::site::Site;
use std::sync::Arc;
use store::facts::{Facts, Fetch, ReportFacts, role, session_digest};
use store::report::{Acceptance, Observer, Report};
use store::tables::ReportContent;

/// Event types that only agents report, so that a missing role is the agent's (docs/api/events.md#event-types).
const AGENTS_TYPES: [&str; 6] =
    ["content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started", "turn_completed"];
/// Code of a click token's link to another host.
const OTHER_LINK: i8 = 3;

/// A report of a block, and everything that was reported.
pub(super) struct NewReport {
    pub(super) report: Report<Facts>,
    row: ReportRow,
}

impl From<ReportRow> for NewReport {
    fn from(row: ReportRow) -> Self {
        let source_role = SourceRole::from_code(row.source_role);
        let report = Report {
            shared_key: row.shared_key,
            accepted: Acceptance { at_us: row.received_at_us, place: row.place, identity: row.identity },
            observer: Observer {
                org: OrgId(row.org_id),
                role: source_role,
                drain: row.drain.filter(|_| row.shared_key.is_some()),
            },
            site: (!row.site.is_empty()).then(|| Site::from_stored(&row.site)),
            at_ms: row.at,
            facts: Arc::new(facts(&row, source_role)),
        };
        Self { report, row }
    }
}

impl NewReport {
    /// The organization whose click token bound it, if another one reported it.
    pub(super) fn issuer(&self) -> Option<OrgId> {
        issuer(self.report.observer.org, &self.report.facts)
    }

    /// Partition and offset of its record.
    pub(super) fn origin(&self) -> (i32, i64) {
        (self.row.partition, self.row.offset)
    }

    pub(super) fn content(&self) -> ReportContent<'_> {
        let (row, report) = (&self.row, &self.report);
        ReportContent {
            accepted: report.accepted,
            group_key: report.shared_key,
            source_role: SourceRole::code(report.observer.role),
            drain: report.observer.drain.map(|drain| drain.0).unwrap_or_default(),
            facts: &report.facts,
            site: &row.site,
            session: row.session_id,
            link: u8::try_from(row.link).unwrap_or(0),
            link_site: &row.link_site,
            content_id: &row.content_id,
            content_telemetry_id: &row.content_telemetry_id,
            event_id: &row.event_id,
            turn_id: &row.turn_id,
            output_id: &row.output_id,
            data: &row.data,
            extra: &row.extra,
            cache_status: &row.cache_status,
            asn: row.asn,
            country: &row.country,
            media_type: &row.media_type,
            bots_version: &row.bots_version,
            origin: self.origin(),
        }
    }
}

/// The organization whose click token bound a report, if another one reported it.
pub(super) fn issuer(reporter: OrgId, facts: &ReportFacts) -> Option<OrgId> {
    Some(facts.platform).filter(|platform| *platform != reporter)
}

fn facts(row: &ReportRow, source_role: Option<SourceRole>) -> ReportFacts {
    let is_agents = source_role.is_none() && AGENTS_TYPES.contains(&row.event_type.as_str());
    let platform = OrgId(row.platform_id);
    let link_site = match (row.link, row.link_site.as_str()) {
        (OTHER_LINK, "") => "-",
        (OTHER_LINK, site) => site,
        _ => "",
    };
    let fetch = Fetch {
        bot: row.bot.clone(),
        operator: row.operator.clone(),
        purpose: row.purpose.clone(),
        verified: u8::try_from(row.verified).unwrap_or(0),
        status: row.response_status,
        bytes: row.response_bytes,
    };
    ReportFacts {
        event_type: row.event_type.clone(),
        url: row.content_url.clone(),
        role: if is_agents { role::AGENT } else { SourceRole::code(source_role) },
        platform,
        agent: row.agent_id.clone(),
        session: if row.session_id.is_nil() { 0 } else { session_digest(platform, SessionId(row.session_id)) },
        link_site: link_site.to_owned(),
        fetch: Some(fetch).filter(|fetch| *fetch != Fetch::default()),
    }
}
