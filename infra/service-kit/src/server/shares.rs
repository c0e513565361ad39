//! How many connections one client address has.
//!
//! Must give every place back, and must not limit a trusted proxy: behind it stand many clients.

use crate::client_address::{ClientAddress, ClientSettings};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The connections of every address.
pub(super) struct Shares {
    clients: ClientSettings,
    open: Mutex<HashMap<ClientAddress, usize>>,
}

/// One connection's place; free again when dropped.
pub(super) struct ConnectionPermit {
    shares: Arc<Shares>,
    /// None of a trusted proxy.
    address: Option<ClientAddress>,
}

impl Shares {
    pub(super) fn new(clients: ClientSettings) -> Arc<Self> {
        Arc::new(Self { clients, open: Mutex::default() })
    }

    /// None when the address has all of its share.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPermit> {
        let limit = self.clients.connections_per_address;
        if limit == 0 || self.clients.trusts(peer) {
            return Some(ConnectionPermit { shares: Arc::clone(self), address: None });
        }
        let address = ClientAddress::from(peer);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.entry(address).or_default();
        if *own >= limit {
            return None;
        }
        *own += 1;
        Some(ConnectionPermit { shares: Arc::clone(self), address: Some(address) })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut open = self.shares.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&address) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(open.remove(&address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a3_an_address_has_its_share_exactly_gives_it_back_and_a_trusted_proxy_has_no_limit() {
        let settings = ClientSettings {
            connections_per_address: 2,
            trusted_proxies: "10.0.0.0/8".parse().unwrap(),
            ..ClientSettings::default()
        };
        let shares = Shares::new(settings);
        let enter = |address: &str| shares.enter(address.parse().unwrap());
        let (one, two) = (enter("192.0.2.1").unwrap(), enter("::ffff:192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none() && enter("192.0.2.2").is_some());
        drop(one);
        assert!(enter("192.0.2.1").is_some());
        let proxied: Vec<_> = (0..100).filter_map(|_| enter("10.1.2.3")).collect();
        assert_eq!(proxied.len(), 100);
        drop((two, proxied));
        assert!(shares.open.lock().unwrap().is_empty(), "who has left is not remembered");
    }
}
