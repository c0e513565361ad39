//! Stores an invite link's token in an HTTP-only cookie during sign-in.
//!
//! The cookie alone doesn't accept the invite: the person must still press the button.

use crate::cookie::Cookie;
use axum::http::HeaderMap;
use service_kit::http::Transport;

/// Longer than a sign-in link is valid.
const SECONDS: u32 = 30 * 60;
/// Longer than any token.
const MAX_BYTES: usize = 128;

const COOKIE: Cookie = Cookie { name: "telemetry-invite", same_site: "Lax" };

/// Returns the stored token if the browser sends exactly one.
pub(crate) fn kept(transport: Transport, headers: &HeaderMap) -> Option<String> {
    COOKIE.value(transport, headers).filter(|token| is_token(token)).map(str::to_owned)
}

/// Returns the header that stores a token; empty if the token isn't valid.
pub(crate) fn keep(transport: Transport, token: &str) -> HeaderMap {
    if is_token(token) { COOKIE.set(transport, token, SECONDS) } else { HeaderMap::new() }
}

/// Returns the header that deletes the cookie.
pub(crate) fn forget(transport: Transport) -> HeaderMap {
    COOKIE.set(transport, "", 0)
}

fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, header};

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
