//! For operators: pending requests, and all organizations. The API rejects other readers.

use super::requests::AccessRequest;
use super::{FormError, Pager, TableFooter};
use crate::State;
use crate::api::Parameters;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::query::Query;
use crate::responses::OrgType;
use crate::session::SignedIn;
use crate::sort::Headings;
use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

const REQUESTS: &str = "/api/v1/identity/operator/access-requests";
const HERE: &str = "/console/operator/organizations";
const ORGANIZATIONS: &str = "/api/v1/identity/operator/organizations";
/// Filters: value in the address and the API, and label.
const STATES: [(&str, &str); 3] = [("pending", "Pending"), ("approved", "Approved"), ("rejected", "Rejected")];
const LIMIT: u64 = 50;

#[derive(Template)]
#[template(path = "reviews.html")]
pub(crate) struct Reviews {
    frame: Layout,
    states: [(&'static str, &'static str); 3],
    status: &'static str,
    requests: Vec<AccessRequest>,
    problem: FormError,
}

#[derive(Deserialize)]
pub(crate) struct ReviewParameters {
    #[serde(default)]
    status: String,
}

/// `GET /console/operator/requests`
pub(crate) async fn reviews(
    person: SignedIn,
    Query(ReviewParameters { status }): Query<ReviewParameters>,
) -> Result<Page<Reviews>, Failure> {
    let status = STATES.iter().map(|(name, _)| *name).find(|name| *name == status).unwrap_or("pending");
    requests(&person, status, None).await
}

/// `POST /console/operator/requests/{id}/{verdict}`
pub(crate) async fn review(
    person: SignedIn,
    Path(named): Path<HashMap<String, String>>,
    form: Form,
) -> Result<Response, Failure> {
    let id: Uuid = named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)?;
    let note = form.text("note");
    let body = match named.get("verdict").map(String::as_str) {
        Some("reject") if !note.is_empty() => Some(json!({"note": note})),
        Some("approve" | "reject") => None,
        _ => return Err(Failure::NotFound),
    };
    let verdict = named.get("verdict").map(String::as_str).unwrap_or_default();
    match person.api.send(Method::POST, &format!("{REQUESTS}/{id}/{verdict}"), body.as_ref()).await {
        Ok(_) => Ok(Redirect::to("/console/operator/requests").into_response()),
        Err(failure) => Ok(requests(&person, "pending", Some(failure.refusal()?)).await?.into_response()),
    }
}

async fn requests(person: &SignedIn, status: &'static str, problem: FormError) -> Result<Page<Reviews>, Failure> {
    let requests = person.api.get(REQUESTS, &vec![("status", status.to_owned())]).await?;
    Ok(Page(Reviews { frame: person.frame("Requests to review"), states: STATES, status, requests, problem }))
}

#[derive(Deserialize)]
struct OrganizationRow {
    id: Uuid,
    name: String,
    org_type: OrgType,
    domains: Vec<String>,
    members: Count,
    is_trusted_partner: bool,
    provisioned_by: Option<Uuid>,
    created_at: Time,
}

#[derive(Template)]
#[template(path = "all_organizations.html")]
pub(crate) struct AllOrganizations {
    frame: Layout,
    title: &'static str,
    headings: Headings,
    asked: SearchParameters,
    organizations: Vec<OrganizationRow>,
    pager: Pager,
    behind: TableFooter,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct SearchParameters {
    q: String,
    /// `true` filters by trusted partners.
    trusted_partner: String,
    /// Filters by the partner that created the organization.
    provisioned_by: String,
    sort: String,
    offset: u64,
}

impl SearchParameters {
    fn narrowing(&self) -> Parameters {
        let said = [("q", &self.q), ("trusted_partner", &self.trusted_partner), ("provisioned_by", &self.provisioned_by)];
        said.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect()
    }
}

/// Returns the address of the list of organizations with this text in their name.
pub(crate) fn organizations_named(name: &str) -> String {
    format!("{HERE}?{}", url::form_urlencoded::Serializer::new(String::new()).append_pair("q", name).finish())
}

/// `GET /console/operator/organizations`
pub(crate) async fn organizations(
    Shared(state): Shared<Arc<State>>,
    person: SignedIn,
    Query(asked): Query<SearchParameters>,
) -> Result<Page<AllOrganizations>, Failure> {
    let narrowing = asked.narrowing();
    let sort = (!asked.sort.is_empty()).then(|| ("sort", asked.sort.clone()));
    let written = |pairs: &Parameters| url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let headings = Headings::new(format!("{HERE}?{}", written(&narrowing)), &asked.sort, "-created_at");
    let sorted: Parameters = narrowing.into_iter().chain(sort).collect();
    let query = written(&sorted);
    let mut parameters = vec![("limit", (LIMIT + 1).to_string()), ("offset", asked.offset.to_string())];
    parameters.extend(sorted);
    let mut organizations: Vec<OrganizationRow> = person.api.get(ORGANIZATIONS, &parameters).await?;
    let behind = TableFooter::of_operator(&state, "organizations", ORGANIZATIONS, &query);
    let pager = Pager::of_part(format!("{HERE}?{query}"), &mut organizations, asked.offset, LIMIT);
    let title = if asked.trusted_partner == "true" { "Trusted partners" } else { "All organizations" };
    Ok(Page(AllOrganizations { frame: person.frame(title), title, headings, asked, organizations, pager, behind }))
}
