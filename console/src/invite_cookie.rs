//! Stores the token of an invite link in an HTTP-only cookie during sign-in.
//!
//! The cookie alone doesn't accept it: the person still has to press the button.

use axum::http::{HeaderMap, HeaderValue, header};
use service_kit::http::Transport;
use service_kit::session_cookie_auth::values;

/// Longer than a sign-in link is valid.
const SECONDS: u32 = 30 * 60;
/// Longer than any token.
const MAX_BYTES: usize = 128;

fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Https => "__Host-telemetry-invite",
        Transport::Plain => "telemetry-invite",
    }
}

/// Returns the stored token if the browser sends exactly one.
pub(crate) fn kept(transport: Transport, headers: &HeaderMap) -> Option<String> {
    let kept = values(headers, name(transport));
    let [token] = kept.as_slice() else { return None };
    is_token(token).then(|| (*token).to_owned())
}

/// Returns the header that stores a token; empty if it is not a valid token.
pub(crate) fn keep(transport: Transport, token: &str) -> HeaderMap {
    if is_token(token) { set(transport, token, SECONDS) } else { HeaderMap::new() }
}

/// Returns the header that deletes the cookie.
pub(crate) fn forget(transport: Transport) -> HeaderMap {
    set(transport, "", 0)
}

fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

fn set(transport: Transport, value: &str, seconds: u32) -> HeaderMap {
    let secure = if transport == Transport::Https { "; Secure" } else { "" };
    let text = format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}", name(transport));
    let set = HeaderValue::try_from(text).ok().map(|set| (header::SET_COOKIE, set));
    set.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(text).unwrap())])
    }

    #[test]
    fn stores_one_valid_token() {
        for (transport, cookie) in [
            (Transport::Plain, "telemetry-invite=abc_-9; Path=/; Max-Age=1800; HttpOnly; SameSite=Lax"),
            (Transport::Https, "__Host-telemetry-invite=abc_-9; Path=/; Max-Age=1800; HttpOnly; SameSite=Lax; Secure"),
        ] {
            assert_eq!(keep(transport, "abc_-9")[header::SET_COOKIE], cookie);
            assert_eq!(kept(transport, &cookies(cookie.split(';').next().unwrap())).as_deref(), Some("abc_-9"));
        }
        for none in ["", "a b", "a;b", "a\"b", "<script>", &"a".repeat(129)] {
            assert!(keep(Transport::Plain, none).is_empty(), "{none}");
        }
        let two = cookies("telemetry-invite=a; telemetry-invite=b");
        assert_eq!((kept(Transport::Plain, &two), kept(Transport::Plain, &cookies("other=a"))), (None, None));
        assert!(forget(Transport::Plain)[header::SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    }
}
