//! A domain or URL in an event, a query string or a domain registration.
//!
//! - Canonicalizing a canonical form does not change it.
//! - The site of a URL is the site of its host, and a site is within itself and each of its parents.
//! - Determining the page of a page returns the same page.
//! - A stored URL has no user name, fragment or click token.

use schemas::site::{ContentUrl, MAX_URL_BYTES, Site};

/// Checks the properties. Returns whether the text is a domain or a URL.
pub fn run(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let is_domain = check_domain(text);
    let is_url = check_url(text);
    check_url(&format!("https://{text}"));
    check_url(&format!("https://www.example.com/{text}"));
    is_domain || is_url
}

fn check_domain(text: &str) -> bool {
    let Ok(site) = Site::from_domain(text) else { return false };
    assert_eq!(Site::from_domain(&site.domain()).as_ref(), Ok(&site), "a domain is its own canonical form");
    assert_eq!(Site::from_stored(site.as_str()), site);
    let candidates = site.candidates();
    assert_eq!(candidates.first(), Some(&site));
    assert!(candidates.iter().all(|parent| site.is_within(parent)), "a site is within its parents");
    assert!(candidates.iter().skip(1).all(|parent| !parent.is_within(&site)), "a parent is within its child");
    let url = ContentUrl::parse(&format!("https://{}/", site.domain())).expect("a domain is a host");
    assert_eq!(url.site, Some(site), "a domain and a URL of it are one site");
    true
}

/// Checks the properties of a URL. Returns whether the text is one.
pub(crate) fn check_url(text: &str) -> bool {
    let Ok(url) = ContentUrl::parse(text) else { return false };
    assert!(url.stored.len() <= MAX_URL_BYTES);
    assert!(!url.stored.contains('#'), "a fragment is stored: {}", url.stored);
    let query = url.stored.split_once('?').map_or("", |(_, query)| query);
    assert!(!query.split('&').any(|pair| pair == "ctx" || pair.starts_with("ctx=")), "a click token is stored: {}", url.stored);
    let again = ContentUrl::parse(&url.stored).expect("a stored URL is a content URL");
    assert_eq!(again, url, "a stored URL is its own canonical form");
    // Percent-encoding can make the page too long for a URL.
    if let Ok(page) = ContentUrl::parse(&format!("https://{}", url.keyed)) {
        assert_eq!((page.keyed, page.site), (url.keyed.clone(), url.site.clone()), "the page of a page is the page itself");
    }
    let authority = url.stored.split('/').nth(2).unwrap_or_default();
    assert!(!authority.contains('@'), "a user name is stored: {}", url.stored);
    if let Some(site) = &url.site {
        let host = authority.split(':').next().unwrap_or_default();
        assert_eq!(Site::from_domain(host).as_ref(), Ok(site), "the site is the site of the host");
    }
    true
}
