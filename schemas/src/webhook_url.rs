//! Checks webhook URLs: HTTPS, a public host name and port 443, or a receiver that the operator allows.
//!
//! Names are not resolved here. Every attempt checks the resolved address, because a name accepted here may still resolve to a private
//! network (docs/api/webhooks.md#webhook-url).

use crate::site::host_name;
use std::{fmt, str::FromStr};
use url::{Host, Url};

/// Maximum length of a URL, in bytes (docs/api/http.md#size-limits).
pub const MAX_RECEIVER_URL_BYTES: usize = 2_048;
/// Stands for every public host in [`AllowedReceivers`]. It is not a valid host name.
const ANY_HOST: &str = "*";
/// Top-level names that exist only in private networks.
const RESERVED_SUFFIXES: [&str; 13] = [
    "arpa",
    "corp",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "onion",
    "private",
    "workgroup",
];

/// Receivers (`host:port`) that are allowed although they aren't public. Empty in production. `*:port` allows public receivers on a port
/// other than 443.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedReceivers(Vec<(String, u16)>);

impl AllowedReceivers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the list contains only ports, so that all receivers are public servers.
    pub fn allows_only_ports(&self) -> bool {
        self.0.iter().all(|(host, _)| host == ANY_HOST)
    }

    pub fn allows(&self, url: &Url) -> bool {
        let receiver = url.host_str().filter(|host| *host != ANY_HOST).zip(url.port_or_known_default());
        receiver.is_some_and(|(host, port)| self.0.iter().any(|allowed| (allowed.0.as_str(), allowed.1) == (host, port)))
    }

    fn allows_port(&self, port: u16) -> bool {
        self.0.iter().any(|allowed| (allowed.0.as_str(), allowed.1) == (ANY_HOST, port))
    }
}

impl FromStr for AllowedReceivers {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let receiver = |entry: &str| {
            let (host, port) = entry.rsplit_once(':')?;
            Some((Host::parse(host).ok()?.to_string(), port.parse().ok()?))
        };
        entries
            .map(|entry| receiver(entry).ok_or_else(|| format!("{entry:?} must be host:port, such as localhost:9443")))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for AllowedReceivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self.0.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        f.write_str(&entries.join(","))
    }
}

/// Returns the canonical form of a webhook URL, or the rule that it breaks.
pub fn parse_webhook_url(text: &str, allowed: &AllowedReceivers) -> Result<Url, &'static str> {
    if text.len() > MAX_RECEIVER_URL_BYTES {
        return Err("url must have at most 2048 bytes");
    }
    // The URL standard drops tabs and line breaks and converts backslashes, so the displayed URL could differ from the requested one.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("url must not contain spaces, backslashes or control characters");
    }
    let url = Url::parse(text).map_err(|_| "url must be an absolute URL")?;
    if url.scheme() != "https" {
        return Err("url must start with https://");
    }
    if !url.username().is_empty() || url.password().is_some() || text_has_userinfo(text) {
        return Err("url must not have a user name or password");
    }
    if url.fragment().is_some() {
        return Err("url must not have a fragment");
    }
    if allowed.allows(&url) {
        return Ok(url);
    }
    if matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_))) {
        return Err("url must have a host name, not an IP address");
    }
    let host = host_name(&url).map_err(|_| "url must have the host name of a public server")?;
    let top = host.rsplit('.').next().unwrap_or_default();
    if RESERVED_SUFFIXES.contains(&top) {
        return Err("url must not have a host name that is reserved for private networks");
    }
    if url.port().is_some_and(|port| !allowed.allows_port(port)) {
        return Err("url must use port 443");
    }
    with_host(url, &host).ok_or("url must have the host name of a public server")
}

/// Detects the empty user name of `https://@host/`, which the parsed URL no longer contains.
fn text_has_userinfo(text: &str) -> bool {
    let authority = text.split_once("//").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    authority.contains('@')
}

