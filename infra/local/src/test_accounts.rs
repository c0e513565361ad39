//! Additional accounts for a single test's servers.

use std::path::PathBuf;

/// ClickHouse accounts, configured by a file in `users.d`, as operators configure them.
#[derive(Clone, Debug)]
pub(crate) struct ClickHouseUsers {
    pub(crate) file: PathBuf,
    /// Environment variables that the file uses.
    pub(crate) environment: Vec<(String, String)>,
}

/// An additional Kafka listener with TLS and a SCRAM-SHA-512 user.
#[derive(Clone, Debug)]
pub struct ScramListener {
    /// PEM file with the private key, then the certificate for 127.0.0.1.
    pub keystore: PathBuf,
    pub user: String,
    pub password: String,
    pub(crate) port: u16,
}

impl ScramListener {
    /// Creates a listener with this user. The port is chosen when the server starts.
    #[must_use]
    pub fn new(keystore: PathBuf, user: &str, password: &str) -> Self {
        Self { keystore, user: user.to_owned(), password: password.to_owned(), port: 0 }
    }
}
