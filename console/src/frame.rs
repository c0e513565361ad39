//! What stands around every screen: title, navigation, the person and their organisations.
//!
//! Must not ask the API: it is given what the session told.

use crate::answers::{Membership, Whoami};
use crate::assets;
use crate::navigation::{self, Group};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// What `base.html` needs.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Of the page, without the name of the product.
    pub(crate) title: String,
    pub(crate) who: Option<Whoami>,
    /// Which organisation the page is about.
    pub(crate) organization: Option<Membership>,
    pub(crate) groups: Vec<Group>,
    /// Whether parts of the page are asked for again while it is open.
    pub(crate) is_live: bool,
}

impl Frame {
    /// A page that needs nobody to be signed in.
    pub(crate) fn bare(title: &str) -> Self {
        Self { title: title.to_owned(), who: None, organization: None, groups: Vec::new(), is_live: false }
    }

    /// A page about the person alone.
    pub(crate) fn of_person(title: &str, who: &Whoami) -> Self {
        let groups = navigation::of_person(who, title);
        Self { title: title.to_owned(), who: Some(who.clone()), organization: None, groups, is_live: false }
    }

    /// A page about one of their organisations; `query` is what its links to other screens keep.
    pub(crate) fn of_member(title: &str, who: &Whoami, organization: &Membership, query: &str) -> Self {
        let groups = navigation::of_member(who, organization, title, query);
        Self { title: title.to_owned(), who: Some(who.clone()), organization: Some(organization.clone()), groups, is_live: false }
    }

    /// The same with the script that asks for parts of the page again.
    pub(crate) fn live(self) -> Self {
        Self { is_live: true, ..self }
    }

    /// The number of a form that is taken once.
    pub(crate) fn once(&self) -> Uuid {
        Uuid::new_v4()
    }

    /// Where an asset is, by a name that changes with its content.
    pub(crate) fn asset(&self, name: &str) -> String {
        assets::address(name)
    }
}

/// Who turned out to read while a request was answered, and about which of their organisations, for a page in the place of its answer.
#[derive(Clone, Default)]
pub(crate) struct Reader {
    who: Arc<OnceLock<Whoami>>,
    organization: Arc<OnceLock<Membership>>,
}

impl Reader {
    pub(crate) fn is(&self, who: &Whoami) {
        let _ = self.who.set(who.clone());
    }

    pub(crate) fn is_about(&self, organization: &Membership) {
        let _ = self.organization.set(organization.clone());
    }

    /// As much as is known.
    pub(crate) fn frame(&self, title: &str) -> Frame {
        match (self.who.get(), self.organization.get()) {
            (None, _) => Frame::bare(title),
            (Some(who), None) => Frame::of_person(title, who),
            (Some(who), Some(organization)) => Frame::of_member(title, who, organization, ""),
        }
    }
}

/// A page that a handler answers with.
pub(crate) struct Page<T>(pub(crate) T);

impl<T: Template> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        match self.0.render() {
            Ok(html) => Html(html).into_response(),
            Err(error) => {
                tracing::error!("failed to render a page: {error}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
