//! A webhook URL, or an IP address to which a hostname resolves.
//!
//! - An accepted URL uses HTTPS on port 443, its host is a name with a dot, and it has no user name or fragment.
//! - An accepted URL is in canonical form.
//! - An IPv6 address that embeds an IPv4 address is public only if the IPv4 address is.

use schemas::webhook_url::{AllowedReceivers, MAX_RECEIVER_URL_BYTES, parse_webhook_url};
use service_kit::egress::public_address::is_public;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Host;

/// Checks the properties. Returns whether the text is an accepted URL or a public address.
pub fn run(input: &[u8]) -> bool {
    let number = input.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes));
    let six = input.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes));
    number.into_iter().for_each(check_embedding_addresses);
    six.into_iter().for_each(|address| check_v6(address, is_public(address.into())));
    let Ok(text) = std::str::from_utf8(input) else { return false };
    check_url(&format!("https://{text}/"));
    check_url(text) || check_address(text)
}

fn check_url(text: &str) -> bool {
    let none = AllowedReceivers::default();
    let Ok(url) = parse_webhook_url(text, &none) else { return false };
    assert_eq!(url.scheme(), "https");
    assert_eq!(url.port(), None, "the port is not 443: {url}");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none(), "{url}");
    let Some(Host::Domain(host)) = url.host() else { panic!("an IP address is accepted: {url}") };
    assert!(host.contains('.') && !host.ends_with('.') && host.parse::<IpAddr>().is_err(), "{host}");
    assert!(!["localhost", "local", "internal"].contains(&host.rsplit('.').next().unwrap_or_default()), "{host}");
    // Percent-encoding can make a URL longer than the limit.
    if url.as_str().len() <= MAX_RECEIVER_URL_BYTES {
        assert_eq!(parse_webhook_url(url.as_str(), &none).as_ref(), Ok(&url), "an accepted URL is its own canonical form");
    }
    true
}

fn check_address(text: &str) -> bool {
    let Ok(address) = text.parse::<IpAddr>() else { return false };
    let verdict = is_public(address);
    match address {
        IpAddr::V4(address) => check_embedding_addresses(address),
        IpAddr::V6(address) => check_v6(address, verdict),
    }
    verdict
}

fn check_embedding_addresses(carried: Ipv4Addr) {
    let verdict = is_public(carried.into());
    let number = u128::from(u32::from(carried));
    let carriers = [
        carried.to_ipv6_mapped(),
        carried.to_ipv6_compatible(),
        ((0x0064_ff9b << 96) | number).into(),
        ((0x2002 << 112) | (number << 80) | 1).into(),
        ((0x2001 << 112) | (!number & 0xffff_ffff)).into(),
    ];
    assert!(
        verdict || !carriers.iter().any(|carrier| is_public((*carrier).into())),
        "an IPv6 address that embeds {carried} is public"
    );
}

fn check_v6(address: Ipv6Addr, verdict: bool) {
    assert!(!verdict || (0x2000..0x4000).contains(&address.segments()[0]), "{address} is not allocated");
    let is_inside = address.is_loopback() || address.is_unspecified() || address.is_multicast();
    let is_local = address.is_unique_local() || address.is_unicast_link_local();
    assert!(!verdict || (!is_inside && !is_local), "{address}");
    if let Some(carried) = address.to_ipv4() {
        assert!(!verdict || is_public(carried.into()), "{address} embeds {carried}");
    }
}
