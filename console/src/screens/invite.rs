//! What the link of an invite's mail opens: who is signed in accepts it, everybody else signs in first.
//!
//! Must accept nothing by being opened, because programs that read mail open links too.

use super::Outcome;
use crate::answers::Whoami;
use crate::api::Asker;
use crate::failure::Failure;
use crate::forms::Form;
use crate::frame::{Frame, Page};
use crate::query::Query;
use crate::session::Visitor;
use askama::Template;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

#[derive(Template)]
#[template(path = "invite.html")]
pub(crate) struct Invitation {
    frame: Frame,
    token: String,
    /// Whose session it is; nobody's without one.
    who: Option<Whoami>,
    problem: Outcome,
}

#[derive(Deserialize)]
pub(crate) struct Opened {
    #[serde(default)]
    token: String,
}

/// The membership that an invite became.
#[derive(Deserialize)]
struct Claimed {
    organization_id: Uuid,
}

/// `GET /sign-in/invite?token=`
pub(crate) async fn show(Visitor(api): Visitor, Query(Opened { token }): Query<Opened>) -> Result<Page<Invitation>, Failure> {
    view(&api, token, None).await
}

/// `POST /sign-in/invite`
pub(crate) async fn accept(Visitor(api): Visitor, form: Form) -> Result<Response, Failure> {
    let token = form.text("token");
    match api.change::<Claimed>(Method::POST, "/api/v1/identity/invites/claim", &json!({"token": token})).await {
        Ok(claimed) => Ok(Redirect::to(&format!("/console/o/{}", claimed.organization_id)).into_response()),
        Err(Failure::Refused(problem)) if problem.status < 500 && problem.status != 401 => {
            Ok(view(&api, token, Some(*problem)).await?.into_response())
        }
        Err(Failure::SignedOut | Failure::Refused(_)) => Ok(view(&api, token, None).await?.into_response()),
        Err(other) => Err(other),
    }
}

async fn view(api: &Asker, token: String, problem: Outcome) -> Result<Page<Invitation>, Failure> {
    let who = match &api.session {
        Some(_) => match api.get("/api/v1/identity/auth/session", &Vec::new()).await {
            Err(Failure::SignedOut) => None,
            asked => Some(asked?),
        },
        None => None,
    };
    Ok(Page(Invitation { frame: Frame::bare("Invite"), token, who, problem }))
}
