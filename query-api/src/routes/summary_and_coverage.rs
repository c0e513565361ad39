//! Content owners' summary and coverage reads.
//!
//! Every figure comes from the store and none is computed here, so all of them describe the same moment.

use super::coverage;
use crate::State;
use crate::access::visibility::Visibility;
use crate::parameters::ReadParameters;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::period::Period;
use crate::read_limiter::AdmittedReader;
use crate::reads::{DrainLinesRow, SummaryFigures};
use crate::respond::streamed_response;
use axum::response::Response;
use schemas::coverage::Coverage;
use schemas::crawler_responses::{CoverageRead, DrainLines};
use schemas::event::SourceRole;
use schemas::summary_responses::{AgentCount, SourceCount, Summary, TypeCount};
use service_kit::http::{ApiError, Parameters};
use std::cmp::Reverse;
use std::sync::Arc;

/// Returns totals by type, role and agent.
pub(crate) async fn read_summary(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&[])?;
    let (filter, period) = (EventFilter::parse(&asked)?, asked.period()?);
    let visibility = Visibility::for_read(&state.directory, &reading.reader, &asked).await?;
    let coverage = coverage::coverage_for_figures(&state, &reading.permit, &visibility, &period).await?;
    let figures = state.reads(&reading.permit).summary(&visibility, &period, &filter).await?;
    let summary = assemble(&visibility, period, figures, coverage);
    let summary = serde_json::to_vec(&summary).map_err(ApiError::internal)?;
    streamed_response::whole(summary, reading.permit)
}

pub(crate) async fn read_coverage(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_owners(&[])?;
    let period = asked.period()?;
    let visibility = Visibility::for_read(&state.directory, &reading.reader, &asked).await?;
    let coverage = coverage::coverage(&state, &reading.permit, &visibility, &period).await?;
    let drains = state.reads(&reading.permit).drain_lines(&visibility, &period).await?;
    let read = CoverageRead {
        organization_id: visibility.organization_id(),
        domains: visibility.domains().to_vec(),
        period_start: period.start,
        period_end: period.end,
        coverage,
        drains: drains.into_iter().map(drain_lines).collect(),
    };
    let read = serde_json::to_vec(&read).map_err(ApiError::internal)?;
    streamed_response::whole(read, reading.permit)
}

fn drain_lines(row: DrainLinesRow) -> DrainLines {
    DrainLines { drain_id: row.drain_id, lines_with_id: row.lines, joined: row.joined, reused_ids: row.reused }
}

fn assemble(visibility: &Visibility, period: Period, figures: SummaryFigures, coverage: Option<Coverage>) -> Summary {
    let SummaryFigures { events, sessions, types, other_types, roles, agents, other_agents } = figures;
    let source = |(role, (count, sessions)): (SourceRole, (u64, u64))| SourceCount {
        source_role: role.as_str().to_owned(),
        count,
        sessions,
    };
    let agent = |((platform_id, agent_id), (event_count, session_count))| AgentCount {
        platform_id,
        agent_id,
        event_count,
        session_count,
        other: false,
    };
    let others = other_agents.map(|counts| AgentCount { other: true, ..agent((<_>::default(), counts)) });
    let mut summary = Summary {
        organization_id: visibility.organization_id(),
        domains: visibility.domains().to_vec(),
        total_events: events,
        total_sessions: sessions,
        events_by_type: types.into_iter().map(|(event_type, count)| TypeCount { event_type, count, other: false }).collect(),
        events_by_source: roles.into_iter().map(source).collect(),
        agents: agents.into_iter().map(agent).collect(),
        period_start: period.start,
        period_end: period.end,
        coverage,
    };
    // The sort is stable, so equal items stay sorted by name.
    summary.events_by_type.sort_by_key(|of| Reverse(of.count));
    summary.agents.sort_by_key(|of| Reverse(of.event_count));
    summary.events_by_type.extend(TypeCount::sum_of_others(other_types));
    summary.agents.extend(others);
    summary
}
