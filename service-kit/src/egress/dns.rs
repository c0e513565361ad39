//! DNS lookups through the system's servers or the configured one.
//!
//! Lookups are not cached, so connections use exactly the checked addresses.

use super::EgressError;
use anyhow::{Context, anyhow};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use std::net::SocketAddr;
use std::time::Duration;
use url::{Host, Url};

/// Timeout of one DNS query before a retry.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct DnsResolver(TokioResolver);

impl DnsResolver {
    /// Uses `server`, or the system's DNS servers.
    pub(super) fn new(server: Option<SocketAddr>) -> anyhow::Result<Self> {
        let mut builder = match server {
            Some(server) => TokioResolver::builder_with_config(only(server), TokioRuntimeProvider::default()),
            None => of_system(TokioResolver::builder_tokio())?,
        };
        *builder.options_mut() = options(builder.options_mut().clone());
        Ok(Self(builder.build().context("failed to create the DNS resolver")?))
    }

    /// Returns every address of the URL's host, with its port. A host that is already an address is returned as is.
    pub(super) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, EgressError> {
        let port = url.port_or_known_default().ok_or(EgressError::RefusedUrl)?;
        let name = match url.host() {
            Some(Host::Domain(name)) => name,
            Some(Host::Ipv4(address)) => return Ok(vec![(address, port).into()]),
            Some(Host::Ipv6(address)) => return Ok(vec![(address, port).into()]),
            None => return Err(EgressError::RefusedUrl),
        };
        let found = self.0.lookup_ip(absolute(name)).await.map_err(|_| EgressError::NoAddress)?;
        let found: Vec<SocketAddr> = found.iter().map(|address| (address, port).into()).collect();
        if found.is_empty() { Err(EgressError::NoAddress) } else { Ok(found) }
    }

    pub(super) async fn txt_records(&self, name: &str) -> Result<Vec<String>, EgressError> {
        let found = self.0.txt_lookup(absolute(name)).await.map_err(|_| EgressError::NoAddress)?;
        let texts = found.answers().iter().filter_map(|record| match &record.data {
            // A text record consists of strings with at most 255 bytes.
            RData::TXT(text) => Some(String::from_utf8_lossy(&text.txt_data.concat()).into_owned()),
            _ => None,
        });
        Ok(texts.collect())
    }
}

/// Returns the system's configuration, or an error that names the setting to use instead.
fn of_system<B>(found: Result<B, NetError>) -> anyhow::Result<B> {
    found.map_err(|error| {
        anyhow!(
            "TELEMETRY_DNS_SERVER is not set, and the DNS servers of this system can't be read ({error}): set it to the \
             HOST:PORT of a DNS server, or fix /etc/resolv.conf"
        )
    })
}

/// Appends the dot that disables search domains.
fn absolute(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}

fn only(server: SocketAddr) -> ResolverConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let connections = connections.map(|mut connection| {
        connection.port = server.port();
        connection
    });
    ResolverConfig::from_parts(None, Vec::new(), vec![NameServerConfig::new(server.ip(), true, connections.into())])
}

fn options(mut options: ResolverOpts) -> ResolverOpts {
    // Look up both families, so that all addresses are checked.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.cache_size = 0;
    options.timeout = QUESTION_TIMEOUT;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_dns_servers_error_names_the_setting() {
        let refused = of_system::<()>(Err(NetError::from("no nameservers found in config"))).unwrap_err().to_string();
        assert!(refused.starts_with("TELEMETRY_DNS_SERVER is not set, "), "{refused}");
        assert!(refused.contains("(no nameservers found in config): set it to the HOST:PORT of a DNS server"), "{refused}");
        assert!(of_system(Ok(())).is_ok());
    }
}
