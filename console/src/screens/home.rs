//! The addresses without a screen of their own: each leads to the one that its reader most likely wants.
//!
//! Must show nothing.

use crate::answers::{Membership, OrgKind};
use crate::failure::Failure;
use crate::navigation::SIGN_IN;
use crate::session::{Member, SignedIn, Visitor};
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

/// Every other path beneath `/console`.
pub(crate) async fn nothing_here(_: SignedIn) -> Failure {
    Failure::NotFound
}

/// What is only posted to: somebody opened the address of a page that a form has answered with.
pub(crate) async fn wants_a_form() -> Failure {
    Failure::WrongMethod
}

fn first_screen(organization: &Membership) -> String {
    let screen = if organization.org_type == OrgKind::ContentOwner { "overview" } else { "reported" };
    format!("{}/{screen}", organization.home())
}
