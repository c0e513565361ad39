//! Stores the address that a signed-out person opened in an HTTP-only cookie, to return there after sign-in.

use crate::cookie::Cookie;
use axum::http::HeaderMap;
use service_kit::http::Transport;
use url::form_urlencoded;

/// Longer than a sign-in link is valid.
const SECONDS: u32 = 30 * 60;
/// Longer addresses are not stored.
const MAX_BYTES: usize = 2_048;

const COOKIE: Cookie = Cookie { name: "telemetry-return", same_site: "Lax" };

/// Returns the stored address if the browser sends exactly one and it is a console page.
pub(crate) fn kept(transport: Transport, headers: &HeaderMap) -> Option<String> {
    let text = COOKIE.value(transport, headers)?;
    let decoded = form_urlencoded::parse(format!("a={text}").as_bytes()).next()?.1.into_owned();
    is_page(&decoded).then_some(decoded)
}

/// Returns the header that stores an address; empty if it isn't a console page.
pub(crate) fn keep(transport: Transport, address: &str) -> HeaderMap {
    if !is_page(address) {
        return HeaderMap::new();
    }
    COOKIE.set(transport, &form_urlencoded::byte_serialize(address.as_bytes()).collect::<String>(), SECONDS)
}

/// Returns the header that deletes the cookie.
pub(crate) fn forget(transport: Transport) -> HeaderMap {
    COOKIE.set(transport, "", 0)
}

/// Returns whether this is a console page's address.
pub(crate) fn is_page(address: &str) -> bool {
    let is_plain = address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_plain && address.len() <= MAX_BYTES && address.starts_with("/console/") && !address.contains("/export/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header;

    #[test]
    fn stores_only_console_pages() {
        for transport in [Transport::Plain, Transport::Https] {
            let address = "/console/o/1/pages?path=%2Fblog%2F*&sort=-last_seen";
            let set = keep(transport, address)[header::SET_COOKIE].to_str().unwrap().to_owned();
            assert!(set.contains("HttpOnly; SameSite=Lax"), "{set}");
            let sent = HeaderMap::from_iter([(header::COOKIE, set.split(';').next().unwrap().parse().unwrap())]);
            assert_eq!(kept(transport, &sent).as_deref(), Some(address));
        }
        let long = format!("/console/{}", "a".repeat(MAX_BYTES));
        for other in [
            "",
            "/",
            "/sign-out",
            "//evil.example/console/",
            "https://evil.example/console/",
            "/console/\\evil",
            "/console/o/1/export/a.csv",
            &long,
        ] {
            assert!(keep(Transport::Plain, other).is_empty(), "{other}");
            let planted: String = form_urlencoded::byte_serialize(other.as_bytes()).collect();
            let planted = HeaderMap::from_iter([(header::COOKIE, format!("telemetry-return={planted}").parse().unwrap())]);
            assert_eq!(kept(Transport::Plain, &planted), None, "{other}");
        }
    }
}
