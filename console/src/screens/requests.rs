//! Requests for an agent's or platform's organization, and their status.

use super::{FormError, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::numbers::Time;
use crate::query::Query;
use crate::responses::OrgType;
use crate::session::SignedIn;
use crate::sort::{Headings, Key, SortParameter};
use askama::Template;
use axum::extract::State as Shared;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

const AGENTS: &str = "/api/v1/identity/agent-access-requests";
const PLATFORMS: &str = "/api/v1/identity/platform-access-requests";

#[derive(Deserialize)]
pub(crate) struct AccessRequest {
    pub(crate) id: Uuid,
    pub(crate) org_type: OrgType,
    pub(crate) org_name: String,
    pub(crate) admin_email: String,
    pub(crate) use_case: String,
    pub(crate) status: String,
    pub(crate) created_at: Time,
    pub(crate) reviewed_at: Option<Time>,
    pub(crate) reviewer_note: Option<String>,
    pub(crate) approved_org_id: Option<Uuid>,
}

impl AccessRequest {
    pub(crate) fn badge(&self) -> &'static str {
        match self.status.as_str() {
            "approved" => "good",
            "pending" => "warn",
            _ => "bad",
        }
    }

    pub(crate) fn state(&self) -> &str {
        match self.status.as_str() {
            "pending" => "Pending",
            "approved" => "Approved",
            "rejected" => "Rejected",
            other => other,
        }
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "name" => Some(Key::text(&self.org_name)),
            "kind" => Some(Key::text(self.org_type.label())),
            "state" => Some(Key::text(self.state())),
            "asked" => Some(Key::time(Some(self.created_at))),
            "reviewed" => Some(Key::time(self.reviewed_at)),
            _ => None,
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.status == "pending"
    }
}

#[derive(Template)]
#[template(path = "requests.html")]
pub(crate) struct Requests {
    frame: Layout,
    headings: Headings,
    /// Newest first by default.
    requests: Vec<AccessRequest>,
    /// Footers of the tables of agents and platforms.
    behind: [TableFooter; 2],
    typed: RequestInput,
    problem: FormError,
}

/// Rejected input, shown again in the form.
struct RequestInput {
    name: String,
    email: String,
    use_case: String,
}

/// `GET /console/requests`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Query(SortParameter { sort }): Query<SortParameter>,
) -> Result<Page<Requests>, Failure> {
    let email = person.who.user.email.clone();
    view(&state, &person, &sort, RequestInput { name: String::new(), email, use_case: String::new() }, None).await
}

/// `POST /console/requests`
pub(crate) async fn ask(Shared(state): Shared<Arc<State>>, person: SignedIn, form: Form) -> Result<Response, Failure> {
    let typed = RequestInput { name: form.text("org_name"), email: form.text("admin_email"), use_case: form.text("use_case") };
    let path = if form.text("org_type") == "platform" { PLATFORMS } else { AGENTS };
    let asked = json!({"org_name": typed.name, "admin_email": typed.email, "use_case": typed.use_case});
    match person.api.change::<Value>(Method::POST, path, &asked).await {
        Ok(_) => Ok(Redirect::to("/console/requests").into_response()),
        Err(failure) => Ok(view(&state, &person, "", typed, Some(failure.refusal()?)).await?.into_response()),
    }
}

async fn view(
    state: &State,
    person: &SignedIn,
    sort: &str,
    typed: RequestInput,
    problem: FormError,
) -> Result<Page<Requests>, Failure> {
    let none = Vec::new();
    let (agents, platforms) = tokio::try_join!(
        person.api.get::<Vec<AccessRequest>>(AGENTS, &none),
        person.api.get::<Vec<AccessRequest>>(PLATFORMS, &none),
    )?;
    let mut requests: Vec<AccessRequest> = agents.into_iter().chain(platforms).collect();
    requests.sort_by_key(|request| std::cmp::Reverse(request.created_at.0));
    let headings = Headings::new("/console/requests".to_owned(), sort, "-asked");
    headings.sort(&mut requests, AccessRequest::key);
    let behind = [("agent-access-requests", AGENTS), ("platform-access-requests", PLATFORMS)];
    let behind = behind.map(|(list, path)| TableFooter::of_person(state, list, path));
    Ok(Page(Requests { frame: person.frame("Agents and platforms"), headings, requests, behind, typed, problem }))
}
