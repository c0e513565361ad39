//! `GET /content-owners/events/{id}`: one event as in the list, and the report of each observer.

use super::lists::{event, id, instant};
use crate::State;
use crate::access::visibility::Visibility;
use crate::event_data::{self, Audience, StoredEvent};
use crate::parameters::ReadParameters;
use crate::read_limiter::AdmittedReader;
use crate::reads::{EventRow, FoundEvent};
use crate::respond::streamed_response;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use schemas::event::SourceRole;
use schemas::paged_responses::{EventItem, EventReport, EventReports};
use schemas::problem::Code;
use schemas::signature::SignatureResult;
use service_kit::http::{ApiError, Parameters};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Returns the newest event with this id in the period.
pub(crate) async fn read_event(
    Shared(state): Shared<Arc<State>>,
    reading: AdmittedReader,
    Path(event_id): Path<String>,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_owners(&[])?;
    let period = asked.period()?;
    let visibility = Visibility::for_read(&state.directory, &reading.reader, &asked).await?;
    // ClickHouse rejects NUL in parameters, and stored ids never contain it.
    if event_id.contains('\0') {
        return Err(unknown());
    }
    let found = state.reads(&reading.permit).owners_event(&visibility, &period, &event_id).await?.ok_or_else(unknown)?;
    let platforms = found.reports.iter().chain([&found.event]).map(|row| row.platform);
    let names = state.names.names(platforms).await;
    let told = serde_json::to_vec(&response(found, &names)).map_err(ApiError::internal)?;
    streamed_response::whole(told, reading.permit)
}

fn unknown() -> ApiError {
    ApiError::new(Code::NotFound, "Event not found.")
}

fn response(found: FoundEvent, names: &HashMap<Uuid, String>) -> EventReports {
    let corroboration = found.claimed_and_seen.map(|parts| match parts {
        (true, true) => "seen_by_both",
        (true, false) => "claimed_by_agent_only",
        (false, true) => "seen_by_server_only",
        (false, false) => "seen_by_neither",
    });
    EventReports {
        event: EventItem { platform_name: Some(name_of(found.event.platform, names)), ..event(found.event, Audience::Owner) },
        corroboration: corroboration.map(str::to_owned),
        events_of_this_id: found.of_this_id,
        total_reports: found.reports.len() as u64,
        reports: found.reports.into_iter().map(|row| report(row, names)).collect(),
    }
}

fn name_of(platform: Uuid, names: &HashMap<Uuid, String>) -> String {
    names.get(&platform).cloned().unwrap_or_default()
}

fn report(row: EventRow, names: &HashMap<Uuid, String>) -> EventReport {
    let told = StoredEvent { event_type: &row.r#type, data: &row.reported, extra: &row.unknown };
    EventReport {
        source_role: SourceRole::from_code(row.role).map_or_else(String::new, |role| role.as_str().to_owned()),
        event_data: event_data::visible_to(told, Audience::Owner),
        event_id: row.id,
        session_id: id(row.session),
        event_type: row.r#type,
        content_url: row.url,
        event_timestamp: instant(row.at_ms),
        platform_id: id(row.platform),
        platform_name: name_of(row.platform, names),
        agent_id: row.agent,
        signature: SignatureResult::from_code(row.signature.result).as_str().to_owned(),
        signature_reason: row.signature.reason,
        signed_by: row.signature.signed_by,
        signature_proof: serde_json::from_str(&row.signature.proof).ok(),
    }
}
