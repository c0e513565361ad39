//! Sign-in at an OpenID Connect provider: authorization code flow with state, nonce and PKCE.
//!
//! Accepts only tokens that the provider signed for this client and this sign-in, and only addresses that it reports as verified. The state
//! is in an encrypted cookie, so abandoned sign-ins aren't stored.

mod fetch;
mod provider_account;
mod provider;
#[cfg(test)]
mod token_tests;
mod tokens;

pub(crate) use provider::{Providers, PublicProvider};

use super::cookies::Cookie;
use super::{SignIn, Visitor, accepts, session};
use crate::access::prelude::*;
use axum::extract::Query;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use openidconnect::core::CoreAuthenticationFlow;
use openidconnect::{AuthorizationCode, CsrfToken, Nonce, PkceCodeChallenge, PkceCodeVerifier};
use provider::Provider;
use provider_account::ProviderIdentity;
use subtle::ConstantTimeEq;
use url::Url;

/// Maximum time for the sign-in at the provider.
const LOGIN_TIMEOUT: TimeDelta = TimeDelta::minutes(10);

/// State of a sign-in, encrypted in a cookie.
#[derive(Serialize, Deserialize)]
struct LoginState {
    state: CsrfToken,
    nonce: Nonce,
    verifier: PkceCodeVerifier,
    ends_at: DateTime<Utc>,
}

/// Handles `GET /api/v1/identity/auth/oidc`: returns the configured providers, which are public. Doesn't count against the address's
/// sign-in rate.
pub(crate) async fn list_oidc_providers(Shared(state): Shared<Arc<State>>) -> Json<Vec<PublicProvider>> {
    Json(state.sign_in.providers.named().collect())
}

/// Handles `GET /api/v1/identity/auth/oidc/{provider}`: redirects the browser to the provider.
pub(crate) async fn start_oidc(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let now = state.now();
    let provider = find(&state.sign_in, &id)?;
    let client = provider.client(now).await?;
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let flow = CoreAuthenticationFlow::AuthorizationCode;
    let request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
    let (url, csrf, nonce) = request.add_scopes(provider.scopes.clone()).set_pkce_challenge(challenge).url();
    let journey = LoginState { state: csrf, nonce, verifier, ends_at: now + LOGIN_TIMEOUT };
    let text = serde_json::to_string(&journey).map_err(ApiError::internal)?;
    let sealed = state.sealer.seal(&text, &place(&provider.id)).map_err(ApiError::internal)?;
    let cookie = state.sign_in.cookies.set(Cookie::LoginState, &URL_SAFE_NO_PAD.encode(sealed), LOGIN_TIMEOUT);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(url.as_str())).into_response())
}

/// Query parameters of the callback; others are ignored.
#[derive(Deserialize)]
pub(crate) struct CallbackParameters {
    state: Option<CsrfToken>,
    code: Option<AuthorizationCode>,
}

pub(crate) async fn finish_oidc(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    Path(id): Path<String>,
    Query(arrival): Query<CallbackParameters>,
    headers: HeaderMap,
) -> Response {
    let finished = async {
        let provider = find(&state.sign_in, &id)?;
        let proved = handle_callback(&state, provider, arrival, &headers).await?;
        let mut transaction = state.pool.begin().await?;
        let user = proved.account(&mut transaction, state.now()).await?;
        let (opened, cookies) = session::open(&state, transaction, user, &headers).await?;
        Ok(match page(&state.sign_in, &headers, true) {
            Some(page) => (cookies, Redirect::to(page.as_str())).into_response(),
            None => (cookies, Json(opened)).into_response(),
        })
    };
    // Clear the cookie even after a failure, so that the next attempt starts again.
    let end = [(header::SET_COOKIE, state.sign_in.cookies.clear(Cookie::LoginState))];
    finished.await.unwrap_or_else(|refusal: ApiError| {
        // Return server errors as errors, so that they are logged and counted.
        match page(&state.sign_in, &headers, false).filter(|_| refusal.code().status() < 500) {
            Some(page) => {
                tracing::info!("rejected a sign-in at a provider: {}", refusal.one_line());
                (end, Redirect::to(page.as_str())).into_response()
            }
            None => (end, refusal).into_response(),
        }
    })
}

/// Returns the page where a browser continues, if a page for people is configured. Programs get the response itself.
fn page(sign_in: &SignIn, headers: &HeaderMap, is_signed_in: bool) -> Option<Url> {
    accepts(headers, "text/html").then(|| sign_in.arrival_link(is_signed_in)).flatten()
}

async fn handle_callback(
    state: &State,
    provider: &Provider,
    arrival: CallbackParameters,
    headers: &HeaderMap,
) -> Result<ProviderIdentity, ApiError> {
    let journey = read_login_state(state, provider, headers).ok_or_else(refuse)?;
    // A matching state shows that the browser that started the sign-in is finishing it.
    let is_same =
        arrival.state.is_some_and(|given| bool::from(given.secret().as_bytes().ct_eq(journey.state.secret().as_bytes())));
    let code = arrival.code.filter(|_| is_same && state.now() < journey.ends_at).ok_or_else(refuse)?;
    provider.verify_code(code, journey.verifier, &journey.nonce, &state.clock).await
}

fn read_login_state(state: &State, provider: &Provider, headers: &HeaderMap) -> Option<LoginState> {
    let cookies = state.sign_in.cookies.values(Cookie::LoginState, headers);
    let [only] = cookies.as_slice() else { return None };
    let sealed = URL_SAFE_NO_PAD.decode(only).ok()?;
    let text = state.sealer.open(&sealed, &place(&provider.id)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Binds a sign-in to one provider.
fn place(provider: &str) -> Vec<u8> {
    format!("sign-in at {provider}").into_bytes()
}

fn find<'a>(sign_in: &'a SignIn, id: &str) -> Result<&'a Provider, ApiError> {
    sign_in.providers.find(id).ok_or_else(|| ApiError::new(Code::NotFound, "Sign-in provider not found."))
}

/// Returns the same error for every mismatch. The log contains the reason.
fn refuse() -> ApiError {
    ApiError::new(Code::Unauthenticated, "The sign-in couldn't be completed. Start again.")
}
