//! First steps of agents and platforms: create a key, send a first report, and see it arrive while the page is open.

use super::reports::OWN_EVENTS;
use crate::State;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::responses::{ApiKey, List, OrgType, OwnEvent};
use crate::session::Member;
use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use uuid::Uuid;

#[derive(Template)]
#[template(path = "agent_start.html")]
pub(crate) struct AgentStart {
    frame: Layout,
    home: String,
    is_agent: bool,
    has_key: bool,
    may_create_keys: bool,
    /// Owners who can create keys, if the reader can't.
    owners: String,
    arrival: Arrival,
}

/// The step that waits for the first event; it refreshes until then.
#[derive(Template)]
#[template(path = "parts/agent_arrival.html")]
pub(crate) struct Arrival {
    home: String,
    is_agent: bool,
    /// Command that sends a test report.
    trial: String,
    total: u64,
    newest: Option<OwnEvent>,
}

impl askama::filters::HtmlSafe for Arrival {}

/// Returns the guide of an agent or a platform.
pub(super) async fn view(state: &State, member: &Member) -> Result<Page<AgentStart>, Failure> {
    let keys: Vec<ApiKey> = member.api().get("/api/v1/identity/api-keys", &Vec::new()).await?;
    Ok(Page(AgentStart {
        frame: member.frame("Get started", "").live(),
        home: member.organization.home(),
        is_agent: member.organization.org_type == OrgType::Agent,
        has_key: keys.iter().any(|key| key.revoked_at.is_none()),
        may_create_keys: member.organization.is_owner(),
        owners: super::members::owners(member).await?,
        arrival: read(state, member).await?,
    }))
}

/// Returns the step with the first event, or 204 until one has arrived.
pub(super) async fn arrival(state: &State, member: &Member) -> Result<Response, Failure> {
    let arrival = read(state, member).await?;
    Ok(if arrival.total == 0 { StatusCode::NO_CONTENT.into_response() } else { Page(arrival).into_response() })
}

async fn read(state: &State, member: &Member) -> Result<Arrival, Failure> {
    let page: List<OwnEvent> = member.api().get(OWN_EVENTS, &vec![("limit", "1".to_owned())]).await?;
    let is_agent = member.organization.org_type == OrgType::Agent;
    Ok(Arrival {
        home: member.organization.home(),
        is_agent,
        trial: if is_agent {
            session_command(state)
        } else {
            super::keys::report_command(state, "YOUR-KEY", "example.com", "edge")
        },
        total: page.total,
        newest: page.items.into_iter().next(),
    })
}

/// Returns a command that reports a session with a fetch and a citation.
fn session_command(state: &State) -> String {
    let (now, page) = (schemas::instant::text(state.clock.now()), "https://example.com/first-event");
    let session = json!({"session_id": Uuid::new_v4(), "agent_id": "my-agent", "started_at": now, "events": [
        {"type": "content_retrieved", "timestamp": now, "source_role": "agent", "content_url": page},
        {"type": "content_cited", "timestamp": now, "content_url": page, "data": {"citation_type": "paraphrase"}},
    ]});
    super::keys::post_command(state, "sessions/bulk", &session, "YOUR-KEY")
}
