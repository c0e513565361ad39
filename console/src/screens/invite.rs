//! The page of an invite link. Signed-in people accept the invite; others sign in first.
//!
//! Opening the link doesn't accept the invite, because programs that read email open links too.

use super::FormError;
use crate::State;
use crate::api::SessionClient;
use crate::failure::Failure;
use crate::forms::Form;
use crate::invite_cookie;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::SessionInfo;
use crate::session::Visitor;
use askama::Template;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use uuid::Uuid;

#[derive(Template)]
#[template(path = "invite.html")]
pub(crate) struct Invitation {
    frame: Layout,
    token: String,
    /// The signed-in person, if any.
    who: Option<SessionInfo>,
    problem: FormError,
}

#[derive(Deserialize)]
pub(crate) struct InviteParameters {
    #[serde(default)]
    token: String,
}

/// The membership that the invite created.
#[derive(Deserialize)]
struct AcceptedInvite {
    organization_id: Uuid,
}

/// Handles `GET /sign-in/invite?token=`. Without a token, shows the stored invite, for people who signed in after opening the link.
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    Visitor(api): Visitor,
    Query(InviteParameters { token }): Query<InviteParameters>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let token = if token.is_empty() { invite_cookie::kept(state.transport(), &headers).unwrap_or_default() } else { token };
    let page = view(&api, token, None).await?;
    let keep = if page.0.who.is_none() { invite_cookie::keep(state.transport(), &page.0.token) } else { HeaderMap::new() };
    Ok((keep, page).into_response())
}

/// `POST /sign-in/invite`
pub(crate) async fn accept(Shared(state): Shared<Arc<State>>, Visitor(api): Visitor, form: Form) -> Result<Response, Failure> {
    let (token, forget) = (form.text("token"), invite_cookie::forget(state.transport()));
    match api.change::<AcceptedInvite>(Method::POST, "/api/v1/identity/invites/claim", &json!({"token": token})).await {
        Ok(claimed) => Ok((forget, Redirect::to(&format!("/console/o/{}", claimed.organization_id))).into_response()),
        // Keep the invite for people who must still sign in or use another address. Delete it if it is no longer valid.
        Err(Failure::Refused(problem)) if problem.status < 500 && problem.status != 401 => {
            let is_over = matches!(problem.status, 404 | 409 | 410);
            let keep = if is_over { forget } else { invite_cookie::keep(state.transport(), &token) };
            Ok((keep, view(&api, token, Some(*problem)).await?).into_response())
        }
        Err(Failure::SignedOut | Failure::Refused(_)) => {
            let keep = invite_cookie::keep(state.transport(), &token);
            Ok((keep, view(&api, token, None).await?).into_response())
        }
        Err(other) => Err(other),
    }
}

async fn view(api: &SessionClient, token: String, problem: FormError) -> Result<Page<Invitation>, Failure> {
    let who = match &api.session {
        Some(_) => match api.get("/api/v1/identity/auth/session", &Vec::new()).await {
            Err(Failure::SignedOut) => None,
            asked => Some(asked?),
        },
        None => None,
    };
    Ok(Page(Invitation { frame: Layout::bare("Invite"), token, who, problem }))
}
