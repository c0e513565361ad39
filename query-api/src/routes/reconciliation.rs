//! `GET /content-owners/reconciliation`: what agents claim and what servers saw (docs/api/reconciliation.md).

pub(crate) mod alerts;

use super::coverage;
use super::lists::{ListRequest, id, instant};
use crate::State;
use crate::parameters::{ReadParameters, invalid};
use crate::read_limiter::AdmittedReader;
use crate::reads::{ReconciledBy, ReconciledFetches, ReconciliationRow, scanned_days};
use crate::respond::page;
use axum::http::HeaderMap;
use axum::response::Response;
use schemas::paged_responses::{EVENTS_PAGE, Finding, Page, ReconciliationItem};
use service_kit::http::{ApiError, Parameters};
use std::sync::Arc;

const BY_FINDING: &[&str] = &["operator", "finding", "fetches", "last_seen"];
const BY_AGENT: &[&str] = &["operator", "finding", "platform_id", "agent_id", "fetches", "last_seen"];
const BY_URL: &[&str] = &["operator", "finding", "content_url", "fetches", "last_seen"];
const BY_EVENT: &[&str] = &["operator", "finding", "platform_id", "agent_id", "content_url", "event_id", "event_timestamp"];

/// Returns findings by licensee; the default is one item per finding.
pub(crate) async fn read_reconciliation(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["limit", "offset", "by", "finding"])?;
    let (by, columns) = match asked.get("by") {
        None | Some("finding") => (ReconciledBy::Finding, BY_FINDING),
        Some("agent") => (ReconciledBy::Agent, BY_AGENT),
        Some("url") => (ReconciledBy::Url, BY_URL),
        Some("event") => (ReconciledBy::Event, BY_EVENT),
        Some(_) => return Err(invalid("by must be one of: finding, agent, url, event.")),
    };
    let finding = asked.get("finding").map(parse_finding).transpose()?.map_or("", Finding::as_str).to_owned();
    let asked = ListRequest::parse(&state, reading, &asked, EVENTS_PAGE).await?;
    let (operator, filter) = asked.filter.clone().without("operator");
    let fetches = ReconciledFetches { by, operator, finding, filter };
    let servers = coverage::servers(&state, asked.tenant(), &asked.visibility, &scanned_days(&asked.period)).await?;
    let at = asked.paging;
    let (total, rows) = state
        .reads(&asked.permit)
        .reconciliation(&asked.visibility, &asked.period, (&fetches, &servers, &state.bots), at)
        .await?;
    let envelope = Page::<()> { items: Vec::new(), total, limit: at.limit, offset: at.offset };
    let rows = page::in_memory(rows, crate::parameters::paging::Paging { offset: 0, ..at });
    page::respond_with_total(asked.response_options(&headers, columns), &envelope, total, rows, move |row| item(row, by)).await
}

fn parse_finding(name: &str) -> Result<Finding, ApiError> {
    name.parse().map_err(|_| {
        let names = Finding::ALL.map(Finding::as_str).join(", ");
        invalid(format!("finding must be one of: {names}."))
    })
}

fn item((row, event_id): (ReconciliationRow, String), by: ReconciledBy) -> ReconciliationItem {
    let has_agent = matches!(by, ReconciledBy::Agent | ReconciledBy::Event);
    let has_url = matches!(by, ReconciledBy::Url | ReconciledBy::Event);
    let is_event = by == ReconciledBy::Event;
    let time = instant(row.last_ms);
    ReconciliationItem {
        operator: row.licensee,
        finding: row.finding,
        platform_id: has_agent.then(|| id(row.platform)),
        agent_id: Some(row.agent).filter(|_| has_agent),
        content_url: Some(row.url).filter(|_| has_url),
        event_id: Some(event_id).filter(|_| is_event),
        event_timestamp: Some(time.clone()).filter(|_| is_event),
        fetches: (!is_event).then_some(row.fetch_count),
        last_seen: Some(time).filter(|_| !is_event),
    }
}
