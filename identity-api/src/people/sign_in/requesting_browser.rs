//! Recognizes the browser that requested a sign-in link.
//!
//! Anyone can request a link for their own account and send it to someone else, who would then use that account. So a link signs in
//! directly only in the browser that requested it; in other browsers, the person confirms the address. The cookie contains the encrypted
//! address and is set whether or not an email is sent.

use super::cookies::Cookie;
use crate::access::prelude::*;
use crate::request::email_address::EmailAddress;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;

/// Time for which a link can be redeemed and its browser is recognized. An account's emails are counted over the same time.
pub(super) const LIFETIME: TimeDelta = TimeDelta::minutes(15);
/// Separates these cookies from other data encrypted with the same key.
const PLACE: &[u8] = b"requested sign-in link";

#[derive(Serialize, Deserialize)]
struct Requested {
    email: String,
    expires_at: DateTime<Utc>,
}

/// Returns the cookie that marks the browser that requested a link to this address.
pub(super) fn remember(state: &State, email: &EmailAddress) -> Result<HeaderValue, ApiError> {
    let requested = Requested { email: email.as_str().to_owned(), expires_at: state.now() + LIFETIME };
    let text = serde_json::to_string(&requested).map_err(ApiError::internal)?;
    let sealed = state.sealer.seal(&text, PLACE).map_err(ApiError::internal)?;
    Ok(state.sign_in.cookies.set(Cookie::RequestedLink, &URL_SAFE_NO_PAD.encode(sealed), LIFETIME))
}

/// Returns whether the browser requested a link to this address.
pub(super) fn is_recognized(state: &State, headers: &HeaderMap, email: &EmailAddress) -> bool {
    requested(state, headers).is_some_and(|requested| requested.email == email.as_str() && state.now() < requested.expires_at)
}

fn requested(state: &State, headers: &HeaderMap) -> Option<Requested> {
    let cookies = state.sign_in.cookies.values(Cookie::RequestedLink, headers);
    let [only] = cookies.as_slice() else { return None };
    let sealed = URL_SAFE_NO_PAD.decode(only).ok()?;
    serde_json::from_str(&state.sealer.open(&sealed, PLACE).ok()?).ok()
}
