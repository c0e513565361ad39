//! Who may sign in to a server of one test, where that is not everybody.

use std::path::PathBuf;

/// Accounts as an operator of ClickHouse adds them, by a file in `users.d`.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    pub(crate) file: PathBuf,
    /// What the file takes from the environment.
    pub(crate) environment: Vec<(String, String)>,
}

/// A further listener of Kafka, with TLS and a user who signs in (SCRAM-SHA-512).
#[derive(Clone, Debug)]
pub struct Guard {
    /// PEM file of its private key and then its certificate, for 127.0.0.1.
    pub keystore: PathBuf,
    pub user: String,
    pub password: String,
    pub(crate) port: u16,
}

impl Guard {
    /// This user, on a port that is chosen when the server starts.
    #[must_use]
    pub fn new(keystore: PathBuf, user: &str, password: &str) -> Self {
        Self { keystore, user: user.to_owned(), password: password.to_owned(), port: 0 }
    }
}
