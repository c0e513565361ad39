//! First steps for content owners: verify a domain, create a key, send an event, and see it arrive while the page is open.
//!
//! The page reads the progress only from the API, so the steps work in any order and on any device.

use super::keys::report_command;
use super::{FormError, agent_start, members};
use crate::State;
use crate::api::DOMAINS;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::responses::{ApiKey, Domain, Event, List};
use crate::session::Member;
use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "start.html")]
pub(crate) struct Start {
    frame: Layout,
    home: String,
    domains: Vec<Domain>,
    is_verified: bool,
    has_key: bool,
    may_create_keys: bool,
    /// Owners who can create keys, if the viewer can't.
    owners: String,
    arrival: Arrival,
    problem: FormError,
}

/// The step that waits for the first event. The page refreshes until the event arrives.
#[derive(Template)]
#[template(path = "parts/arrival.html")]
pub(crate) struct Arrival {
    home: String,
    is_verified: bool,
    /// Command that sends a test event.
    trial: String,
    total: u64,
    first: Option<Event>,
}

impl askama::filters::HtmlSafe for Arrival {}

/// `GET /console/o/{organization}/start`
pub(crate) async fn show(Shared(state): Shared<Arc<State>>, member: Member) -> Result<Response, Failure> {
    if member.is_owner_of_content() {
        return Ok(view(&state, &member, None).await?.into_response());
    }
    Ok(agent_start::view(&state, &member).await?.into_response())
}

/// Returns the guide, with the error of a form.
pub(super) async fn view(state: &State, member: &Member, problem: FormError) -> Result<Page<Start>, Failure> {
    let api = member.api();
    let domains: Vec<Domain> = api.get(DOMAINS, &Vec::new()).await?;
    let keys: Vec<ApiKey> = api.get("/api/v1/identity/api-keys", &Vec::new()).await?;
    Ok(Page(Start {
        frame: member.frame("Get started", "").live(),
        home: member.organization.home(),
        is_verified: domains.iter().any(|domain| domain.verified),
        has_key: keys.iter().any(|key| key.revoked_at.is_none()),
        may_create_keys: member.organization.is_owner(),
        owners: members::owners(member).await?,
        arrival: read(state, member, &domains).await?,
        domains,
        problem,
    }))
}

/// Handles `GET /console/o/{organization}/start/arrival`. Returns 204 until an event has arrived, so nothing on the page is replaced.
pub(crate) async fn arrival(Shared(state): Shared<Arc<State>>, member: Member) -> Result<Response, Failure> {
    if !member.is_owner_of_content() {
        return agent_start::arrival(&state, &member).await;
    }
    let domains: Vec<Domain> = member.api().get(DOMAINS, &Vec::new()).await?;
    let arrival = read(&state, &member, &domains).await?;
    Ok(if arrival.total == 0 { StatusCode::NO_CONTENT.into_response() } else { Page(arrival).into_response() })
}

async fn read(state: &State, member: &Member, domains: &[Domain]) -> Result<Arrival, Failure> {
    let one = vec![("limit", "1".to_owned())];
    let page: List<Event> = member.api().get("/content-owners/events", &one).await?;
    let verified = domains.iter().find(|domain| domain.verified);
    let named = verified.or(domains.first()).map_or("example.com", |domain| domain.domain.as_str());
    Ok(Arrival {
        home: member.organization.home(),
        is_verified: verified.is_some(),
        trial: report_command(state, "YOUR-KEY", named, "origin"),
        total: page.total,
        first: page.items.into_iter().next(),
    })
}
