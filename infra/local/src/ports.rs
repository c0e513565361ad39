//! Chooses ports. A port is a number that nothing answers on now; whoever takes it must still be ready to find it gone.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Result, bail};

/// Free ports are taken from here: below the range from which systems number outgoing connections, so that a server
/// that comes back on its port does not find it lent to somebody's connection.
const RANGE: std::ops::Range<u16> = 20_000..32_000;
/// How many numbers are tried before giving up.
const ATTEMPTS: usize = 500;

/// The ports that this process has drawn. Whoever was given one may not listen on it yet, or may be restarting.
static DRAWN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Hands out ports, none of them twice.
#[derive(Debug, Default)]
pub struct Ports {
    taken: HashSet<u16>,
}

impl Ports {
    /// The first of `preferred` that is free, else any free one that nobody in this process was given.
    pub fn choose(&mut self, preferred: &[u16]) -> Result<u16> {
        let random = || RANGE.start + u16::try_from(RandomState::new().build_hasher().finish() % 12_000).unwrap_or(0);
        let drawn = std::iter::repeat_with(random).take(ATTEMPTS).filter(|port| is_first_draw(*port));
        for port in preferred.iter().copied().chain(drawn) {
            if port != 0 && !self.taken.contains(&port) && is_free(port) {
                self.taken.insert(port);
                return Ok(port);
            }
        }
        bail!("no free port between {} and {}", RANGE.start, RANGE.end)
    }

    /// Marks a port as spoken for without asking whether it is free.
    pub fn reserve(&mut self, port: u16) {
        self.taken.insert(port);
    }
}

fn is_first_draw(port: u16) -> bool {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner).insert(port)
}

/// Whether a server on this machine could listen there now, on the loopback address and on all of them.
#[must_use]
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}
