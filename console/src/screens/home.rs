//! Addresses without their own screen, which redirect to the most likely one.

use crate::failure::Failure;
use crate::layout::Reader;
use crate::navigation::SIGN_IN;
use crate::responses::{Membership, OrgType};
use crate::session::{Member, SignedIn, Visitor};
use axum::Extension;
use axum::http::Uri;
use axum::response::Redirect;

/// `GET /`
pub(crate) async fn root(Visitor(api): Visitor) -> Redirect {
    Redirect::to(if api.session.is_some() { "/console" } else { SIGN_IN })
}

/// `GET /console`
pub(crate) async fn console(person: SignedIn) -> Redirect {
    match person.who.memberships.as_slice() {
        [only] => Redirect::to(&first_screen(only)),
        [] if person.who.is_operator => Redirect::to("/console/operator/requests"),
        _ => Redirect::to("/console/organizations"),
    }
}

/// `GET /console/o/{organization}`
pub(crate) async fn organization(member: Member) -> Redirect {
    Redirect::to(&first_screen(&member.organization))
}

/// Handles other paths below `/console`, which may belong to one of the reader's organizations.
pub(crate) async fn nothing_here(person: SignedIn, Extension(reader): Extension<Reader>, address: Uri) -> Failure {
    let mut own = person.who.memberships.iter();
    if let Some(organization) = own.find(|own| address.path().starts_with(&format!("{}/", own.home()))) {
        reader.is_about(organization);
    }
    Failure::NotFound
}

/// Handles GET requests to addresses that accept only POST, such as a reloaded form result. The member extractor sets the page's
/// navigation.
pub(crate) async fn wants_a_form(_: Result<Member, Failure>) -> Failure {
    Failure::WrongMethod
}

fn first_screen(organization: &Membership) -> String {
    let screen = if organization.org_type == OrgType::ContentOwner { "overview" } else { "reported" };
    format!("{}/{screen}", organization.home())
}
