//! The canonical host (`site`) and the canonical content URL: one function for ingest, resolve, domains and reads.
//! What is the same host is told in docs/api/event-keys.md#canonical-host, and what the same page in
//! docs/api/event-keys.md#key-of-a-retrieval.

mod content_url;
mod page;

pub use content_url::{ContentUrl, ContentUrlError, MAX_URL_BYTES};

use std::str::FromStr;
use url::{Host, Url};

const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// Most labels of a host that somebody can own: each is one more host above it whose owner is looked up.
const MAX_LABELS: usize = 32;
/// A label that no rule of the list names, as no domain can have it: `x.mythic-beasts.com` is a rule by itself.
const UNLISTED: &str = "_";
/// What a host and the same host without it have in common: the pages.
const WWW: &str = "www.";

/// A canonical host, without a leading `www.`, with its labels reversed (`com.example.blog`), so that a domain and all of
/// its subdomains are one key range in a sorted table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(String);

/// Why a text is not a host name somebody can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// By the URL standard.
    #[error("not a host name")]
    NotAHost,
    /// IPv4 or IPv6, in any spelling.
    #[error("an IP address is not a domain")]
    IpLiteral,
    #[error("a label is empty, too long or has a character no domain can have, or there are more than 32")]
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

    /// The site of a URL's host, when somebody could own it.
    pub fn of_url(url: &Url) -> Result<Self, SiteError> {
        Self::from_host(&host_name(url)?)
    }

    /// `host` is already lower case and in A-labels: both callers got it from the `url` crate.
    fn from_host(host: &str) -> Result<Self, SiteError> {
        Ok(Self(reversed(without_www(ownable_name(host)?))))
    }

    /// Takes a site back from a store that got it from [`Site::as_str`].
    pub fn from_stored(reversed: &str) -> Self {
        Self(reversed.to_owned())
    }

    /// The reversed form, as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shortest host name that has this site (`blog.example.com`). Of a name that begins with `www.` twice only one is
    /// dropped, so that one is put back: what is shown must lead here again, and to nobody else's site.
    pub fn domain(&self) -> String {
        let host = reversed(&self.0);
        if without_www(&host) == host { host } else { format!("{WWW}{host}") }
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

/// A host name of the public kind as it stands in a URL, with its `www.` and without its trailing dot: where to connect to.
pub fn host_name(url: &Url) -> Result<String, SiteError> {
    match url.host() {
        Some(Host::Domain(host)) => ownable_name(host).map(str::to_owned),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => Err(SiteError::IpLiteral),
        None => Err(SiteError::NotAHost),
    }
}

/// Whether many own names beneath this host (`co.uk`, `github.io`), or beneath each of a whole level of names beneath it
/// (`*.kawasaki.jp`), by the list of public suffixes that this build was made with.
pub fn is_public_suffix(host: &str) -> bool {
    psl::domain_str(host).is_none() || psl::domain_str(&format!("{UNLISTED}.{host}")).is_none()
}

/// The host without one leading `www.`, unless what is left is a public suffix: `www.co.uk` is a name like any other.
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
    fn a6_a_host_of_more_labels_than_anybody_needs_is_nobodys() {
        let host = |labels: usize| format!("{}test", "a.".repeat(labels - 1));
        assert_eq!(Site::from_domain(&host(MAX_LABELS)).unwrap().candidates().len(), MAX_LABELS - 1);
        assert_eq!(Site::from_domain(&host(MAX_LABELS + 1)).unwrap_err(), SiteError::BadLabel);
        let url = format!("https://{}/", host(127));
        let stored = ContentUrl::parse(&url).unwrap();
        assert_eq!((stored.stored, stored.site), (url, None), "an event of it is kept, as nobody's");
    }

    #[test]
    fn a_bare_domain_is_parsed_like_a_host() {
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
    fn a_host_with_www_is_the_host_without_it_unless_that_is_a_public_suffix() {
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
    fn where_to_connect_to_keeps_its_www() {
        let name = |url: &str| host_name(&Url::parse(url).unwrap());
        assert_eq!(name("https://www.Example.com./hook").as_deref(), Ok("www.example.com"));
        assert_eq!(name("https://127.0.0.1/"), Err(SiteError::IpLiteral));
    }

    #[test]
    fn candidates_are_the_site_and_its_parents_longest_first() {
        let site = Site::from_domain("a.b.example.com").unwrap();
        let domains: Vec<String> = site.candidates().iter().map(Site::domain).collect();
        assert_eq!(domains, ["a.b.example.com", "b.example.com", "example.com"]);
    }

    proptest! {
        #[test]
        fn e6_within_is_decided_on_label_boundaries(host in "([a-c]{1,2}\\.){1,4}test", owner in "([a-c]{1,2}\\.){1,2}test") {
            let (site, owned) = (Site::from_domain(&host).unwrap(), Site::from_domain(&owner).unwrap());
            let expected = host == owner || host.ends_with(&format!(".{owner}"));
            prop_assert_eq!(site.is_within(&owned), expected);
            prop_assert_eq!(site.candidates().contains(&owned), expected);
            prop_assert_eq!(site.domain(), host);
        }

        #[test]
        fn a_site_is_shown_as_a_domain_that_leads_back_to_it(
            host in "(www\\.){0,3}([a-b]\\.){0,2}(www\\.)?(test|com|co\\.uk|github\\.io|kawasaki\\.jp)"
        ) {
            if let Ok(site) = Site::from_domain(&host) {
                prop_assert_eq!(Site::from_domain(&site.domain()), Ok(site));
            }
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,60}") {
            let _ = Site::from_domain(&text);
            let _ = ContentUrl::parse(&text);
            let _ = ContentUrl::parse(&format!("https://{text}"));
        }
    }
}
