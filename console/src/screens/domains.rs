//! Domains: add, verify and remove.

use super::{Behind, Outcome};
use crate::answers::Domain;
use crate::failure::Failure;
use crate::forms::Form;
use crate::frame::{Frame, Page};
use crate::query::Query;
use crate::session::Member;
use crate::sort::{Headings, Key, SortParameter};
use askama::Template;
use axum::extract::Path;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};
use std::collections::HashMap;
use uuid::Uuid;

const DOMAINS: &str = "/api/v1/identity/domains";

#[derive(Template)]
#[template(path = "domains.html")]
pub(crate) struct Domains {
    frame: Frame,
    headings: Headings,
    home: String,
    may_change: bool,
    domains: Vec<Domain>,
    behind: Behind,
    problem: Outcome,
    /// Rejected input, shown again in the form.
    typed: String,
}

impl Domain {
    /// Name of the TXT record.
    pub(crate) fn record(&self) -> String {
        format!("_content-telemetry.{}", self.domain)
    }

    /// Value of the TXT record.
    pub(crate) fn line(&self) -> String {
        format!("svc-verify={}", self.verification_token)
    }

    /// Whether and how the domain is verified.
    fn state(&self) -> String {
        if self.verified { format!("Verified by {}", self.held_by()) } else { "Not verified".to_owned() }
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "domain" => Some(Key::text(&self.domain)),
            "state" => Some(Key::text(&self.state())),
            "since" => Some(Key::time(self.verified_at.filter(|_| self.verified))),
            _ => None,
        }
    }

    /// Returns how the domain is verified.
    pub(crate) fn held_by(&self) -> &str {
        match self.verification_method.as_deref() {
            Some("dns_txt") => "TXT record",
            Some("well_known") => "website file",
            Some("meta_tag") => "meta tag",
            Some("attested" | "partner_attested") => "a partner",
            Some("operator") => "an operator",
            Some(other) => other,
            None => "",
        }
    }
}

/// `GET /console/o/{organization}/domains`
pub(crate) async fn show(member: Member, Query(SortParameter { sort }): Query<SortParameter>) -> Result<Page<Domains>, Failure> {
    view(&member, &sort, None, String::new()).await
}

/// `POST /console/o/{organization}/domains`
pub(crate) async fn register(member: Member, form: Form) -> Result<Response, Failure> {
    let typed = form.text("domain");
    match member.api().change::<Value>(Method::POST, DOMAINS, &json!({"domain": typed})).await {
        Ok(_) => Ok(back(&member)),
        Err(failure) => Ok(view(&member, "", Some(failure.refusal()?), typed).await?.into_response()),
    }
}

/// `POST /console/o/{organization}/domains/{id}/verify`
pub(crate) async fn verify(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let path = format!("{DOMAINS}/{}/verify", id(&named)?);
    let asked = member.api().send(Method::POST, &path, None).await.map(drop);
    changed(&member, asked.map_err(not_yet)).await
}

/// Explains a failed verification to a person who may have just created the record.
fn not_yet(failure: Failure) -> Failure {
    let Failure::Refused(mut problem) = failure else { return failure };
    if problem.status == 422 {
        "Not verified yet".clone_into(&mut problem.title);
        "The token was not found. A DNS change can take an hour or longer to become visible; check again later. Results:"
            .clone_into(&mut problem.detail);
    }
    Failure::Refused(problem)
}

/// `POST /console/o/{organization}/domains/{id}/release`
pub(crate) async fn release(member: Member, Path(named): Path<HashMap<String, String>>) -> Result<Response, Failure> {
    let path = format!("{DOMAINS}/{}", id(&named)?);
    changed(&member, member.api().send(Method::DELETE, &path, None).await.map(drop)).await
}

async fn changed(member: &Member, done: Result<(), Failure>) -> Result<Response, Failure> {
    match done {
        Ok(()) => Ok(back(member)),
        Err(failure) => Ok(view(member, "", Some(failure.refusal()?), String::new()).await?.into_response()),
    }
}

fn back(member: &Member) -> Response {
    Redirect::to(&format!("{}/domains", member.organization.home())).into_response()
}

fn id(named: &HashMap<String, String>) -> Result<Uuid, Failure> {
    named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}

async fn view(member: &Member, sort: &str, problem: Outcome, typed: String) -> Result<Page<Domains>, Failure> {
    let mut domains: Vec<Domain> = member.api().get(DOMAINS, &Vec::new()).await?;
    let headings = Headings::of(format!("{}/domains", member.organization.home()), sort, "");
    headings.sort(&mut domains, Domain::key);
    Ok(Page(Domains {
        headings,
        frame: member.frame("Domains", ""),
        home: member.organization.home(),
        may_change: member.organization.is_owner(),
        domains,
        behind: Behind::identity(member, "domains", DOMAINS, ""),
        problem,
        typed,
    }))
}
