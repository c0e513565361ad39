//! The canonical host (`site`) and the canonical content URL: one function for ingest, resolve, domains and reads.
//!
//! Must not do network I/O and must not guess: a host that nobody can own has no site.

use std::{fmt, str::FromStr};
use url::{Host, Url};

/// Longest content URL, in bytes (decisions.md, "limits").
pub const MAX_URL_BYTES: usize = 8_192;
/// Longest host name DNS allows, in bytes.
const MAX_HOST_BYTES: usize = 253;
/// Longest label DNS allows, in bytes.
const MAX_LABEL_BYTES: usize = 63;
/// The query parameter that carries a click token; a bearer secret, so it is never stored.
const CLICK_TOKEN_PARAMETER: &str = "ctx";

/// A canonical host with its labels reversed (`com.example.www`), so that a domain and all of its subdomains
/// are one key range in a sorted table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(String);

/// Why a text is not a host name somebody can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteError {
    /// Not a host name by the URL standard.
    NotAHost,
    /// An IPv4 or IPv6 address in any spelling.
    IpLiteral,
    /// An empty label, `*`, `_`, or a label or name over the length that DNS allows.
    BadLabel,
    /// One label only, such as `localhost` or a bare top-level domain.
    SingleLabel,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAHost => "not a host name",
            Self::IpLiteral => "an IP address is not a domain",
            Self::BadLabel => "a label is empty, too long or has a character no domain can have",
            Self::SingleLabel => "a domain needs at least two labels",
        })
    }
}

impl Site {
    /// Parses a bare domain (`Example.COM.` and `example.com` are the same site).
    pub fn from_domain(domain: &str) -> Result<Self, SiteError> {
        if domain.contains(['/', '\\', '@', ':', '?', '#', '%']) || domain.chars().any(|c| c.is_control() || c == ' ') {
            return Err(SiteError::NotAHost);
        }
        match Host::parse(domain) {
            Ok(Host::Domain(host)) => Self::from_host(&host),
            Ok(Host::Ipv4(_) | Host::Ipv6(_)) => Err(SiteError::IpLiteral),
            Err(_) => Err(SiteError::NotAHost),
        }
    }

    /// The site of a URL's host, when somebody could own it.
    pub fn of_url(url: &Url) -> Result<Self, SiteError> {
        match url.host() {
            Some(Host::Domain(host)) => Self::from_host(host),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => Err(SiteError::IpLiteral),
            None => Err(SiteError::NotAHost),
        }
    }

    /// `host` is already lower case and in A-labels: both callers got it from the `url` crate.
    fn from_host(host: &str) -> Result<Self, SiteError> {
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.len() > MAX_HOST_BYTES || !host.split('.').all(is_owned_label) {
            return Err(SiteError::BadLabel);
        }
        if !host.contains('.') {
            return Err(SiteError::SingleLabel);
        }
        Ok(Self(host.rsplit('.').collect::<Vec<_>>().join(".")))
    }

    /// Takes a site back from a store that got it from [`Site::as_str`].
    pub fn from_stored(reversed: &str) -> Self {
        Self(reversed.to_owned())
    }

    /// The reversed form, as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host in reading order (`www.example.com`).
    pub fn domain(&self) -> String {
        self.0.rsplit('.').collect::<Vec<_>>().join(".")
    }

    /// Whether `self` is `owner` or one of its subdomains, on a label boundary.
    pub fn is_within(&self, owner: &Self) -> bool {
        self.0.strip_prefix(&owner.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The site and every parent of it that could be verified, longest first: who may own this host.
    pub fn candidates(&self) -> Vec<Self> {
        let mut ends: Vec<usize> = self.0.match_indices('.').map(|(at, _)| at).skip(1).collect();
        ends.push(self.0.len());
        ends.iter().rev().map(|end| Self(self.0[..*end].to_owned())).collect()
    }
}

impl FromStr for Site {
    type Err = SiteError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_domain(text)
    }
}

fn is_owned_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= MAX_LABEL_BYTES
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A content URL as it is stored, with what the keys need from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentUrl {
    /// Without userinfo, fragment, `ctx` parameter and trailing dot of the host.
    pub stored: String,
    /// `stored` without scheme and default port: an edge behind TLS termination and the agent agree on it.
    pub keyed: String,
    /// Absent when the host is one that nobody can own (an address, `localhost`, an underscore label).
    pub site: Option<Site>,
}

/// Why a text is not a content URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentUrlError {
    /// Over [`MAX_URL_BYTES`].
    TooLong,
    /// Not an absolute URL.
    NotAUrl,
    /// A scheme other than `http` and `https`.
    Scheme,
}

impl fmt::Display for ContentUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the URL is longer than 8192 bytes",
            Self::NotAUrl => "not an absolute URL",
            Self::Scheme => "only http and https URLs are content URLs",
        })
    }
}

