//! Content URLs as reported, as stored, and as used in keys.
//!
//! Owners look up pages by the URL they reported, so everything else stays unchanged.

use super::{Site, page};
use url::Url;

pub const MAX_URL_BYTES: usize = 8_192;
/// The query parameter with a click token. It is a bearer secret and is never stored.
const CLICK_TOKEN_PARAMETER: &str = "ctx";

/// A content URL in stored form, with the parts that keys need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentUrl {
    /// The URL without user info, fragment, `ctx` parameter and the host's trailing dot.
    pub stored: String,
    /// The page, the same for all spellings of the URL, so all observers of a fetch agree on it.
    pub keyed: String,
    /// `None` if the host can't be owned (an IP address, `localhost`, a label with an underscore).
    pub site: Option<Site>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentUrlError {
    #[error("the URL is longer than 8192 bytes")]
    TooLong,
    #[error("not an absolute URL")]
    NotAUrl,
    #[error("the URL must start with http:// or https://")]
    Scheme,
}

impl ContentUrl {
    /// Canonicalizes a reported URL. User info, fragment and `ctx` are removed permanently.
    pub fn parse(reported: &str) -> Result<Self, ContentUrlError> {
        if reported.len() > MAX_URL_BYTES {
            return Err(ContentUrlError::TooLong);
        }
        let mut url = Url::parse(reported).map_err(|_| ContentUrlError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ContentUrlError::Scheme);
        }
        strip_credentials(&mut url);
        strip_click_token(&mut url);
        // Compute the site first, because it accepts exactly one trailing dot.
        let site = Site::from_url(&url).ok();
        strip_trailing_dot(&mut url);
        let keyed = page::page_of_url(&url);
        let stored = String::from(url);
        if stored.len() > MAX_URL_BYTES {
            return Err(ContentUrlError::TooLong);
        }
        Ok(Self { stored, keyed, site })
    }
}

fn strip_credentials(url: &mut Url) {
    url.set_fragment(None);
    url.set_username("").expect("an http URL has a host, so it can have a user name");
    url.set_password(None).expect("an http URL has a host, so it can have a password");
}

/// Works on the text between `&`, so other parameters keep their exact bytes.
fn strip_click_token(url: &mut Url) {
    let Some(query) = url.query() else { return };
    let is_token = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        url::form_urlencoded::parse(name.as_bytes()).any(|(decoded, _)| decoded == CLICK_TOKEN_PARAMETER)
    };
    if !query.split('&').any(|pair| is_token(&pair)) {
        return;
    }
    let kept = query.split('&').filter(|pair| !is_token(pair)).collect::<Vec<_>>().join("&");
    url.set_query(Some(kept.as_str()).filter(|kept| !kept.is_empty()));
}

fn strip_trailing_dot(url: &mut Url) {
    let host = url.host_str().and_then(|host| host.strip_suffix('.'));
    // A host with several trailing dots has no site, and must not get one when the stored URL is parsed again.
    let Some(host) = host.filter(|host| !host.is_empty() && !host.ends_with('.')).map(str::to_owned) else { return };
    let _ = url.set_host(Some(&host));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reported: &str, stored: &str, site: Option<&str>) {
        let parsed = ContentUrl::parse(reported).unwrap();
        assert_eq!(parsed.stored, stored, "{reported}");
        assert_eq!(parsed.site.as_ref().map(Site::as_str), site, "{reported}");
    }

    #[test]
    fn stored_urls_do_not_contain_secrets() {
        check("https://Example.com", "https://example.com/", Some("com.example"));
        check("https://u:p@www.example.com:443/a#b", "https://www.example.com/a", Some("com.example"));
        check("http://example.com./a?ctx=ctx_1&b=2", "http://example.com/a?b=2", Some("com.example"));
        check("http://example.com/?ctx=ctx_1", "http://example.com/", Some("com.example"));
        check("http://example.com/?%63tx=1&ctxx=%20+", "http://example.com/?ctxx=%20+", Some("com.example"));
        check("https://a.test@b.test/x", "https://b.test/x", Some("test.b"));
        check("https://ｅxample.com/", "https://example.com/", Some("com.example"));
        check("https://example。com/", "https://example.com/", Some("com.example"));
        check("https://еxample.com/", "https://xn--xample-2of.com/", Some("com.xn--xample-2of"));
        check("https://a.test\\@b.test/", "https://a.test/@b.test/", Some("test.a"));
        check("https://example.com../", "https://example.com../", None);
    }

    #[test]
    fn hosts_that_cannot_be_owned_have_no_site() {
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://localhost/",
            "http://*.example.com/",
            "http://.example.com/",
            "http://a..example.com/",
            "http://my_bucket.example.com/",
            "http://example.com../",
        ] {
            assert_eq!(ContentUrl::parse(url).unwrap().site, None, "{url}");
        }
    }

    #[test]
    fn rejects_other_urls() {
        assert_eq!(ContentUrl::parse("javascript:alert(1)"), Err(ContentUrlError::Scheme));
        assert_eq!(ContentUrl::parse("ftp://example.com/"), Err(ContentUrlError::Scheme));
        assert_eq!(ContentUrl::parse("/relative"), Err(ContentUrlError::NotAUrl));
        assert_eq!(ContentUrl::parse("https://"), Err(ContentUrlError::NotAUrl));
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES));
        assert_eq!(ContentUrl::parse(&long), Err(ContentUrlError::TooLong));
    }
}
