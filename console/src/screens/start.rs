//! First steps: verify a domain, create a key, send an event, and see it arrive while the page is open.
//!
//! Progress is read from the API alone, so the steps work in any order and on any device.

use super::keys::report;
use super::members;
use crate::State;
use crate::answers::{ApiKey, Domain, Event, List};
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::session::Member;
use askama::Template;
use axum::extract::State as Shared;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "start.html")]
pub(crate) struct Start {
    frame: Frame,
    home: String,
    domains: Vec<Domain>,
    is_verified: bool,
    has_key: bool,
    may_create_keys: bool,
    /// Owners who can create keys, if the reader can't.
    owners: String,
    trial: String,
    arrival: Arrival,
}

/// Whether an event has arrived; a part of the page that refreshes until then.
#[derive(Template)]
#[template(path = "parts/arrival.html")]
pub(crate) struct Arrival {
    home: String,
    total: u64,
    first: Option<Event>,
}

impl askama::filters::HtmlSafe for Arrival {}

/// `GET /console/o/{organization}/start`
pub(crate) async fn show(Shared(state): Shared<Arc<State>>, member: Member) -> Result<Page<Start>, Failure> {
    let api = member.api();
    let domains: Vec<Domain> = api.get("/api/v1/identity/domains", &Vec::new()).await?;
    let keys: Vec<ApiKey> = api.get("/api/v1/identity/api-keys", &Vec::new()).await?;
    let verified = domains.iter().find(|domain| domain.verified);
    let named = verified.or(domains.first()).map_or("example.com", |domain| domain.domain.as_str());
    Ok(Page(Start {
        frame: member.frame("Get started", "").live(),
        home: member.organization.home(),
        is_verified: verified.is_some(),
        has_key: keys.iter().any(|key| key.revoked_at.is_none()),
        may_create_keys: member.organization.is_owner(),
        owners: members::owners(&member).await?,
        trial: report(&state, "YOUR-KEY", named),
        arrival: read(&member).await?,
        domains,
    }))
}

/// `GET /console/o/{organization}/start/arrival`
pub(crate) async fn arrival(member: Member) -> Result<Page<Arrival>, Failure> {
    read(&member).await.map(Page)
}

async fn read(member: &Member) -> Result<Arrival, Failure> {
    let one = vec![("limit", "1".to_owned())];
    let page: List<Event> = member.api().get("/content-owners/events", &one).await?;
    Ok(Arrival { home: member.organization.home(), total: page.total, first: page.items.into_iter().next() })
}
