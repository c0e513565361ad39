//! A person's organizations, and the form that creates another one.

use super::FormError;
use crate::failure::Failure;
use crate::forms::Form;
use crate::layout::{Layout, Page};
use crate::responses::Organization;
use crate::session::SignedIn;
use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

#[derive(Template)]
#[template(path = "organizations.html")]
pub(crate) struct Organizations {
    frame: Layout,
    person: SignedIn,
    problem: FormError,
    name: String,
    domain: String,
}

/// `GET /console/organizations`
pub(crate) async fn show(person: SignedIn) -> Page<Organizations> {
    page(person, None, String::new(), String::new())
}

/// `POST /console/organizations`: creates a content owner.
pub(crate) async fn found(person: SignedIn, form: Form) -> Result<Response, Failure> {
    let (name, domain) = (form.text("name"), form.text("domain"));
    let asked = json!({"name": name, "org_type": "content_owner", "domain": domain});
    match person.api.change::<Organization>(Method::POST, "/api/v1/identity/organizations", &asked).await {
        Ok(founded) => Ok(Redirect::to(&format!("/console/o/{}/start", founded.id)).into_response()),
        Err(failure) => {
            let problem = failure.refusal()?;
            Ok(page(person, Some(problem), name, domain).into_response())
        }
    }
}

fn page(person: SignedIn, problem: FormError, name: String, domain: String) -> Page<Organizations> {
    Page(Organizations { frame: person.frame("Organizations"), person, problem, name, domain })
}