impl ContentUrl {
    /// Canonicalises a reported URL; what is dropped (userinfo, fragment, `ctx`) is dropped for good.
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
        // The site first: it forgives exactly one trailing dot.
        let site = Site::of_url(&url).ok();
        strip_trailing_dot(&mut url);
        let keyed = without_scheme(&url);
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

/// Works on the text between the `&`, so that every other parameter stays byte for byte.
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
    // With more than one it has no site, and must not get one when what is stored is read again.
    let Some(host) = host.filter(|host| !host.is_empty() && !host.ends_with('.')).map(str::to_owned) else { return };
    let _ = url.set_host(Some(&host));
}

fn without_scheme(url: &Url) -> String {
    // The url crate drops a scheme's own default port; the other scheme's default is dropped here.
    let port = url.port().filter(|port| !matches!(port, 80 | 443));
    let host = url.host_str().unwrap_or_default();
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{host}{port}{}{query}", url.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(reported: &str, stored: &str, site: Option<&str>) {
        let parsed = ContentUrl::parse(reported).unwrap();
        assert_eq!(parsed.stored, stored, "{reported}");
        assert_eq!(parsed.site.as_ref().map(Site::as_str), site, "{reported}");
    }

    #[test]
    fn a_url_is_stored_without_what_must_not_be_kept() {
        check("https://Example.com", "https://example.com/", Some("com.example"));
        check("https://u:p@www.example.com:443/a#b", "https://www.example.com/a", Some("com.example.www"));
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
    fn a_host_that_nobody_can_own_has_no_site() {
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
    fn what_is_not_a_content_url_is_refused() {
        assert_eq!(ContentUrl::parse("javascript:alert(1)"), Err(ContentUrlError::Scheme));
        assert_eq!(ContentUrl::parse("ftp://example.com/"), Err(ContentUrlError::Scheme));
        assert_eq!(ContentUrl::parse("/relative"), Err(ContentUrlError::NotAUrl));
        assert_eq!(ContentUrl::parse("https://"), Err(ContentUrlError::NotAUrl));
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES));
        assert_eq!(ContentUrl::parse(&long), Err(ContentUrlError::TooLong));
    }

    #[test]
    fn edge_and_agent_agree_on_the_keyed_form() {
        let keyed = |url| ContentUrl::parse(url).unwrap().keyed;
        assert_eq!(keyed("http://example.com:80/a?b=1"), "example.com/a?b=1");
        assert_eq!(keyed("https://example.com:443/a?b=1#c"), "example.com/a?b=1");
        assert_eq!(keyed("http://example.com:443/a?b=1"), "example.com/a?b=1");
        assert_eq!(keyed("http://example.com:8080/a"), "example.com:8080/a");
    }

    #[test]
    fn a_bare_domain_is_parsed_like_a_host() {
        assert_eq!(Site::from_domain("Www.Example.COM.").unwrap().as_str(), "com.example.www");
        assert_eq!(Site::from_domain("example.com..").unwrap_err(), SiteError::BadLabel);
        assert_eq!(Site::from_domain("127.1").unwrap_err(), SiteError::IpLiteral);
        assert_eq!(Site::from_domain("com").unwrap_err(), SiteError::SingleLabel);
        assert_eq!(Site::from_domain("https://example.com").unwrap_err(), SiteError::NotAHost);
        assert_eq!(Site::from_domain("example.com:80").unwrap_err(), SiteError::NotAHost);
        assert_eq!(Site::from_domain("").unwrap_err(), SiteError::NotAHost);
        assert_eq!(Site::from_domain("a,b.test").unwrap_err(), SiteError::BadLabel);
    }

    #[test]
    fn candidates_are_the_site_and_its_parents_longest_first() {
        let site = Site::from_domain("a.b.example.com").unwrap();
        let domains: Vec<String> = site.candidates().iter().map(Site::domain).collect();
        assert_eq!(domains, ["a.b.example.com", "b.example.com", "example.com"]);
    }

    proptest! {
        #[test]
        fn within_is_decided_on_label_boundaries(host in "([a-c]{1,2}\\.){1,4}test", owner in "([a-c]{1,2}\\.){1,2}test") {
            let (site, owned) = (Site::from_domain(&host).unwrap(), Site::from_domain(&owner).unwrap());
            let expected = host == owner || host.ends_with(&format!(".{owner}"));
            prop_assert_eq!(site.is_within(&owned), expected);
            prop_assert_eq!(site.candidates().contains(&owned), expected);
            prop_assert_eq!(site.domain(), host);
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,60}") {
            let _ = Site::from_domain(&text);
            let _ = ContentUrl::parse(&text);
            let _ = ContentUrl::parse(&format!("https://{text}"));
        }
    }
}
