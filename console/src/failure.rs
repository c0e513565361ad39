//! Error pages: a redirect to the sign-in page, or the API's error with the request id.

use crate::State;
use crate::layout::{Layout, Page, Reader};
use crate::navigation::SIGN_IN;
use crate::return_cookie;
use askama::Template;
use axum::extract::{Request, State as Shared};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use schemas::problem::Problem;
use service_kit::http::{ApiError, RequestId};
use std::sync::Arc;
use url::Url;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The session is missing or has expired.
    SignedOut,
    /// The page doesn't exist for this person.
    NotFound,
    /// The address contains an invalid value.
    Unreadable(String),
    /// The address accepts only POST.
    WrongMethod,
    /// The form is invalid, too large, or did not arrive in time.
    NotTaken(ApiError),
    /// The form was not sent by a page of the console.
    Foreign,
    Refused(Box<Problem>),
    /// The API is unavailable, or its response doesn't match its description.
    Away(anyhow::Error),
}

impl Failure {
    pub(crate) fn away(error: impl Into<anyhow::Error>) -> Self {
        Self::Away(error.into())
    }

    /// Returns the API's error to show in the form. Other failures replace the page.
    pub(crate) fn refusal(self) -> Result<Problem, Self> {
        match self {
            Self::Refused(problem) if matches!(problem.status, 400 | 403 | 404 | 409 | 410 | 422 | 429) => Ok(*problem),
            other => Err(other),
        }
    }

    /// Returns the API's error about a parameter, whose name starts the detail. Other failures replace the page.
    pub(crate) fn of_parameter(self, name: &str) -> Result<Problem, Self> {
        let is_of_it = |problem: &Problem| problem.detail.starts_with(&format!("{name} "));
        match self {
            Self::Refused(problem) if problem.status == 400 && is_of_it(&problem) => Ok(*problem),
            other => Err(other),
        }
    }

    fn of_card(&self) -> CardFailure {
        tracing::warn!("failed to load a card: {self:?}");
        CardFailure { detail: self.sentences().1 }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::SignedOut => StatusCode::SEE_OTHER,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Unreadable(_) => StatusCode::BAD_REQUEST,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotTaken(error) => StatusCode::from_u16(error.code().status()).unwrap_or(StatusCode::BAD_REQUEST),
            Self::Foreign => StatusCode::FORBIDDEN,
            Self::Refused(problem) => StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_GATEWAY),
            Self::Away(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn sentences(&self) -> (String, String) {
        let (title, detail) = match self {
            Self::SignedOut => ("Signed out", "Sign in again."),
            Self::NotFound => ("Not found", "Page not found, or you don\u{2019}t have access."),
            Self::Unreadable(detail) => ("Invalid address", detail.as_str()),
            Self::WrongMethod => {
                ("Nothing to show", "This address only accepts form submissions. Open the page that contains the form.")
            }
            Self::NotTaken(error) => (error.code().title(), error.detail()),
            Self::Foreign => (
                "Form rejected",
                "Forms must be sent from the console itself. Open the page in the console and make the change there.",
            ),
            Self::Refused(problem) => (problem.title.as_str(), problem.detail.as_str()),
            Self::Away(_) => (
                "Service not responding",
                "The service isn\u{2019}t responding. Try again. If you were saving, check whether it was saved.",
            ),
        };
        (title.to_owned(), detail.to_owned())
    }
}

/// A card's content, or its error. Other cards on the page are still shown.
pub(crate) type Card<T> = Result<T, CardFailure>;

/// Why a card couldn't be loaded. The text is for people.
#[derive(Clone, Debug)]
pub(crate) struct CardFailure {
    pub(crate) detail: String,
}

/// Returns a card's content. Address or session errors become errors of the whole page.
pub(crate) fn card<T>(read: Result<T, Failure>) -> Result<Card<T>, Failure> {
    match read {
        Ok(content) => Ok(Ok(content)),
        Err(failure @ Failure::Away(_)) => Ok(Err(failure.of_card())),
        Err(Failure::Refused(problem)) if matches!(problem.status, 413 | 429 | 500..) => {
            Ok(Err(Failure::Refused(problem).of_card()))
        }
        Err(other) => Err(other),
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage {
    frame: Layout,
    /// The page's address, if loading it again may help.
    again: Option<String>,
    title: String,
    detail: String,
    request_id: String,
}

#[derive(Clone)]
struct FailureText {
    title: String,
    detail: String,
}

/// Marks a response that redirects to the sign-in page.
#[derive(Clone)]
pub(crate) struct SignInRedirect;

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if let Self::SignedOut = self {
            let mut response = Redirect::to(SIGN_IN).into_response();
            response.extensions_mut().insert(SignInRedirect);
            return response;
        }
        if let Self::Away(error) = &self {
            tracing::warn!("unexpected response from the API: {error:#}");
        }
        let (title, detail) = self.sentences();
        let mut response = self.status().into_response();
        response.extensions_mut().insert(FailureText { title, detail });
        response
    }
}

/// Renders failures as pages with the request id and, if known, the organization's navigation. If a script requested part of a page, the
/// whole page goes to the sign-in page. After signing in, the person returns to the page.
pub(crate) async fn shown(Shared(state): Shared<Arc<State>>, mut request: Request, next: Next) -> Response {
    let is_part = request.headers().contains_key("hx-request");
    let address = opened(&request, is_part);
    let is_get = request.method() == Method::GET;
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
    let reader = Reader::default();
    request.extensions_mut().insert(reader.clone());
    let mut response = next.run(request).await;
    if response.extensions().get::<SignInRedirect>().is_some() {
        let keep = return_cookie::keep(state.transport(), &address);
        let to_sign_in = (StatusCode::NO_CONTENT, [("hx-redirect", SIGN_IN)]);
        return if is_part { (keep, to_sign_in).into_response() } else { (keep, response).into_response() };
    }
    let Some(FailureText { title, detail }) = response.extensions_mut().remove::<FailureText>() else { return response };
    let status = response.status();
    let may_help = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let again = (may_help && is_get).then_some(address);
    (status, Page(FailurePage { frame: reader.frame(&title), again, title, detail, request_id })).into_response()
}

/// Returns the path and query of the page that a person opened. For part of a page, returns those of the page, or nothing if the script
/// doesn't name it.
fn opened(request: &Request, is_part: bool) -> String {
    if !is_part {
        return request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    }
    let page = request.headers().get("hx-current-url").and_then(|url| Url::parse(url.to_str().ok()?).ok());
    page.map(|page| page[url::Position::BeforePath..url::Position::AfterQuery].to_owned()).unwrap_or_default()
}
