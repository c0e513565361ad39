//! The console's cookies other than the session: HTTP-only, valid for all paths.

use axum::http::{HeaderMap, HeaderValue, header};
use service_kit::http::Transport;
use service_kit::session_cookie_auth::values;

/// A cookie, with its name over plain HTTP. Over HTTPS, the prefix `__Host-` prevents sibling hosts from setting it.
pub(crate) struct Cookie {
    pub(crate) name: &'static str,
    /// Value of the attribute `SameSite`.
    pub(crate) same_site: &'static str,
}

impl Cookie {
    fn name(&self, transport: Transport) -> String {
        let prefix = if transport == Transport::Https { "__Host-" } else { "" };
        format!("{prefix}{}", self.name)
    }

    /// Returns every value that the browser sends.
    pub(crate) fn values<'a>(&self, transport: Transport, headers: &'a HeaderMap) -> Vec<&'a str> {
        values(headers, &self.name(transport))
    }

    /// Returns the value if the browser sends exactly one.
    pub(crate) fn value<'a>(&self, transport: Transport, headers: &'a HeaderMap) -> Option<&'a str> {
        let values = self.values(transport, headers);
        let [value] = values.as_slice() else { return None };
        Some(value)
    }

    /// Returns the header that stores a value, or deletes the cookie if `seconds` is 0. Empty if the value isn't valid in a header.
    pub(crate) fn set(&self, transport: Transport, value: &str, seconds: u32) -> HeaderMap {
        let secure = if transport == Transport::Https { "; Secure" } else { "" };
        let (name, same_site) = (self.name(transport), self.same_site);
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}");
        HeaderValue::try_from(text).ok().map(|set| (header::SET_COOKIE, set)).into_iter().collect()
    }
}
