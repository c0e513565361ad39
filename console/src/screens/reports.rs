//! Events reported by an organization, others' events with its click tokens, and its sessions as documents.

use super::events::fact;
use super::{Filters, Pager, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::OwnEvent;
use crate::session::Member;
use crate::window::PeriodParameters;
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

pub(super) const OWN_EVENTS: &str = "/agent/events";
/// Filters the organization's events to those that others reported.
pub(crate) const BY_OTHERS: (&str, &str) = ("reported_by", "other");
const LIMIT: u64 = 50;

impl OwnEvent {
    /// Returns the other reported details as text.
    pub(super) fn facts(&self) -> Vec<(&str, String)> {
        self.event_data.iter().map(|(name, value)| (name.as_str(), fact(name, value, &self.event_data))).collect()
    }

    pub(super) fn label(&self) -> &str {
        if self.reported_by == BY_OTHERS.1 { labels::token_event(&self.event_type) } else { labels::event(&self.event_type) }
    }

    fn role(&self) -> &str {
        super::reporter(&self.source_role)
    }

    fn is_own(&self) -> bool {
        self.reported_by == "self"
    }
}

#[derive(Template)]
#[template(path = "reports.html")]
pub(crate) struct Reports {
    frame: Layout,
    filters: Filters,
    home: String,
    reports: Vec<OwnEvent>,
    pager: Pager,
    behind: TableFooter,
}

/// `GET /console/o/{organization}/reports`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Reports>, Failure> {
    let filters = Filters::period_only(&state, &member, "reports", &asked)?;
    let limit = LIMIT.to_string();
    let parameters = filters.window.parameters_and(&[("limit", &limit), ("after", &asked.after)]);
    let (page, next) = member.api().get_with_next::<OwnEvent>(OWN_EVENTS, &parameters).await?;
    let address = format!("{}?{}", filters.here, filters.window.query());
    Ok(Page(Reports {
        frame: member.frame("Events", &filters.window.query()),
        home: member.organization.home(),
        reports: page.items,
        pager: Pager::by_cursor(address, page.total, LIMIT, next, !asked.after.is_empty()),
        behind: TableFooter::new(&state, &member, "own-events", OWN_EVENTS, &parameters),
        filters,
    }))
}

/// `GET /console/o/{organization}/sessions/{id}`: downloads the session's archival document.
pub(crate) async fn document(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let id: Uuid = named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)?;
    let document = member.api().text(&format!("/sessions/{id}/document"), &Vec::new(), "application/json").await?;
    let name = format!("attachment; filename=\"session-{id}.json\"");
    let body = Body::new(axum::http::Response::from(document).into_body());
    Ok(([(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)], body).into_response())
}
