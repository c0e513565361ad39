//! Client addresses: the connection's peer, or the address that trusted proxies report in `X-Forwarded-For`.

use axum::http::{Extensions, HeaderMap};
use clap::Args;
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The address of the connection's peer. A request extension set by the server.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

const DEFAULT_CONNECTIONS_PER_ADDRESS: usize = 1_000;
const DEFAULT_REFUSED_RATE: u32 = 600;

/// How clients are identified, and their limits before authentication.
#[derive(Args, Clone, Debug)]
pub struct ClientSettings {
    /// Reverse proxies whose X-Forwarded-For is trusted, such as `10.0.0.0/8,192.0.2.7/32`; `none`: clients connect directly [default: no
    /// proxy is trusted; production requires a value]
    #[arg(
        long,
        env = "TELEMETRY_TRUSTED_PROXIES",
        default_value = "",
        value_name = "NETWORK[,NETWORK…]",
        hide_default_value = true
    )]
    pub trusted_proxies: TrustedProxies,
    /// Maximum connections per client address, except trusted proxies; 0: unlimited
    #[arg(long, env = "TELEMETRY_CONNECTIONS_PER_ADDRESS", default_value_t = DEFAULT_CONNECTIONS_PER_ADDRESS)]
    pub connections_per_address: usize,
    /// Unknown or rejected credentials per minute from one client address; 0: unlimited
    #[arg(long, env = "TELEMETRY_REFUSED_RATE", default_value_t = DEFAULT_REFUSED_RATE)]
    pub refused_rate: u32,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            trusted_proxies: TrustedProxies::default(),
            connections_per_address: DEFAULT_CONNECTIONS_PER_ADDRESS,
            refused_rate: DEFAULT_REFUSED_RATE,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrustedProxies {
    #[default]
    Unset,
    /// Clients connect directly; written as `none`.
    NoProxies,
    Networks(Vec<IpNet>),
}

impl FromStr for TrustedProxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self::Unset),
            "none" => Ok(Self::NoProxies),
            networks => networks.split(',').map(network).collect::<Result<_, _>>().map(Self::Networks),
        }
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(alone).ok_or_else(|| format!("`{text}` is not a network; use a form such as 10.0.0.0/8, or none"))
}

/// Unit of per-client limits: an IPv4 address or an IPv6 /64 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 => v4,
        })
    }
}

impl ClientSettings {
    pub fn trusts(&self, address: IpAddr) -> bool {
        let TrustedProxies::Networks(networks) = &self.trusted_proxies else { return false };
        networks.iter().any(|network| network.contains(&address.to_canonical()))
    }

    /// Returns the client's address. Each trusted proxy appends the address it saw, so the list is read from the end to the first untrusted
    /// address. Without a peer (a router without a server), all requests share one address.
    pub fn client_address(&self, extensions: &Extensions, headers: &HeaderMap) -> ClientAddress {
        let mut client = extensions.get::<Peer>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0.to_canonical());
        let said: Vec<&str> =
            headers.get_all("x-forwarded-for").iter().flat_map(|value| value.to_str().unwrap_or("?").split(',')).collect();
        for hop in said.iter().rev() {
            let Some(before) = hop.trim().parse::<IpAddr>().ok().filter(|_| self.trusts(client)) else { break };
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
        let trusted_proxies = trusted.parse().unwrap();
        ClientSettings { trusted_proxies, ..ClientSettings::default() }.client_address(&extensions, &headers)
    }

    fn address(text: &str) -> ClientAddress {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn x30_trusts_forwarded_for_only_from_trusted_proxies() {
        for (peer, said, trusted, expected) in [
            ("192.0.2.1", &[][..], "", "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.9"], "", "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.9"], "10.0.0.0/8", "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.9"], "10.0.0.0/8", "198.51.100.9"),
            ("10.0.0.1", &["203.0.113.5, 198.51.100.9"], "10.0.0.0/8", "198.51.100.9"),
            ("10.0.0.1", &["203.0.113.5", "198.51.100.9, 10.0.0.2"], "10.0.0.0/8", "198.51.100.9"),
            ("10.0.0.1", &["198.51.100.9, nonsense"], "10.0.0.0/8", "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.9"], "192.0.2.7,10.0.0.1", "198.51.100.9"),
            ("10.0.0.1", &["198.51.100.9"], "none", "10.0.0.1"),
            ("::ffff:10.0.0.1", &["198.51.100.9"], "10.0.0.0/8", "198.51.100.9"),
        ] {
            assert_eq!(client(peer, said, trusted), address(expected), "{peer} {said:?} {trusted}");
        }
    }

    #[test]
    fn a15_distinguishes_none_from_unset() {
        assert_eq!("".parse(), Ok(TrustedProxies::Unset));
        assert_eq!("none".parse(), Ok(TrustedProxies::NoProxies));
        assert!("10.0.0.0/8,proxy.test".parse::<TrustedProxies>().unwrap_err().contains("`proxy.test`"));
    }

    #[test]
    fn treats_an_ipv6_64_network_as_one_client() {
        assert_eq!(address("2001:db8:1:2::1"), address("2001:db8:1:2:ffff::9"));
        assert_ne!(address("2001:db8:1:2::1"), address("2001:db8:1:3::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
