//! Names, writes, reads and clears cookies.

use axum::http::{HeaderMap, HeaderValue};
use chrono::TimeDelta;
use service_kit::http::Transport;
use service_kit::session_cookie_auth;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    Session,
    /// A sign-in at a provider in progress.
    LoginState,
    /// A sign-in link that this browser requested.
    RequestedLink,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cookies {
    pub(super) transport: Transport,
}

impl Cookies {
    fn name(self, cookie: Cookie) -> &'static str {
        match (cookie, self.transport) {
            (Cookie::Session, transport) => session_cookie_auth::name(transport),
            (Cookie::LoginState, Transport::Https) => "__Host-telemetry-sign-in",
            (Cookie::LoginState, Transport::Plain) => "telemetry-sign-in",
            (Cookie::RequestedLink, transport) => session_cookie_auth::sign_in_request_cookie(transport),
        }
    }

    pub(super) fn set(self, cookie: Cookie, value: &str, lasts: TimeDelta) -> HeaderValue {
        let secure = if self.transport == Transport::Https { "; Secure" } else { "" };
        let text = format!(
            "{}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            self.name(cookie),
            lasts.num_seconds().max(0)
        );
        HeaderValue::try_from(text).expect("the values are base62 or base64")
    }

    pub(super) fn clear(self, cookie: Cookie) -> HeaderValue {
        self.set(cookie, "", TimeDelta::zero())
    }

    /// Returns all values of a cookie. More than one means that somebody is trying to override it.
    pub(super) fn values(self, cookie: Cookie, headers: &HeaderMap) -> Vec<&str> {
        session_cookie_auth::values(headers, self.name(cookie))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header;

    #[test]
    fn cookies_are_host_only_and_hidden_from_scripts() {
        let (secure, local) = (Cookies { transport: Transport::Https }, Cookies { transport: Transport::Plain });
        let lasts = TimeDelta::seconds(9);
        assert_eq!(
            secure.set(Cookie::Session, "x", lasts),
            "__Host-telemetry-session=x; Path=/; Max-Age=9; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(local.set(Cookie::Session, "x", lasts), "telemetry-session=x; Path=/; Max-Age=9; HttpOnly; SameSite=Lax");
        let headers = HeaderMap::from_iter([(
            header::COOKIE,
            HeaderValue::from_static("a=b; telemetry-session=1; __Host-telemetry-session=2;c"),
        )]);
        assert_eq!((secure.values(Cookie::Session, &headers), local.values(Cookie::Session, &headers)), (vec!["2"], vec!["1"]));
    }
}