/// Sets the host without a trailing dot, because certificates don't contain one.
fn with_host(mut url: Url, host: &str) -> Option<Url> {
    url.set_host(Some(host)).ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, &'static str> {
        parse_webhook_url(text, &AllowedReceivers::default()).map(String::from)
    }

    #[test]
    fn public_urls_are_canonicalized() {
        for (text, expected) in [
            ("https://hooks.example.com/in?x=1", "https://hooks.example.com/in?x=1"),
            ("https://hooks.example.com:443/in", "https://hooks.example.com/in"),
            ("HTTPS://Hooks.Example.COM", "https://hooks.example.com/"),
            ("https://hooks.example.com./in", "https://hooks.example.com/in"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("https://10.0.0.1.nip.io/", "https://10.0.0.1.nip.io/"),
            ("https://a.test/%0d%0aX:1", "https://a.test/%0d%0aX:1"),
        ] {
            assert_eq!(check(text).as_deref(), Ok(expected), "{text}");
        }
        let longest = format!("https://a.test/{}", "x".repeat(MAX_RECEIVER_URL_BYTES - 15));
        assert!(check(&longest).is_ok() && check(&format!("{longest}x")).is_err());
    }

    #[test]
    fn w1_rejects_ip_addresses_in_every_spelling() {
        let quads =
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8", "0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255"];
        let mut corpus: Vec<String> = quads
            .iter()
            .flat_map(|quad| {
                let bytes: [u8; 4] = quad.parse::<std::net::Ipv4Addr>().unwrap().octets();
                let [a, b, c, d] = bytes;
                let number = u32::from_be_bytes(bytes);
                let full_width: String =
                    quad.chars().map(|c| c.to_digit(10).map_or('。', |n| char::from_u32(0xff10 + n).unwrap())).collect();
                [
                    (*quad).to_owned(),
                    format!("{quad}."),
                    format!("{number}"),
                    format!("{number:#x}"),
                    format!("0{number:o}"),
                    format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
                    format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
                    format!("{a}.{}", u32::from_be_bytes([0, b, c, d])),
                    format!("{a}.{b}.{}", u32::from_be_bytes([0, 0, c, d])),
                    format!("[::ffff:{quad}]"),
                    format!("[::{quad}]"),
                    format!("[64:ff9b::{quad}]"),
                    full_width,
                    quad.replace('.', "%2e"),
                ]
            })
            .collect();
        corpus.extend(
            ["[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[2001:db8::1]", "127.1", "0", "0x7f.1", "0177.0.0.1", "①②⑦.⓪.⓪.①"]
                .map(str::to_owned),
        );
        assert!(corpus.len() >= 100);
        for host in corpus {
            for url in [format!("https://{host}/"), format!("https://{host}:443/in")] {
                assert!(check(&url).is_err(), "{url}");
            }
        }
    }

    #[test]
    fn w2_rejects_internal_host_names() {
        for host in [
            "localhost",
            "localhost.",
            "LOCALHOST",
            "a.localhost",
            "%6cocalhost",
            "ｌocalhost",
            "metadata",
            "metadata.google.internal",
            "kafka",
            "postgres.internal",
            "printer.local",
            "router.lan",
            "nas.home.arpa",
            "1.0.0.127.in-addr.arpa",
            "wiki.corp",
            "x.intranet",
            "host.localdomain",
            "hidden.onion",
            "a.invalid",
            "com",
            "com.",
            "a..test",
            ".a.test",
            "a.test..",
            "*.a.test",
            "_dmarc.a.test",
            "-",
            "",
        ] {
            assert!(check(&format!("https://{host}/")).is_err(), "{host}");
        }
        assert!(check("https://localhost.example.com/").is_ok(), "only the top-level name is checked");
        assert!(check("https://internal.example.com/").is_ok());
    }

    #[test]
    fn w3_accepts_only_plain_https_on_port_443() {
        for url in [
            "",
            "hooks.a.test",
            "//hooks.a.test/",
            "http://hooks.a.test/",
            "ftp://hooks.a.test/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https:///x",
            "https://user@hooks.a.test/",
            "https://user:secret@hooks.a.test/",
            "https://@hooks.a.test/",
            "https://:@hooks.a.test/",
            "https://hooks.a.test/#x",
            "https://hooks.a.test/#",
            "https://hooks.a.test:22/",
            "https://hooks.a.test:6379/",
            "https://hooks.a.test:8443/",
            "https://hooks.a.test:80/",
            "https://hooks.a.test:0/",
            "https://hooks.a.test:99999/",
            " https://hooks.a.test/",
            "https://hooks.a.test/ x",
            "https://hooks.a.test/\r\nHost: b.test",
            "https://hooks.a\t.test/",
            "https:\\\\hooks.a.test\\",
            "https://hooks.a.test\\@b.test/",
            "https://hooks.a.test/\u{0}",
        ] {
            assert!(check(url).is_err(), "{url:?}");
        }
        assert!(check(&format!("https://hooks.a.test/{}", "x".repeat(8_192))).is_err());
    }

    #[test]
    fn allowed_receivers_may_be_local_but_need_tls() {
        let allowed: AllowedReceivers = "localhost:9443, 127.0.0.1:9444,".parse().unwrap();
        assert_eq!(allowed.to_string(), "localhost:9443,127.0.0.1:9444");
        for good in ["https://localhost:9443/in", "https://LOCALHOST:9443/", "https://127.0.0.1:9444/"] {
            assert!(parse_webhook_url(good, &allowed).is_ok(), "{good}");
        }
        for bad in [
            "https://localhost/",
            "https://localhost:9444/",
            "https://a.localhost:9443/",
            "https://127.0.0.1:9443/",
            "http://localhost:9443/",
            "https://u@localhost:9443/",
            "https://localhost:9443/#x",
            "https://other.internal/",
        ] {
            assert!(parse_webhook_url(bad, &allowed).is_err(), "{bad}");
        }
        let ports: AllowedReceivers = "*:8443".parse().unwrap();
        assert!(
            parse_webhook_url("https://hooks.a.test:8443/", &ports).is_ok()
                && parse_webhook_url("https://hooks.a.test/", &ports).is_ok()
        );
        for bad in [
            "https://hooks.a.test:9443/",
            "https://localhost:8443/",
            "https://10.0.0.1:8443/",
            "https://*:8443/",
            "https://a_b.test:8443/",
        ] {
            assert!(parse_webhook_url(bad, &ports).is_err(), "{bad}");
        }
        assert!("".parse::<AllowedReceivers>().unwrap().is_empty());
        for bad in ["localhost", ":9443", "localhost:x", "localhost:70000", "https://localhost:9443"] {
            assert!(bad.parse::<AllowedReceivers>().is_err(), "{bad}");
        }
    }
}
