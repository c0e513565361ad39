//! Hosts that an organization can own, parsed from pasted text.

use schemas::site::{Site, is_public_suffix};
use schemas::webhook_url::{AllowedReceivers, parse_webhook_url};

pub(crate) const NOT_A_DOMAIN: &str = "domain must be a domain name such as example.com";

/// Returns the domain in pasted text: without `http://` or `https://`, path, query, port and surrounding spaces. Text with a user name,
/// such as an email address, stays unchanged and isn't a valid domain.
pub(crate) fn pasted(text: &str) -> &str {
    let text = text.trim();
    let scheme =
        text.split_once("://").filter(|(scheme, _)| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)));
    let rest = scheme.map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if authority.contains('@') {
        return text;
    }
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    authority.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(authority, |(host, _)| host)
}

/// Returns a pasted domain's canonical host, if an organization can own it: public, and not a shared suffix (`co.uk`, `github.io`).
pub(crate) fn parse_ownable(domain: &str) -> Result<Site, &'static str> {
    let site = Site::from_domain(pasted(domain)).map_err(|_| NOT_A_DOMAIN)?;
    let domain = site.domain();
    let is_public = parse_webhook_url(&format!("https://{domain}/"), &AllowedReceivers::default()).is_ok();
    if !is_public {
        return Err("domain is reserved for private networks");
    }
    if is_public_suffix(&domain) {
        return Err("domain is a public suffix such as co.uk. Enter a domain below it");
    }
    // The organization would also own hosts below the name with a single `www.`, which it hasn't verified.
    if domain.starts_with("www.www.") {
        return Err("domain starts with www. more than once. Enter it without www.");
    }
    Ok(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_shared_suffixes_and_private_hosts() {
        for (domain, canonical) in [
            ("example.com", "example.com"),
            ("WWW.Example.COM.", "example.com"),
            ("www.example.co.uk", "example.co.uk"),
            ("www.me.github.io", "me.github.io"),
            ("www.co.uk", "www.co.uk"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("example.co.uk", "example.co.uk"),
            ("me.github.io", "me.github.io"),
            ("deep.me.github.io", "deep.me.github.io"),
            ("a.test", "a.test"),
            ("https://example.com", "example.com"),
            ("HTTP://www.Example.com:8080/shop/?a=b://c@d#e", "example.com"),
            (" example.com/ ", "example.com"),
            ("\u{a0}example.com.\r\n", "example.com"),
            ("example.com:443", "example.com"),
            ("example.com:", "example.com"),
            ("example.com?x=u@evil.test", "example.com"),
            ("https://bücher.example./x", "xn--bcher-kva.example"),
        ] {
            assert_eq!(parse_ownable(domain).map(|site| site.domain()).as_deref(), Ok(canonical), "{domain}");
        }
        for domain in [
            "",
            "com",
            "co.uk",
            "CO.UK.",
            "github.io",
            "公司.cn",
            "xn--55qx5d.cn",
            "s3.amazonaws.com",
            "blogspot.com",
            "kawasaki.jp",
            "x.kawasaki.jp",
            "www.kawasaki.jp",
            "www.www.example.com",
            "compute.amazonaws.com",
            "localhost",
            "a.localhost",
            "printer.local",
            "db.internal",
            "x.home.arpa",
            "127.0.0.1",
            "[::1]",
            "2130706433",
            "*.example.com",
            "_x.example.com",
            "example..com",
            ".example.com",
            "-",
            "a b.com",
            "u@example.com",
            "https://example.com@evil.test/",
            "https://u:443@example.com",
            "https://example.com:80@evil.test",
            "https:///example.com",
            "https:example.com",
            "ftp://example.com",
            "javascript://example.com",
            "https://https://example.com",
            "example.com:x",
            "example.com\\@evil.test",
            "example.com, other.test",
            "exa\u{0}mple.com",
            "exam\r\nple.com",
        ] {
            assert!(parse_ownable(domain).is_err(), "{domain:?}");
        }
        assert!(parse_ownable(&format!("{}.com", "a".repeat(64))).is_err());
    }
}
