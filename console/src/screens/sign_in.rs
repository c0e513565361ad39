//! Sign-in by email, and sign-out.
//!
//! A link is redeemed only when its button is pressed, because programs that read email open links too. In any other browser than the one
//! that requested the link, the person must enter the account's address. To prevent session fixation, the old session is sent to the API,
//! which ends it.

use super::FormError;
use crate::State;
use crate::api::SessionClient;
use crate::failure::Failure;
use crate::forms::Form;
use crate::invite_cookie;
use crate::layout::{Layout, Page};
use crate::navigation::SIGN_IN;
use crate::query::Query;
use crate::responses::SessionInfo;
use crate::return_cookie;
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
/// Page of a pending invite.
const INVITE: &str = "/sign-in/invite";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Layout,
    step: Step,
    /// Identity providers for sign-in.
    providers: Vec<Provider>,
    problem: FormError,
}

/// `GET /api/v1/identity/auth/oidc`
#[derive(Deserialize)]
struct Provider {
    id: String,
    issuer: String,
}

impl Provider {
    /// Returns the host of the provider's address.
    fn name(&self) -> &str {
        let host = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
        host.split('/').next().unwrap_or(host)
    }
}

enum Step {
    Address,
    /// The email was sent to this address.
    Mailed(String),
    Link(Link),
}

/// A valid sign-in link.
struct Link {
    token: String,
    opened: OpenedLink,
    /// Address of the account that the browser is signed in to.
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
pub(crate) struct LinkParameters {
    #[serde(default)]
    token: String,
}

async fn page(api: &SessionClient, step: Step, problem: FormError) -> Response {
    let status = problem.as_ref().map_or(200, |problem| problem.status);
    let providers = if matches!(step, Step::Address) { providers(api).await } else { Vec::new() };
    let page = Page(SignIn { frame: Layout::bare("Sign in"), step, providers, problem });
    (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), page).into_response()
}

/// Timeout for the list of providers.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the configured providers. Empty on errors, because sign-in by email still works.
async fn providers(api: &SessionClient) -> Vec<Provider> {
    match tokio::time::timeout(PATIENCE, api.get("/api/v1/identity/auth/oidc", &Vec::new())).await {
        Ok(Ok(providers)) => providers,
        Ok(Err(failure)) => {
            tracing::warn!("failed to load sign-in providers: {failure:?}");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

/// `GET /sign-in`. `?token=` shows the page of a sign-in link.
pub(crate) async fn show(
    Visitor(api): Visitor,
    Query(LinkParameters { token }): Query<LinkParameters>,
) -> Result<Response, Failure> {
    if token.is_empty() { Ok(page(&api, Step::Address, None).await) } else { link(&api, token, None).await }
}

/// Returns the page for a sign-in link, or the sign-in page if the link can't be redeemed.
async fn link(api: &SessionClient, token: String, problem: FormError) -> Result<Response, Failure> {
    match api.get(MAGIC_LINK, &vec![("token", token.clone())]).await {
        Ok(opened) => {
            let link = Link { token, opened, signed_in_as: signed_in_as(api).await? };
            Ok(page(api, Step::Link(link), problem).await)
        }
        Err(failure) => Ok(page(api, Step::Address, Some(unusable(failure, &api.request_id)?)).await),
    }
}

async fn signed_in_as(api: &SessionClient) -> Result<Option<String>, Failure> {
    if api.session.is_none() {
        return Ok(None);
    }
    match api.get::<SessionInfo>("/api/v1/identity/auth/session", &Vec::new()).await {
        Ok(who) => Ok(Some(who.user.email)),
        Err(Failure::SignedOut) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Returns the error for an invalid link.
fn unusable(failure: Failure, request_id: &str) -> Result<Problem, Failure> {
    match failure {
        Failure::SignedOut => Ok(used_up(request_id)),
        Failure::Refused(problem) if problem.status == 401 => Ok(used_up(request_id)),
        other => other.refusal(),
    }
}

#[derive(Deserialize)]
pub(crate) struct SignInParameters {
    #[serde(default)]
    refused: String,
}

/// `GET /sign-in/arrived`: the redirect target after a provider's sign-in.
pub(crate) async fn arrived(
    Shared(state): Shared<Arc<State>>,
    Visitor(api): Visitor,
    Query(SignInParameters { refused }): Query<SignInParameters>,
    headers: HeaderMap,
) -> Response {
    if refused.is_empty() {
        return next(&state, &headers).into_response();
    }
    let problem = Problem {
        title: "Sign-in with the provider failed".to_owned(),
        detail: "Try again, or get a sign-in link by email.".to_owned(),
        ..used_up(&api.request_id)
    };
    page(&api, Step::Address, Some(problem)).await
}

/// Redirects to the first page after sign-in: a pending invite, or the page that the person wanted to open.
fn next(state: &State, headers: &HeaderMap) -> (HeaderMap, Redirect) {
    let transport = state.transport();
    match (invite_cookie::kept(transport, headers), return_cookie::kept(transport, headers)) {
        (Some(_), _) => (HeaderMap::new(), Redirect::to(INVITE)),
        (None, Some(page)) => (return_cookie::forget(transport), Redirect::to(&page)),
        (None, None) => (HeaderMap::new(), Redirect::to("/console")),
    }
}

/// `POST /sign-in`: requests an email.
pub(crate) async fn ask(Visitor(api): Visitor, form: Form) -> Result<Response, Failure> {
    let email = form.text("email");
    let asked = api.send(Method::POST, MAGIC_LINK, Some(&json!({"email": email}))).await;
    Ok(match asked {
        Ok(asked) => (cookies(asked.headers()), page(&api, Step::Mailed(email), None).await).into_response(),
        Err(failure) => page(&api, Step::Address, Some(failure.refusal()?)).await,
    })
}

/// `POST /sign-in/finish`: exchanges the link's token for a session.
pub(crate) async fn finish(
    Shared(state): Shared<Arc<State>>,
    Visitor(api): Visitor,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Failure> {
    let token = form.text("token");
    // Always send the address, even if it is empty: the API then checks it, unless this browser requested the link.
    let body = json!({"token": token, "email": form.text("email")});
    match api.send(Method::POST, "/api/v1/identity/auth/magic-link/verify", Some(&body)).await {
        Ok(opened) => {
            let (forget, to) = next(&state, &headers);
            let mut set = cookies(opened.headers());
            for cookie in forget.into_iter().filter_map(|(name, value)| Some((name?, value))) {
                set.append(cookie.0, cookie.1);
            }
            Ok((set, to).into_response())
        }
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

/// A session that the API doesn't know has already ended. On other errors, the session still exists.
fn not_ended(failure: Failure) -> Result<Response, Failure> {
    match failure {
        Failure::SignedOut => Ok(Redirect::to(SIGN_IN).into_response()),
        Failure::Refused(problem) if problem.status == 401 => Ok(Redirect::to(SIGN_IN).into_response()),
        other => Err(other),
    }
}

/// Copies the cookies that the API sets or deletes.
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
    fn failed_sign_out_is_reported_while_the_session_exists() {
        let refused = |status| Failure::Refused(Box::new(Problem { status, ..used_up("") }));
        for over in [Failure::SignedOut, refused(401)] {
            assert_eq!(not_ended(over).unwrap().headers()[header::LOCATION], SIGN_IN);
        }
        for goes_on in [refused(429), refused(503), Failure::away(anyhow::anyhow!("refused"))] {
            assert!(not_ended(goes_on).is_err());
        }
    }
}
