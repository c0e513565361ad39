//! Rejects request heads that parse but are ambiguous, because another server on the path could interpret them differently.

use axum::http::{Request, Version, header};
use schemas::problem::Code;
use std::net::Ipv4Addr;
use url::Host;

const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

#[derive(Clone, Copy, Debug)]
pub(crate) struct MalformedHead {
    pub(super) code: Code,
    pub(super) detail: &'static str,
}

impl MalformedHead {
    /// Replacement for an invalid or ambiguous head. Its host is invalid, so it never matches a real one.
    pub(crate) const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: *\r\n\r\n";
    const NO_HOST: &[u8] = b"*";
    /// Replacement for a head above the size limit.
    pub(crate) const LARGE_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: **\r\n\r\n";
    pub(crate) const LARGE_HEAD_HOST: &[u8] = b"**";

    /// Returns what is wrong with a head. HTTP/1.1 requires one `Host`, and no version permits two or an invalid one.
    pub(crate) fn find<B>(request: &Request<B>) -> Option<Self> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) if request.version() < Version::HTTP_11 => None,
            (None, _) => Some(Self::with_detail("The request has no Host header.")),
            (Some(_), Some(_)) => Some(Self::with_detail("The request has more than one Host header.")),
            (Some(host), None) if host == Self::NO_HOST => Some(Self::with_detail(
                "The request head is not valid HTTP/1.1. End each line with CRLF. For a body, send either Content-Length or a chunked Transfer-Encoding.",
            )),
            (Some(host), None) if host == Self::LARGE_HEAD_HOST => Some(Self {
                code: Code::HeadTooLarge,
                detail: "The request head is larger than 65,536 bytes or has more than 100 header fields.",
            }),
            (Some(host), None) => {
                (!is_host(host.as_bytes())).then_some(Self::with_detail("The Host header is not a valid host."))
            }
        }
    }

    fn with_detail(detail: &'static str) -> Self {
        Self { code: Code::InvalidParameter, detail }
    }
}

/// Returns whether the value is a name or an address, optionally with a port.
fn is_host(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let after_address = value.find(']').map_or(0, |end| end + 1);
    let (name, port) = match value[after_address..].rfind(':') {
        Some(colon) => (&value[..after_address + colon], Some(&value[after_address + colon + 1..])),
        None => (value, None),
    };
    // RFC 9110 permits an empty port.
    let is_port = |port: &str| port.is_empty() || (port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok());
    port.is_none_or(is_port) && (name.starts_with('[') || is_name(name)) && Host::parse(name).is_ok()
}

/// Returns whether the name consists of plain labels (letters, digits, `-`, `_`) or is an IPv4 address in four decimal numbers, with an
/// optional trailing dot. Servers disagree about escaped or quoted names and about other notations of addresses.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(is_plain);
    let labels = name.strip_suffix('.').unwrap_or(name);
    let ends_in_number = labels.rsplit('.').next().is_some_and(is_number);
    labels.len() <= MAX_NAME_BYTES && labels.split('.').all(is_label) && (!ends_in_number || name.parse::<Ipv4Addr>().is_ok())
}

/// Returns whether the last label is numeric, which makes some parsers read the name as an address.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x").or_else(|| label.strip_prefix("0X")) {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_requires_exactly_one_valid_host() {
        let is_malformed = |version, hosts: &[&str]| {
            let request = Request::builder().version(version);
            let request = hosts.iter().fold(request, |request, host| request.header(header::HOST, *host));
            MalformedHead::find(&request.body(()).unwrap()).is_some()
        };
        for good in
            ["a.test", "a.test:8080", "a.test.", "a.test:", "my_service:80", "127.0.0.1", "[::1]", "[::1]:80", "localhost"]
        {
            assert!(!is_malformed(Version::HTTP_11, &[good]), "{good}");
        }
        for bad in [&[][..], &["a", "a"], &["a", "b"]] {
            assert!(is_malformed(Version::HTTP_11, bad), "{bad:?}");
        }
        for bad in ["a%2etest", "%61", "ａ.test", "a。test", "\"a\"", "'a'", "a~b", "a;b", "a&b", "a\\b", "a(b)", "é.test"] {
            assert!(is_malformed(Version::HTTP_11, &[bad]), "{bad}");
        }
        for bad in
            ["", "a b", "a/b", "u@a", "a,b", "a,b/", "*", "a..b", "a:+80", "a:-1", "a:8o", "a:65536", ":80", "[zz]", "[::1]x"]
        {
            assert!(is_malformed(Version::HTTP_11, &[bad]), "{bad}");
        }
        let (label, name) = ("a".repeat(63), format!("{}a", "a.".repeat(126)));
        for good in ["1.a", "0x7f.a", "a.0xg", "a1", "1-2", &label, &name, &format!("{name}."), &format!("{name}:80")] {
            assert!(!is_malformed(Version::HTTP_11, &[good]), "{good}");
        }
        for bad in
            [".", "..", ".a", ".a.", &format!("{label}a"), &format!("a.{label}a.test"), &format!("{name}a"), &"a".repeat(300)]
        {
            assert!(is_malformed(Version::HTTP_11, &[bad]), "{bad}");
        }
        for bad in
            ["127.1", "0x7f.1", "127.0.0.01", "127.0.0.1.", "2130706433", "0x7f000001", "a.1", "a.0x", "1.2.3.4.5", "1.2.3.256"]
        {
            assert!(is_malformed(Version::HTTP_11, &[bad]), "{bad}");
        }
        assert!(!is_malformed(Version::HTTP_10, &[]), "HTTP/1.0 doesn't require Host");
        assert!(is_malformed(Version::HTTP_10, &["a", "b"]));
    }
}
