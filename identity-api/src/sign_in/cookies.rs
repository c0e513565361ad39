//! Cookies: how they are named, written, read and taken back.
//!
//! Must never set one that scripts can read, or that another site's form can bring along.

use axum::http::{HeaderMap, HeaderValue, header};
use chrono::TimeDelta;

/// A cookie of this surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The session.
    Session,
    /// A sign-in at a provider that is under way.
    Journey,
}

/// How cookies are written here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cookies {
    /// Whether people come over HTTPS.
    pub(super) is_secure: bool,
}

impl Cookies {
    /// Over HTTPS a browser takes these names from this very host only: a neighbouring host cannot plant one.
    fn name(self, cookie: Cookie) -> &'static str {
        match (cookie, self.is_secure) {
            (Cookie::Session, true) => "__Host-telemetry-session",
            (Cookie::Session, false) => "telemetry-session",
            (Cookie::Journey, true) => "__Host-telemetry-sign-in",
            (Cookie::Journey, false) => "telemetry-sign-in",
        }
    }

    /// The header that sets one.
    pub(super) fn set(self, cookie: Cookie, value: &str, lasts: TimeDelta) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!(
            "{}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            self.name(cookie),
            lasts.num_seconds().max(0)
        );
        HeaderValue::try_from(text).expect("the values are base62 or base64")
    }

    /// The header that takes one back.
    pub(super) fn clear(self, cookie: Cookie) -> HeaderValue {
        self.set(cookie, "", TimeDelta::zero())
    }

    /// Every value of a cookie; more than one is somebody's attempt to choose between them.
    pub(super) fn values(self, cookie: Cookie, headers: &HeaderMap) -> Vec<&str> {
        let pairs = headers.get_all(header::COOKIE).iter().flat_map(|value| value.to_str().unwrap_or_default().split(';'));
        let named = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == self.name(cookie));
        named.map(|(_, value)| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x25_cookies_are_for_this_host_and_not_for_scripts() {
        let (secure, local) = (Cookies { is_secure: true }, Cookies { is_secure: false });
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
