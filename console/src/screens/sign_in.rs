//! Signing in by mail, and signing out.
//!
//! Must redeem a link only when its button is pressed, because programs that read email open links too, and only for a person who
//! means its account: elsewhere than in the browser that requested the link, they enter the address. Must pass the session from
//! before to the API, so that nobody continues with one that somebody else knows.

use super::Outcome;
use crate::State;
use crate::answers::Whoami;
use crate::api::Asker;
use crate::failure::Failure;
use crate::forms::Form;
use crate::frame::{Frame, Page};
use crate::kept_invite;
use crate::navigation::SIGN_IN;
use crate::query::Query;
use crate::session::Visitor;
use askama::Template;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use schemas::problem::{Code, Problem};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const MAGIC_LINK: &str = "/api/v1/identity/auth/magic-link";
/// Where somebody goes on who was invited before they signed in.
const INVITE: &str = "/sign-in/invite";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    step: Step,
    /// Where people can sign in instead.
    providers: Vec<Provider>,
    problem: Outcome,
}

/// `GET /api/v1/identity/auth/oidc`
#[derive(Deserialize)]
struct Provider {
    id: String,
    issuer: String,
}

impl Provider {
    /// As people know it: the host of its address.
    fn name(&self) -> &str {
        let host = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
        host.split('/').next().unwrap_or(host)
    }
}

enum Step {
    Address,
    /// A mail is on its way to it.
    Mailed(String),
    Link(Link),
}

/// A link that can be redeemed.
struct Link {
    token: String,
    opened: OpenedLink,
    /// Address of the session that the browser has.
    signed_in_as: Option<String>,
}

/// `GET /api/v1/identity/auth/magic-link`
#[derive(Deserialize)]
struct OpenedLink {
    /// Masked.
    email: String,
    is_requesting_browser: bool,
}

#[derive(Deserialize)]
pub(crate) struct Opened {
    #[serde(default)]
    token: String,
}

async fn page(api: &Asker, step: Step, problem: Outcome) -> Response {
    let status = problem.as_ref().map_or(200, |problem| problem.status);
    let providers = if matches!(step, Step::Address) { providers(api).await } else { Vec::new() };
    let page = Page(SignIn { frame: Frame::bare("Sign in"), step, providers, problem });
    (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), page).into_response()
}

/// How long the page waits for the list of providers.
const PATIENCE: Duration = Duration::from_secs(1);

