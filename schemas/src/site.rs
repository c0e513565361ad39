//! Canonical hosts (`site`) and content URLs, for ingest, resolve, domains and reads. Rules: docs/api/event-keys.md#canonical-host
//! for hosts, docs/api/event-keys.md#key-of-a-retrieval for pages.

mod content_url;
mod page;

pub use content_url::{ContentUrl, ContentUrlError, MAX_URL_BYTES};

use std::str::FromStr;
use url::{Host, Url};

const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// Maximum labels of an ownable host, because the owners of every parent host are looked up.
const MAX_LABELS: usize = 32;
/// A label that can't be in the public suffix list, because no domain can contain it. `x.mythic-beasts.com` has its own rule.
const UNLISTED: &str = "_";
/// A host has the same pages with and without this prefix.
const WWW: &str = "www.";

/// A canonical host without a leading `www.` and with reversed labels (`com.example.blog`), so a domain and its subdomains form one key
/// range in a sorted table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// Not a host according to the URL standard.
    #[error("not a host name")]
    NotAHost,
    /// IPv4 or IPv6, in any spelling.
    #[error("an IP address is not a domain")]
    IpLiteral,
    #[error("the domain has an invalid label or more than 32 labels")]
    BadLabel,
    /// Such as `localhost` or a bare top-level domain.
    #[error("a domain needs at least two labels")]
    SingleLabel,
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

    /// Returns the site of a URL's host, or an error if the host can't be owned.
    pub fn from_url(url: &Url) -> Result<Self, SiteError> {
        Self::from_host(&host_name(url)?)
    }

    /// Expects `host` in lower case and A-labels, as the `url` crate returns it.
    fn from_host(host: &str) -> Result<Self, SiteError> {
        Ok(Self(reversed(without_www(ownable_name(host)?))))
    }

    /// Restores a stored site from the form of [`Site::as_str`].
    pub fn from_stored(reversed: &str) -> Self {
        Self(reversed.to_owned())
    }

    /// The reversed form, as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the shortest host name of this site (`blog.example.com`). Parsing removes only one of two leading `www.`, so one is added
    /// back here; the result always parses to this site again.
    pub fn domain(&self) -> String {
        let host = reversed(&self.0);
        if without_www(&host) == host { host } else { format!("{WWW}{host}") }
    }

    /// Returns whether `self` is `owner` or one of its subdomains.
    pub fn is_within(&self, owner: &Self) -> bool {
        self.0.strip_prefix(&owner.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns the site and its parents, longest first: the hosts whose owner may own this one.
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

/// Returns the public host name in a URL, including `www.` and without a trailing dot, to connect to it.
pub fn host_name(url: &Url) -> Result<String, SiteError> {
    match url.host() {
        Some(Host::Domain(host)) => ownable_name(host).map(str::to_owned),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => Err(SiteError::IpLiteral),
        None => Err(SiteError::NotAHost),
    }
}

/// Returns whether names below this host (`co.uk`, `github.io`), or below each name one level down (`*.kawasaki.jp`), belong to different
/// owners. Uses the public suffix list from build time.
pub fn is_public_suffix(host: &str) -> bool {
    psl::domain_str(host).is_none() || psl::domain_str(&format!("{UNLISTED}.{host}")).is_none()
}

/// Returns the host without one leading `www.`, unless the rest is a public suffix, as in `www.co.uk`.
fn without_www(host: &str) -> &str {
    host.strip_prefix(WWW).filter(|rest| !is_public_suffix(rest)).unwrap_or(host)
}

fn ownable_name(host: &str) -> Result<&str, SiteError> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.len() > MAX_HOST_BYTES || host.split('.').count() > MAX_LABELS || !host.split('.').all(is_owned_label) {
        return Err(SiteError::BadLabel);
    }
    if host.contains('.') { Ok(host) } else { Err(SiteError::SingleLabel) }
}

fn reversed(labels: &str) -> String {
    labels.rsplit('.').collect::<Vec<_>>().join(".")
}

fn is_owned_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= MAX_LABEL_BYTES
        && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn a6_hosts_with_too_many_labels_cannot_be_owned() {
        let host = |labels: usize| format!("{}test", "a.".repeat(labels - 1));
        assert_eq!(Site::from_domain(&host(MAX_LABELS)).unwrap().candidates().len(), MAX_LABELS - 1);
        assert_eq!(Site::from_domain(&host(MAX_LABELS + 1)).unwrap_err(), SiteError::BadLabel);
        let url = format!("https://{}/", host(127));
        let stored = ContentUrl::parse(&url).unwrap();
        assert_eq!((stored.stored, stored.site), (url, None), "its events are stored without a site");
    }

    #[test]
    fn parses_bare_domains() {
        assert_eq!(Site::from_domain("Blog.Example.COM.").unwrap().as_str(), "com.example.blog");
        assert_eq!(Site::from_domain("example.com..").unwrap_err(), SiteError::BadLabel);
        assert_eq!(Site::from_domain("127.1").unwrap_err(), SiteError::IpLiteral);
        assert_eq!(Site::from_domain("com").unwrap_err(), SiteError::SingleLabel);
        assert_eq!(Site::from_domain("https://example.com").unwrap_err(), SiteError::NotAHost);
        assert_eq!(Site::from_domain("example.com:80").unwrap_err(), SiteError::NotAHost);
        assert_eq!(Site::from_domain("").unwrap_err(), SiteError::NotAHost);
        assert_eq!(Site::from_domain("a,b.test").unwrap_err(), SiteError::BadLabel);
    }

    #[test]
    fn drops_www_unless_the_rest_is_a_public_suffix() {
        for (host, site, domain) in [
            ("Www.Example.COM.", "com.example", "example.com"),
            ("www.b\u{fc}cher.example", "example.xn--bcher-kva", "xn--bcher-kva.example"),
            ("www.blog.example.co.uk", "uk.co.example.blog", "blog.example.co.uk"),
            ("www.me.github.io", "io.github.me", "me.github.io"),
            ("www.co.uk", "uk.co.www", "www.co.uk"),
            ("www.github.io", "io.github.www", "www.github.io"),
            ("www.kawasaki.jp", "jp.kawasaki.www", "www.kawasaki.jp"),
            ("www.com", "com.www", "www.com"),
            ("www.mythic-beasts.com", "com.mythic-beasts", "mythic-beasts.com"),
            ("www.x.mythic-beasts.com", "com.mythic-beasts.x.www", "www.x.mythic-beasts.com"),
            ("www.city.kawasaki.jp", "jp.kawasaki.city", "city.kawasaki.jp"),
            ("www.me.kawasaki.jp", "jp.kawasaki.me.www", "www.me.kawasaki.jp"),
            ("www.localhost", "localhost.www", "www.localhost"),
            ("www2.example.com", "com.example.www2", "www2.example.com"),
            ("wwwexample.com", "com.wwwexample", "wwwexample.com"),
            ("a.www.example.com", "com.example.www.a", "a.www.example.com"),
            ("www.www.example.com", "com.example.www", "www.www.example.com"),
        ] {
            let found = Site::from_domain(host).unwrap();
            assert_eq!((found.as_str(), found.domain().as_str()), (site, domain), "{host}");
            assert_eq!(ContentUrl::parse(&format!("https://{host}/")).unwrap().site, Some(found), "{host}");
        }
    }

    #[test]
    fn host_names_keep_www() {
        let name = |url: &str| host_name(&Url::parse(url).unwrap());
        assert_eq!(name("https://www.Example.com./hook").as_deref(), Ok("www.example.com"));
        assert_eq!(name("https://127.0.0.1/"), Err(SiteError::IpLiteral));
    }

    #[test]
    fn returns_candidates_longest_first() {
        let site = Site::from_domain("a.b.example.com").unwrap();
        let domains: Vec<String> = site.candidates().iter().map(Site::domain).collect();
        assert_eq!(domains, ["a.b.example.com", "b.example.com", "example.com"]);
    }

    proptest! {
        #[test]
        fn e6_subdomains_match_on_label_boundaries(host in "([a-c]{1,2}\\.){1,4}test", owner in "([a-c]{1,2}\\.){1,2}test") {
            let (site, owned) = (Site::from_domain(&host).unwrap(), Site::from_domain(&owner).unwrap());
            let expected = host == owner || host.ends_with(&format!(".{owner}"));
            prop_assert_eq!(site.is_within(&owned), expected);
            prop_assert_eq!(site.candidates().contains(&owned), expected);
            prop_assert_eq!(site.domain(), host);
        }

        #[test]
        fn site_domains_round_trip(
            host in "(www\\.){0,3}([a-b]\\.){0,2}(www\\.)?(test|com|co\\.uk|github\\.io|kawasaki\\.jp)"
        ) {
            if let Ok(site) = Site::from_domain(&host) {
                prop_assert_eq!(Site::from_domain(&site.domain()), Ok(site));
            }
        }

        #[test]
        fn parsers_never_panic(text in "\\PC{0,60}") {
            let _ = Site::from_domain(&text);
            let _ = ContentUrl::parse(&text);
            let _ = ContentUrl::parse(&format!("https://{text}"));
        }
    }
}
