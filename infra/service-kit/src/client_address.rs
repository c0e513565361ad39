//! From which address a request comes: the peer of the connection, or what proxies that are trusted say of theirs.
//!
//! Must not believe `X-Forwarded-For` of anybody else: a caller writes there what it likes.

use axum::http::{Extensions, HeaderMap};
use clap::Args;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv6Addr};

/// The address at the other end of the connection; a request extension that the server sets.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Who may say for whom it asks.
#[derive(Args, Clone, Debug, Default)]
pub struct ProxySettings {
    /// Addresses or networks of reverse proxies whose X-Forwarded-For is believed, as in `10.0.0.0/8,192.0.2.7/32`
    #[arg(long, env = "TELEMETRY_TRUSTED_PROXIES", value_delimiter = ',', value_name = "NETWORK[,NETWORK…]")]
    pub trusted_proxies: Vec<IpNet>,
}

/// What is limited together: an IPv4 address, or the network that one IPv6 customer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 => v4,
        })
    }
}

impl ProxySettings {
    /// Who asks. Each trusted proxy appended the address it saw, so the list is read from its end until somebody stands
    /// there who is not trusted. Without a peer, as in a router that no server runs, everybody is the same caller.
    pub fn client(&self, extensions: &Extensions, headers: &HeaderMap) -> ClientAddress {
        let mut client = extensions.get::<Peer>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0.to_canonical());
        let said: Vec<&str> =
            headers.get_all("x-forwarded-for").iter().flat_map(|value| value.to_str().unwrap_or("?").split(',')).collect();
        for hop in said.iter().rev() {
            let is_trusted = self.trusted_proxies.iter().any(|network| network.contains(&client));
            let Some(before) = hop.trim().parse::<IpAddr>().ok().filter(|_| is_trusted) else { break };
            client = before.to_canonical();
        }
        client.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn client(peer: &str, said: &[&'static str], trusted: &str) -> ClientAddress {
        let mut extensions = Extensions::new();
        extensions.insert(Peer(peer.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for value in said {
            headers.append("x-forwarded-for", HeaderValue::from_static(value));
        }
        let trusted_proxies = trusted.split_whitespace().map(|network| network.parse().unwrap()).collect();
        ProxySettings { trusted_proxies }.client(&extensions, &headers)
    }

    fn address(text: &str) -> ClientAddress {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn x30_only_a_trusted_proxy_is_believed_and_only_about_who_asked_it() {
        for (peer, said, trusted, expected) in [
            ("192.0.2.1", &[][..], "", "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.9"], "", "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.9"], "10.0.0.0/8", "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.9"], "10.0.0.0/8", "198.51.100.9"),
            ("10.0.0.1", &["203.0.113.5, 198.51.100.9"], "10.0.0.0/8", "198.51.100.9"),
            ("10.0.0.1", &["203.0.113.5", "198.51.100.9, 10.0.0.2"], "10.0.0.0/8", "198.51.100.9"),
            ("10.0.0.1", &["198.51.100.9, nonsense"], "10.0.0.0/8", "10.0.0.1"),
            ("::ffff:10.0.0.1", &["198.51.100.9"], "10.0.0.0/8", "198.51.100.9"),
        ] {
            assert_eq!(client(peer, said, trusted), address(expected), "{peer} {said:?} {trusted}");
        }
    }

    #[test]
    fn one_customers_ipv6_addresses_are_one_client() {
        assert_eq!(address("2001:db8:1:2::1"), address("2001:db8:1:2:ffff::9"));
        assert_ne!(address("2001:db8:1:2::1"), address("2001:db8:1:3::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
