//! Domains: add, verify and remove.

use super::{FormError, TableFooter, start};
use crate::State;
use crate::api::DOMAINS;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::query::{Query, mail, path_segment};
use crate::responses::Domain;
use crate::session::Member;
use crate::sort::{Headings, Key};
use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Template)]
#[template(path = "domains.html")]
pub(crate) struct Domains {
    frame: Layout,
    headings: Headings,
    home: String,
    may_change: bool,
    domains: Vec<Domain>,
    behind: TableFooter,
    problem: FormError,
    /// Rejected input, shown again in the form.
    typed: String,
    /// Domain that was added for a pasted URL.
    used: Option<String>,
    /// Text for the owner's licenses, if a domain is verified.
    license_terms: Option<LicenseTerms>,
}

/// Asks licensed agents to report their use to this service.
struct LicenseTerms {
    /// `<reporting>` element of an RSL license, as defined by the profile at <https://contenttelemetry.org/profiles/spur>.
    rsl: String,
    /// Member of a CoMP license.
    comp: String,
}

impl LicenseTerms {
    fn new(state: &State) -> Self {
        let endpoint = format!("{}/events", state.public_base());
        // A URL has no other character that XML attributes can't contain.
        let attribute = endpoint.replace('&', "&amp;");
        Self {
            rsl: format!(
                "<reporting type=\"telemetry\"\n    profile=\"https://contenttelemetry.org/profiles/spur\"\n    endpoint=\"{attribute}\">\n\
                 <![CDATA[{{\"conformance_level\": \"grounding\", \"privacy_level\": \"minimal\"}}]]>\n</reporting>"
            ),
            comp: format!("\"reporturl\": {}", json!(endpoint)),
        }
    }
}

/// Query parameters of the page.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct DomainParameters {
    sort: String,
    /// Domain that was added for a pasted URL.
    used: String,
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

    /// Returns a link that emails the record to somebody who can add it.
    pub(crate) fn mail(&self) -> String {
        let body = format!(
            "Please add this TXT record to the DNS of {}, and keep it in place:\n\nName: {}\nValue: {}\n\nIt shows Content Telemetry that the domain is ours.",
            self.domain,
            self.record(),
            self.line()
        );
        mail(&format!("Add a DNS record for {}", self.domain), &body)
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
            Some("well_known") => "file on the website",
            Some("meta_tag") => "meta tag",
            Some("attested" | "partner_attested") => "a partner",
            Some("operator") => "an operator",
            Some(other) => other,
            None => "",
        }
    }
}

/// `GET /console/o/{organization}/domains`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<DomainParameters>,
) -> Result<Page<Domains>, Failure> {
    view(&state, &member, &asked, None, String::new()).await
}

/// `POST /console/o/{organization}/domains`
pub(crate) async fn register(Shared(state): Shared<Arc<State>>, member: Member, form: Form) -> Result<Response, Failure> {
    let typed = form.text("domain");
    match member.api().change::<Domain>(Method::POST, DOMAINS, &json!({"domain": typed})).await {
        Ok(_) if is_of_guide(&form) => Ok(to_guide(&member)),
        Ok(added) if added.domain.eq_ignore_ascii_case(&typed) => Ok(back(&member, "")),
        Ok(added) => Ok(back(&member, &format!("?used={}", path_segment(&added.domain)))),
        Err(failure) if is_of_guide(&form) => Ok(start::view(&state, &member, Some(failure.refusal()?)).await?.into_response()),
        Err(failure) => {
            let asked = DomainParameters::default();
            Ok(view(&state, &member, &asked, Some(failure.refusal()?), typed).await?.into_response())
        }
    }
}

/// Returns whether the form is on the page "Get started", which then shows the result.
fn is_of_guide(form: &Form) -> bool {
    form.is_ticked("guide")
}

fn to_guide(member: &Member) -> Response {
    Redirect::to(&format!("{}/start", member.organization.home())).into_response()
}

/// `POST /console/o/{organization}/domains/{id}/verify`
pub(crate) async fn verify(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
    form: Form,
) -> Result<Response, Failure> {
    let path = format!("{DOMAINS}/{}/verify", id(&named)?);
    let asked = member.api().send(Method::POST, &path, None).await.map(drop).map_err(not_yet);
    match asked {
        Ok(()) if is_of_guide(&form) => Ok(to_guide(&member)),
        Err(failure) if is_of_guide(&form) => Ok(start::view(&state, &member, Some(failure.refusal()?)).await?.into_response()),
        asked => changed(&state, &member, asked).await,
    }
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
pub(crate) async fn release(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Path(named): Path<HashMap<String, String>>,
) -> Result<Response, Failure> {
    let path = format!("{DOMAINS}/{}", id(&named)?);
    changed(&state, &member, member.api().send(Method::DELETE, &path, None).await.map(drop)).await
}

async fn changed(state: &State, member: &Member, done: Result<(), Failure>) -> Result<Response, Failure> {
    match done {
        Ok(()) => Ok(back(member, "")),
        Err(failure) => {
            Ok(view(state, member, &DomainParameters::default(), Some(failure.refusal()?), String::new()).await?.into_response())
        }
    }
}

fn back(member: &Member, query: &str) -> Response {
    Redirect::to(&format!("{}/domains{query}", member.organization.home())).into_response()
}

fn id(named: &HashMap<String, String>) -> Result<Uuid, Failure> {
    named.get("id").and_then(|id| id.parse().ok()).ok_or(Failure::NotFound)
}

async fn view(
    state: &State,
    member: &Member,
    asked: &DomainParameters,
    problem: FormError,
    typed: String,
) -> Result<Page<Domains>, Failure> {
    let mut domains: Vec<Domain> = member.api().get(DOMAINS, &Vec::new()).await?;
    let headings = Headings::new(format!("{}/domains", member.organization.home()), &asked.sort, "");
    headings.sort(&mut domains, Domain::key);
    Ok(Page(Domains {
        headings,
        frame: member.frame("Domains", ""),
        home: member.organization.home(),
        may_change: member.organization.is_owner(),
        license_terms: domains.iter().any(|domain| domain.verified).then(|| LicenseTerms::new(state)),
        used: domains.iter().find(|domain| domain.domain == asked.used).map(|domain| domain.domain.clone()),
        domains,
        behind: TableFooter::identity(member, "domains", DOMAINS, ""),
        problem,
        typed,
    }))
}
