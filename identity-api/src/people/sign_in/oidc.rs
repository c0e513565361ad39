//! Signing in at an OpenID Connect provider: the authorization code flow with state, nonce and PKCE.
//!
//! Must believe a provider only what it signed for this client and this journey, and an address only when it says that
//! it verified it. What the browser keeps of a journey is sealed: nothing is stored for somebody who never comes back.

mod fetch;
mod provider_account;
mod provider;

pub(crate) use provider::{Named, Providers};

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
use provider_account::Proved;
use subtle::ConstantTimeEq;
use url::Url;

/// How long somebody may take at the provider.
const JOURNEY: TimeDelta = TimeDelta::minutes(10);

/// What must be the same when the browser comes back; sealed in a cookie.
#[derive(Serialize, Deserialize)]
struct Journey {
    state: CsrfToken,
    nonce: Nonce,
    verifier: PkceCodeVerifier,
    ends_at: DateTime<Utc>,
}

/// `GET /api/v1/identity/auth/oidc`: the providers to choose among, which is known to whoever sees the sign-in page.
/// It costs no look-up, and so none of the rate at which an address may sign in.
pub(crate) async fn list_oidc_providers(Shared(state): Shared<Arc<State>>) -> Json<Vec<Named>> {
    Json(state.sign_in.providers.named().collect())
}

/// `GET /api/v1/identity/auth/oidc/{provider}`: sends the browser to the provider.
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
    let journey = Journey { state: csrf, nonce, verifier, ends_at: now + JOURNEY };
    let text = serde_json::to_string(&journey).map_err(ApiError::internal)?;
    let sealed = state.sealer.seal(&text, &place(&provider.id)).map_err(ApiError::internal)?;
    let cookie = state.sign_in.cookies.set(Cookie::Journey, &URL_SAFE_NO_PAD.encode(sealed), JOURNEY);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(url.as_str())).into_response())
}

/// What a provider adds to the address it sends the browser back to; it may add more.
#[derive(Deserialize)]
pub(crate) struct Arrival {
    state: Option<CsrfToken>,
    code: Option<AuthorizationCode>,
}

pub(crate) async fn finish_oidc(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    Path(id): Path<String>,
    Query(arrival): Query<Arrival>,
    headers: HeaderMap,
) -> Response {
    let finished = async {
        let provider = find(&state.sign_in, &id)?;
        let proved = arrive(&state, provider, arrival, &headers).await?;
        let mut transaction = state.pool.begin().await?;
        let user = proved.account(&mut transaction, state.now()).await?;
        let (opened, cookies) = session::open(&state, transaction, user, &headers).await?;
        Ok(match page(&state.sign_in, &headers, true) {
            Some(page) => (cookies, Redirect::to(page.as_str())).into_response(),
            None => (cookies, Json(opened)).into_response(),
        })
    };
    // A journey ends where it arrives, also when it fails: the next attempt is a new one.
    let end = [(header::SET_COOKIE, state.sign_in.cookies.clear(Cookie::Journey))];
    finished.await.unwrap_or_else(|refusal: ApiError| {
        // A fault is answered as one: it is logged and counted, and it is not the person's to mend.
        match page(&state.sign_in, &headers, false).filter(|_| refusal.code().status() < 500) {
            Some(page) => {
                tracing::info!("a sign-in at a provider was refused: {}", refusal.in_one_line());
                (end, Redirect::to(page.as_str())).into_response()
            }
            None => (end, refusal).into_response(),
        }
    })
}

/// Where a person goes on who arrives by a browser, where a page for people is named; programs are answered.
fn page(sign_in: &SignIn, headers: &HeaderMap, is_signed_in: bool) -> Option<Url> {
    accepts(headers, "text/html").then(|| sign_in.arrival_link(is_signed_in)).flatten()
}

async fn arrive(state: &State, provider: &Provider, arrival: Arrival, headers: &HeaderMap) -> Result<Proved, ApiError> {
    let journey = journey(state, provider, headers).ok_or_else(refuse)?;
    // A state that fits proves that the browser which arrives is the one that left.
    let is_same =
        arrival.state.is_some_and(|given| bool::from(given.secret().as_bytes().ct_eq(journey.state.secret().as_bytes())));
    let code = arrival.code.filter(|_| is_same && state.now() < journey.ends_at).ok_or_else(refuse)?;
    provider.prove(code, journey.verifier, &journey.nonce, &state.clock).await
}

fn journey(state: &State, provider: &Provider, headers: &HeaderMap) -> Option<Journey> {
    let cookies = state.sign_in.cookies.values(Cookie::Journey, headers);
    let [only] = cookies.as_slice() else { return None };
    let sealed = URL_SAFE_NO_PAD.decode(only).ok()?;
    let text = state.sealer.open(&sealed, &place(&provider.id)).ok()?;
    serde_json::from_str(&text).ok()
}

/// A journey to one provider cannot arrive from another.
fn place(provider: &str) -> Vec<u8> {
    format!("sign-in at {provider}").into_bytes()
}

fn find<'a>(sign_in: &'a SignIn, id: &str) -> Result<&'a Provider, ApiError> {
    sign_in.providers.find(id).ok_or_else(|| ApiError::new(Code::NotFound, "Sign-in provider not found."))
}

/// One answer for whatever does not fit; the log says what it was.
fn refuse() -> ApiError {
    ApiError::new(Code::Unauthenticated, "The sign-in couldn't be completed. Start again.")
}
