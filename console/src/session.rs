//! Extractors for a request's session, person and organization.

use crate::State;
use crate::api::SessionClient;
use crate::failure::Failure;
use crate::layout::{Layout, Reader};
use crate::responses::{Membership, OrgType, SessionInfo};
use crate::{success_message, theme};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Method;
use axum::http::request::Parts;
use service_kit::http::RequestId;
use service_kit::session_cookie_auth;
use std::sync::Arc;
use uuid::Uuid;

/// Any visitor, signed in or not.
pub(crate) struct Visitor(pub(crate) SessionClient);

/// A person with a valid session.
pub(crate) struct SignedIn {
    pub(crate) who: SessionInfo,
    pub(crate) api: SessionClient,
}

/// A member of the organization in the address.
pub(crate) struct Member {
    pub(crate) person: SignedIn,
    pub(crate) organization: Membership,
    /// Address of the API, without a trailing slash.
    pub(crate) public_base: String,
}

impl SignedIn {
    /// Returns the layout of a page about the person.
    pub(crate) fn frame(&self, title: &str) -> Layout {
        Layout::of_person(title, &self.who)
    }
}

impl Member {
    /// Returns the layout of a page about the organization. Its links to other screens keep `query`.
    pub(crate) fn frame(&self, title: &str, query: &str) -> Layout {
        Layout::of_member(title, &self.person.who, &self.organization, query)
    }

    pub(crate) fn is_owner_of_content(&self) -> bool {
        self.organization.org_type == OrgType::ContentOwner
    }

    /// Returns an API client for this organization.
    pub(crate) fn api(&self) -> SessionClient {
        self.person.api.about(self.organization.organization_id)
    }
}

impl FromRequestParts<Arc<State>> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, Failure> {
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
        let presented = session_cookie_auth::presented(&parts.headers, state.transport());
        let link = session_cookie_auth::sign_in_request_cookie(state.transport());
        Ok(Self(SessionClient {
            api: Arc::clone(&state.api),
            // If the browser sends two session cookies, ignore both.
            session: presented.ok().flatten().map(|session| session.reveal().to_owned()),
            requested_link: match session_cookie_auth::values(&parts.headers, link).as_slice() {
                [only] => Some(format!("{link}={only}")),
                _ => None,
            },
            client: state.clients.client_address(&parts.extensions, &parts.headers).to_string(),
            request_id,
            organization: None,
        }))
    }
}

impl FromRequestParts<Arc<State>> for SignedIn {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, Failure> {
        let Visitor(api) = Visitor::from_request_parts(parts, state).await?;
        if api.session.is_none() {
            return Err(Failure::SignedOut);
        }
        let mut who: SessionInfo = api.get("/api/v1/identity/auth/session", &Vec::new()).await?;
        who.done = success_message::message(parts.uri.query().unwrap_or_default());
        who.theme = theme::chosen(state.transport(), &parts.headers);
        if parts.method == Method::GET {
            who.here = parts.uri.to_string();
        }
        if let Some(reader) = parts.extensions.get::<Reader>() {
            reader.is(&who);
        }
        Ok(Self { who, api })
    }
}

impl FromRequestParts<Arc<State>> for Member {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, Failure> {
        let person = SignedIn::from_request_parts(parts, state).await?;
        let named = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Failure::NotFound)?;
        let id = named.iter().find(|(name, _)| *name == "organization").and_then(|(_, id)| id.parse::<Uuid>().ok());
        let mut own = person.who.memberships.iter();
        let organization = own.find(|own| Some(own.organization_id) == id).cloned().ok_or(Failure::NotFound)?;
        if let Some(reader) = parts.extensions.get::<Reader>() {
            reader.is_about(&organization);
        }
        Ok(Self { person, organization, public_base: state.public_base().to_owned() })
    }
}
