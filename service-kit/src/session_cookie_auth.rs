//! The cookie with a person's session, and its conversion to a bearer token (docs/api/identity.md#cookies).

use crate::auth::presented_session;
use crate::http::{ApiError, Transport};
use axum::http::{HeaderMap, HeaderValue, header};
use schemas::secrets::PlainUserSession;

/// Returns the cookie's name. Over HTTPS, the prefix `__Host-` prevents sibling hosts from setting it.
pub const fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Https => "__Host-telemetry-session",
        Transport::Plain => "telemetry-session",
    }
}

/// Returns the name of the cookie that marks the browser that requested a sign-in link.
pub const fn sign_in_request_cookie(transport: Transport) -> &'static str {
    match transport {
        Transport::Https => "__Host-telemetry-link",
        Transport::Plain => "telemetry-link",
    }
}

pub fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let pairs = headers.get_all(header::COOKIE).iter().flat_map(|value| value.to_str().unwrap_or_default().split(';'));
    let named = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(found, _)| *found == name);
    named.map(|(_, value)| value).collect()
}

/// Returns the session in the cookie. Returns 401 for two sessions, or for a bearer token that contradicts the cookie.
///
/// Ignores values that aren't session tokens: they belong to another program's cookie of the same name and must not prevent signing in.
pub fn presented(headers: &HeaderMap, transport: Transport) -> Result<Option<PlainUserSession>, ApiError> {
    let mut sessions = values(headers, name(transport)).into_iter().filter_map(PlainUserSession::parse);
    let cookie = sessions.next();
    if sessions.next().is_some() {
        return Err(ApiError::unauthenticated());
    }
    let contradicts = |cookie: &PlainUserSession| presented_session(headers).is_none_or(|bearer| bearer.hash() != cookie.hash());
    if headers.contains_key(header::AUTHORIZATION) && cookie.as_ref().is_some_and(contradicts) {
        return Err(ApiError::unauthenticated());
    }
    Ok(cookie)
}

/// Sets the cookie's session as the bearer token, so handlers don't need to read cookies.
pub fn set_bearer_token(headers: &mut HeaderMap, cookie: &PlainUserSession) -> Result<(), ApiError> {
    let bearer = format!("Bearer {}", cookie.reveal());
    let mut bearer = HeaderValue::try_from(bearer).map_err(|_| ApiError::unauthenticated())?;
    bearer.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, bearer);
    Ok(())
}

/// Origin of the page that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    Own,
    Foreign,
    /// Not sent by a browser.
    Unsaid,
}

impl PageOrigin {
    /// Returns the origin of a request. Browsers set its headers, and pages can't forge them.
    pub fn of(headers: &HeaderMap, own: &[String]) -> Self {
        let origins: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
        match (origins.as_slice(), headers.get("sec-fetch-site")) {
            ([origin], _) if own.iter().any(|own| origin.as_bytes() == own.as_bytes()) => Self::Own,
            ([], Some(site)) if site == "same-origin" => Self::Own,
            ([], None) => Self::Unsaid,
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookies: &[&str], bearer: Option<&str>) -> HeaderMap {
        let cookies = cookies.iter().map(|cookie| (header::COOKIE, HeaderValue::from_str(cookie).unwrap()));
        let bearer = bearer.map(|bearer| (header::AUTHORIZATION, HeaderValue::from_str(bearer).unwrap()));
        let mut all = HeaderMap::new();
        cookies.chain(bearer).for_each(|(name, value)| _ = all.append(name, value));
        all
    }

    #[test]
    fn rejects_two_sessions() {
        let (one, two) = (PlainUserSession::generate(), PlainUserSession::generate());
        let cookie = |session: &PlainUserSession| format!("a=b; telemetry-session={}; c", session.reveal());
        let bearer = |session: &PlainUserSession| format!("Bearer {}", session.reveal());
        let found = |headers: HeaderMap| {
            presented(&headers, Transport::Plain).map(|found| found.map(|session| session.hash())).map_err(|error| error.code())
        };
        assert_eq!(found(headers(&[&cookie(&one)], None)), Ok(Some(one.hash())));
        assert_eq!(found(headers(&[&cookie(&one)], Some(&bearer(&one)))), Ok(Some(one.hash())));
        assert_eq!(found(headers(&[], Some(&bearer(&one)))), Ok(None));
        assert_eq!(found(headers(&["telemetry-session=mine"], None)), Ok(None), "ignores another program's cookie");
        for contradicting in [
            headers(&[&cookie(&one), &cookie(&two)], None),
            headers(&[&cookie(&one)], Some(&bearer(&two))),
            headers(&[&cookie(&one)], Some("Basic YTpi")),
        ] {
            assert!(found(contradicting).is_err());
        }
    }

    #[test]
    fn x25_https_requires_the_host_prefix() {
        let session = PlainUserSession::generate();
        let planted = headers(&[&format!("telemetry-session={}", session.reveal())], None);
        assert!(presented(&planted, Transport::Https).unwrap().is_none());
        let own = headers(&[&format!("__Host-telemetry-session={}", session.reveal())], None);
        assert_eq!(presented(&own, Transport::Https).unwrap().map(|found| found.hash()), Some(session.hash()));
    }
}
