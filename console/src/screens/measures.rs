//! The definitions of all figures.

use crate::layout::{Layout, Page};
use crate::session::SignedIn;
use askama::Template;

#[derive(Template)]
#[template(path = "measures.html")]
pub(crate) struct Measures {
    frame: Layout,
}

/// `GET /console/measures`
pub(crate) async fn show(person: SignedIn) -> Page<Measures> {
    Page(Measures { frame: person.frame("Measures") })
}