/// Those that are set; a mail is a way in also when they are not told.
async fn providers(api: &Asker) -> Vec<Provider> {
    match tokio::time::timeout(PATIENCE, api.get("/api/v1/identity/auth/oidc", &Vec::new())).await {
        Ok(Ok(providers)) => providers,
        Ok(Err(failure)) => {
            tracing::warn!("showing the sign-in page without providers: {failure:?}");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

/// `GET /sign-in`, and with `?token=` the page that a link opens.
pub(crate) async fn show(Visitor(api): Visitor, Query(Opened { token }): Query<Opened>) -> Result<Response, Failure> {
    if token.is_empty() { Ok(page(&api, Step::Address, None).await) } else { link(&api, token, None).await }
}

/// The page of a link, or the sign-in page if it can't be redeemed.
async fn link(api: &Asker, token: String, problem: Outcome) -> Result<Response, Failure> {
    match api.get(MAGIC_LINK, &vec![("token", token.clone())]).await {
        Ok(opened) => {
            let link = Link { token, opened, signed_in_as: signed_in_as(api).await? };
            Ok(page(api, Step::Link(link), problem).await)
        }
        Err(failure) => Ok(page(api, Step::Address, Some(unusable(failure, &api.request_id)?)).await),
    }
}

async fn signed_in_as(api: &Asker) -> Result<Option<String>, Failure> {
    if api.session.is_none() {
        return Ok(None);
    }
    match api.get::<Whoami>("/api/v1/identity/auth/session", &Vec::new()).await {
        Ok(who) => Ok(Some(who.user.email)),
        Err(Failure::SignedOut) => Ok(None),
        Err(other) => Err(other),
    }
}

/// What a page says of a link that the API refuses.
fn unusable(failure: Failure, request_id: &str) -> Result<Problem, Failure> {
    match failure {
        Failure::SignedOut => Ok(used_up(request_id)),
        Failure::Refused(problem) if problem.status == 401 => Ok(used_up(request_id)),
        other => other.refusal(),
    }
}

#[derive(Deserialize)]
pub(crate) struct Arrived {
    #[serde(default)]
    refused: String,
}

/// `GET /sign-in/arrived`: where a browser goes on that comes back from a provider.
pub(crate) async fn arrived(
    Shared(state): Shared<Arc<State>>,
    Visitor(api): Visitor,
    Query(Arrived { refused }): Query<Arrived>,
    headers: HeaderMap,
) -> Response {
    if refused.is_empty() {
        return Redirect::to(next(&state, &headers)).into_response();
    }
    let problem = Problem {
        title: "Sign-in with the provider failed".to_owned(),
        detail: "Try again, or get a sign-in link by email.".to_owned(),
        ..used_up(&api.request_id)
    };
    page(&api, Step::Address, Some(problem)).await
}

/// Where somebody goes on who has signed in.
fn next(state: &State, headers: &HeaderMap) -> &'static str {
    if kept_invite::kept(state.transport(), headers).is_some() { INVITE } else { "/console" }
}

/// `POST /sign-in`: a mail is asked for.
pub(crate) async fn ask(Visitor(api): Visitor, form: Form) -> Result<Response, Failure> {
    let email = form.text("email");
    let asked = api.send(Method::POST, MAGIC_LINK, Some(&json!({"email": email}))).await;
    Ok(match asked {
        Ok(asked) => (cookies(asked.headers()), page(&api, Step::Mailed(email), None).await).into_response(),
        Err(failure) => page(&api, Step::Address, Some(failure.refusal()?)).await,
    })
}

/// `POST /sign-in/finish`: the link's token becomes a session.
pub(crate) async fn finish(
    Shared(state): Shared<Arc<State>>,
    Visitor(api): Visitor,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Failure> {
    let token = form.text("token");
    // An address always goes along, also an empty one: then the API checks it, unless this browser requested the link.
    let body = json!({"token": token, "email": form.text("email")});
    match api.send(Method::POST, "/api/v1/identity/auth/magic-link/verify", Some(&body)).await {
        Ok(opened) => Ok((cookies(opened.headers()), Redirect::to(next(&state, &headers))).into_response()),
        Err(Failure::Refused(problem)) if problem.status == 422 => link(&api, token, Some(another_address(*problem))).await,
        Err(failure) => Ok(page(&api, Step::Address, Some(unusable(failure, &api.request_id)?)).await),
    }
}

fn another_address(problem: Problem) -> Problem {
    Problem {
        title: "This link was sent to another address".to_owned(),
        detail: "Enter the address that you requested it for.".to_owned(),
        ..problem
    }
}

fn used_up(request_id: &str) -> Problem {
    let code = Code::Unauthenticated;
    Problem {
        kind: format!("urn:problem:{}", code.as_str()),
        title: "This link no longer works".to_owned(),
        status: code.status(),
        detail: "It was already used or is more than 15 minutes old. Request a new link.".to_owned(),
        code: code.as_str().to_owned(),
        request_id: request_id.to_owned(),
        see: None,
        errors: Vec::new(),
    }
}

/// `POST /sign-out`
pub(crate) async fn sign_out(Visitor(api): Visitor) -> Result<Response, Failure> {
    match api.send(Method::DELETE, "/api/v1/identity/auth/session", None).await {
        Ok(ended) => Ok((cookies(ended.headers()), Redirect::to(SIGN_IN)).into_response()),
        Err(failure) => not_ended(failure),
    }
}

/// A session that the API does not know is over; of every other refusal the session is still there.
fn not_ended(failure: Failure) -> Result<Response, Failure> {
    match failure {
        Failure::SignedOut => Ok(Redirect::to(SIGN_IN).into_response()),
        Failure::Refused(problem) if problem.status == 401 => Ok(Redirect::to(SIGN_IN).into_response()),
        other => Err(other),
    }
}

/// The cookies that the API sets and takes back, as it says them.
fn cookies(answered: &HeaderMap) -> HeaderMap {
    let set = answered.get_all(header::SET_COOKIE).iter();
    set.fold(HeaderMap::new(), |mut cookies, cookie| {
        cookies.append(header::SET_COOKIE, cookie.clone());
        cookies
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_that_they_signed_out_while_their_session_goes_on() {
        let refused = |status| Failure::Refused(Box::new(Problem { status, ..used_up("") }));
        for over in [Failure::SignedOut, refused(401)] {
            assert_eq!(not_ended(over).unwrap().headers()[header::LOCATION], SIGN_IN);
        }
        for goes_on in [refused(429), refused(503), Failure::away(anyhow::anyhow!("refused"))] {
            assert!(not_ended(goes_on).is_err());
        }
    }
}
