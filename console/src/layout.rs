//! Every page's layout: title, navigation, the person and their organizations.

use crate::assets;
use crate::navigation::{self, Group};
use crate::responses::{Membership, SessionInfo};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Context of `base.html`.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The title, without the product name.
    pub(crate) title: String,
    pub(crate) who: Option<SessionInfo>,
    /// Organization of the page.
    pub(crate) organization: Option<Membership>,
    pub(crate) groups: Vec<Group>,
    /// Whether parts of the page refresh while it is open.
    pub(crate) is_live: bool,
    /// Whether new events are added to the page while it is open.
    pub(crate) is_following: bool,
}

impl Layout {
    /// Layout of a page that works without a session.
    pub(crate) fn bare(title: &str) -> Self {
        Self { title: title.to_owned(), who: None, organization: None, groups: Vec::new(), is_live: false, is_following: false }
    }

    /// Layout of a page about the person.
    pub(crate) fn of_person(title: &str, who: &SessionInfo) -> Self {
        let groups = navigation::of_person(who, title);
        Self { title: title.to_owned(), who: Some(who.clone()), organization: None, groups, is_live: false, is_following: false }
    }

    /// Returns the layout of a page about an organization. Its links to other screens keep `query`.
    pub(crate) fn of_member(title: &str, who: &SessionInfo, organization: &Membership, query: &str) -> Self {
        let groups = navigation::of_member(who, organization, title, query);
        Self {
            title: title.to_owned(),
            who: Some(who.clone()),
            organization: Some(organization.clone()),
            groups,
            is_live: false,
            is_following: false,
        }
    }

    /// Adds the script that refreshes parts of the page.
    pub(crate) fn live(self) -> Self {
        Self { is_live: true, ..self }
    }

    /// Adds the script that adds new events to the page.
    pub(crate) fn following(self) -> Self {
        Self { is_following: true, ..self }
    }

    /// Returns a new number for a form that is accepted once.
    pub(crate) fn once(&self) -> Uuid {
        Uuid::new_v4()
    }

    /// Returns an asset's address.
    pub(crate) fn asset(&self, name: &str) -> String {
        assets::address(name)
    }
}

/// The reader and their organization, collected while handling a request so that an error page can show the navigation.
#[derive(Clone, Default)]
pub(crate) struct Reader {
    who: Arc<OnceLock<SessionInfo>>,
    organization: Arc<OnceLock<Membership>>,
}

impl Reader {
    pub(crate) fn is(&self, who: &SessionInfo) {
        let _ = self.who.set(who.clone());
    }

    pub(crate) fn is_about(&self, organization: &Membership) {
        let _ = self.organization.set(organization.clone());
    }

    /// Returns the layout, with navigation if the reader is known.
    pub(crate) fn frame(&self, title: &str) -> Layout {
        match (self.who.get(), self.organization.get()) {
            (None, _) => Layout::bare(title),
            (Some(who), None) => Layout::of_person(title, who),
            (Some(who), Some(organization)) => Layout::of_member(title, who, organization, ""),
        }
    }
}

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
