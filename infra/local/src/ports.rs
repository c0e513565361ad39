//! Chooses ports that are currently free. Another process can take them before they are used.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Result, bail};

/// Range of random ports. It is below the ephemeral range, so that outgoing connections don't occupy a restarted server's port.
const RANGE: std::ops::Range<u16> = 20_000..32_000;
/// Maximum number of random ports to try.
const ATTEMPTS: usize = 500;

/// Ports already returned by this process. Their users may not listen yet, or may be restarting.
static USED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Returns each port only once.
#[derive(Debug, Default)]
pub struct Ports {
    returned: HashSet<u16>,
}

impl Ports {
    /// Returns the first free port of `preferred`, otherwise a random free port that this process has not returned yet.
    pub fn choose(&mut self, preferred: &[u16]) -> Result<u16> {
        let random = || RANGE.start + u16::try_from(RandomState::new().build_hasher().finish() % 12_000).unwrap_or(0);
        let drawn = std::iter::repeat_with(random).take(ATTEMPTS).filter(|port| is_first_draw(*port));
        for port in preferred.iter().copied().chain(drawn) {
            if port != 0 && !self.returned.contains(&port) && is_free(port) {
                self.returned.insert(port);
                return Ok(port);
            }
        }
        bail!("no free port between {} and {}", RANGE.start, RANGE.end)
    }

    /// Reserves a port without checking that it is free.
    pub fn reserve(&mut self, port: u16) {
        self.returned.insert(port);
    }
}

fn is_first_draw(port: u16) -> bool {
    USED.lock().unwrap_or_else(PoisonError::into_inner).insert(port)
}

/// Returns whether a server could listen on the port, on the loopback address and on all addresses.
#[must_use]
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}
