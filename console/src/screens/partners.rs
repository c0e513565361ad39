//! Partners: requests for access, current access, and revoking it. Platforms and agents see the access they requested.

use super::{FormError, TableFooter, members};
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::{Delegation, DelegationRequest, OrgType};
use crate::session::Member;
use crate::sort::{Headings, Key, SortParameter};
use askama::Template;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};
use std::collections::HashMap;
use uuid::Uuid;

const REQUESTS: &str = "/api/v1/identity/delegation-requests";
pub(crate) const DELEGATIONS: &str = "/api/v1/identity/delegations";

#[derive(Template)]
#[template(path = "partners.html")]
pub(crate) struct Partners {
    frame: Layout,
    headings: Headings,
    home: String,
    is_grantor: bool,
    may_grant: bool,
    /// The organization's owners, if the reader isn't one.
    owners: String,
    requests: Vec<DelegationRequest>,
    delegations: Vec<Delegation>,
    behind_requests: [TableFooter; 1],
    behind: TableFooter,
    problem: FormError,
}

/// `GET /console/o/{organization}/partners`
pub(crate) async fn show(member: Member, Query(SortParameter { sort }): Query<SortParameter>) -> Result<Page<Partners>, Failure> {
    view(&member, &sort, None).await
}

impl DelegationRequest {
    /// Returns the other organization.
    fn partner(&self, is_grantor: &bool) -> &str {
        if *is_grantor { &self.requester_name } else { &self.grantor_name }
    }

    fn key(&self, is_grantor: bool, column: &str) -> Option<Key> {
        match column {
            "name" => Some(Key::text(self.partner(&is_grantor))),
            "domain" => Some(Key::text(&self.domain)),
            "asked" => Some(Key::time(Some(self.created_at))),
            "until" => Some(Key::time(Some(self.expires_at))),
            _ => None,
        }
    }
}

impl Delegation {
    /// Returns the other organization.
    fn partner(&self, is_grantor: &bool) -> &str {
        if *is_grantor { &self.grantee_name } else { &self.grantor_name }
    }

    fn key(&self, is_grantor: bool, column: &str) -> Option<Key> {
        match column {
            "name" => Some(Key::text(self.partner(&is_grantor))),
            "since" => Some(Key::time(Some(self.created_at))),
            _ => None,
        }
    }
}

/// Handles `POST /console/o/{organization}/partners`: requests access from a domain's owner.
pub(crate) async fn ask(member: Member, form: Form) -> Result<Response, Failure> {
    let asked = json!({"domain": form.text("domain")});
    changed(&member, member.api().change::<Value>(Method::POST, REQUESTS, &asked).await.map(drop)).await
}

/// `POST /console/o/{organization}/partners/requests/{id}/{answer}`
pub(crate) async fn answer(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let answer = named.get("answer").filter(|answer| matches!(answer.as_str(), "approve" | "deny")).ok_or(Failure::NotFound)?;
    let path = format!("{REQUESTS}/{}/{answer}", id(&named)?);
    changed(&member, member.api().send(Method::POST, &path, None).await.map(drop)).await
}

/// `POST /console/o/{organization}/partners/{id}/revoke`
pub(crate) async fn revoke(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let path = format!("{DELEGATIONS}/{}", id(&named)?);
    changed(&member, member.api().send(Method::DELETE, &path, None).await.map(drop)).await
}

async fn changed(member: &Member, done: Result<(), Failure>) -> Result<Response, Failure> {
    match done {
        Ok(()) => Ok(Redirect::to(&format!("{}/partners", member.organization.home())).into_response()),
        Err(failure) => Ok(view(member, "", Some(failure.refusal()?)).await?.into_response()),
    }
}

fn id(named: &HashMap<String, String>) -> Result<Uuid, Failure> {
    named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}

async fn view(member: &Member, sort: &str, problem: FormError) -> Result<Page<Partners>, Failure> {
    let api = member.api();
    let is_grantor = member.organization.org_type == OrgType::ContentOwner;
    let role = vec![("role", if is_grantor { "grantor" } else { "grantee" }.to_owned())];
    let (mut requests, mut delegations, owners) = tokio::try_join!(
        api.get::<Vec<DelegationRequest>>(REQUESTS, &role),
        api.get::<Vec<Delegation>>(DELEGATIONS, &role),
        members::owners(member)
    )?;
    let headings = Headings::new(format!("{}/partners", member.organization.home()), sort, "");
    headings.sort(&mut requests, |request, column| request.key(is_grantor, column));
    headings.sort(&mut delegations, |delegation, column| delegation.key(is_grantor, column));
    let frame = member.frame("Partners", "");
    let query = if is_grantor { "role=grantor" } else { "role=grantee" };
    Ok(Page(Partners {
        frame,
        headings,
        home: member.organization.home(),
        is_grantor,
        may_grant: member.organization.is_owner(),
        owners,
        requests,
        delegations,
        behind_requests: [TableFooter::identity(member, "delegation-requests", REQUESTS, query)],
        behind: TableFooter::identity(member, "delegations", DELEGATIONS, query),
        problem,
    }))
}
