//! The reads of content owners: parameters in, figures in a fixed order out.
//!
//! Must not compute figures that the store did not, but for adding up their parts: every figure of an answer comes
//! from one snapshot.

use super::coverage;
use crate::State;
use crate::access::visibility::Visibility;
use crate::parameters::ReadParameters;
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use crate::read_limiter::AdmittedReader;
use crate::reads::{DrainLinesRow, SummaryRow};
use crate::respond::streamed_answer;
use axum::response::Response;
use schemas::crawler_reads::{CoverageRead, DrainLines};
use schemas::event::SourceRole;
use schemas::reads::{AgentCount, SourceCount, Summary, TypeCount};
use service_kit::http::{ApiError, Parameters};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What has no pages ignores them.
pub(crate) const PAGES: [&str; 3] = ["limit", "offset", "after"];

/// Totals by type, by source and by agent.
pub(crate) async fn read_summary(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.refuse_others_of_owner(&[&PAGES[..], &["outcome"]].concat())?;
    let (outcome, period) = (Outcome::parse(asked.outcome.as_deref())?, asked.period()?);
    let visibility = Visibility::establish(&state.directory, &reading.reader, &asked).await?;
    let coverage = coverage::beside_figures(&state, reading.permit.organization(), &visibility, &period).await?;
    let rows = state.telemetry.summary(&visibility, &period, outcome).await?;
    let summary = Summary { coverage, ..assemble_summary(&visibility, period, rows) };
    let summary = serde_json::to_vec(&summary).map_err(ApiError::internal)?;
    Ok(streamed_answer::whole(summary, reading.permit))
}

/// `GET /content-owners/coverage`.
pub(crate) async fn read_coverage(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.refuse_others_of_owner(&PAGES)?;
    let period = asked.period()?;
    let visibility = Visibility::establish(&state.directory, &reading.reader, &asked).await?;
    let coverage = coverage::coverage(&state, reading.permit.organization(), &visibility, &period).await?;
    let drains = state.telemetry.drain_lines(&visibility, &period).await?;
    let read = CoverageRead {
        organization_id: visibility.organization_id(),
        domains: visibility.domains().to_vec(),
        period_start: period.start,
        period_end: period.end,
        coverage,
        drains: drains.into_iter().map(drain_lines).collect(),
    };
    let read = serde_json::to_vec(&read).map_err(ApiError::internal)?;
    Ok(streamed_answer::whole(read, reading.permit))
}

fn drain_lines(row: DrainLinesRow) -> DrainLines {
    DrainLines { drain_id: row.drain_id, lines_with_id: row.lines, joined: row.joined, reused_ids: row.reused }
}

fn assemble_summary(visibility: &Visibility, period: Period, rows: Vec<SummaryRow>) -> Summary {
    let mut summary = Summary {
        organization_id: visibility.organization_id(),
        domains: visibility.domains().to_vec(),
        total_events: 0,
        total_sessions: 0,
        events_by_type: Vec::new(),
        events_by_source: Vec::new(),
        agents: Vec::new(),
        period_start: period.start,
        period_end: period.end,
        coverage: None,
    };
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    let mut sources: BTreeMap<SourceRole, (u64, u64)> = BTreeMap::new();
    let mut agents: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for row in rows {
        match row {
            SummaryRow::Total { events, sessions } => {
                add((&mut summary.total_events, &mut summary.total_sessions), (events, sessions));
            }
            SummaryRow::Type { event_type, events } => *types.entry(event_type).or_default() += events,
            SummaryRow::Source { role, events, sessions } => {
                let (all_events, all_sessions) = sources.entry(role).or_default();
                add((all_events, all_sessions), (events, sessions));
            }
            SummaryRow::Agent { platform_id, agent_id, events, sessions } => {
                let (all_events, all_sessions) = agents.entry((platform_id, agent_id)).or_default();
                add((all_events, all_sessions), (events, sessions));
            }
        }
    }
    // Roles and agents without an event are left out.
    sources.retain(|_, (count, _)| *count > 0);
    agents.retain(|_, (event_count, _)| *event_count > 0);
    summary.events_by_type = types.into_iter().map(|(event_type, count)| TypeCount { event_type, count }).collect();
    let source = |(role, (count, sessions)): (SourceRole, (u64, u64))| SourceCount {
        source_role: role.as_str().to_owned(),
        count,
        sessions,
    };
    summary.events_by_source = sources.into_iter().map(source).collect();
    let agent = |((platform_id, agent_id), (event_count, session_count))| AgentCount {
        platform_id,
        agent_id,
        event_count,
        session_count,
    };
    summary.agents = agents.into_iter().map(agent).collect();
    summary.events_by_type.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.event_type.cmp(&b.event_type)));
    summary.agents.sort_by(|a, b| {
        let by_name = || (&a.platform_id, &a.agent_id).cmp(&(&b.platform_id, &b.agent_id));
        b.event_count.cmp(&a.event_count).then_with(by_name)
    });
    summary
}

/// Adds a part to a figure.
fn add((events, sessions): (&mut u64, &mut u64), (more_events, more_sessions): (u64, u64)) {
    *events += more_events;
    *sessions += more_sessions;
}
