//! The passwords of a server of the stack: that of its administrator is made when the server is first started and kept in the
//! stack's record, which only its owner can read; from it follows that of the owner of the tables, and from that one those of
//! the services. None leads back, so that a service knows its own alone.
//!
//! Must not be printed, and must make what `service_kit::roles` makes.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// 160 bits, so that nobody guesses it.
const BYTES: usize = 20;

/// Begins a password from which others follow. One that an earlier build has made does not begin so: all accounts share it.
const ROOT: &str = "each";
/// The account that owns the tables.
pub(crate) const OWNER: &str = "telemetry_owner";

/// Lower-case letters and digits only: it stands in URLs, XML and SQL as it is.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// A fresh one.
    pub fn mint() -> Result<Self> {
        let mut bytes = [0; BYTES];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).context("cannot read /dev/urandom")?;
        Ok(Self(format!("{ROOT}{}", HEXLOWER.encode(&bytes))))
    }

    /// Whether each account has one of its own.
    pub(crate) fn is_root(&self) -> bool {
        self.0.starts_with(ROOT)
    }

    /// That of the owner of the tables, of this administrator's.
    #[must_use]
    pub fn of_owner(&self) -> Self {
        if self.is_root() { Self(format!("{ROOT}{}", self.follow(OWNER))) } else { self.clone() }
    }

    /// That of a service, of this administrator's.
    #[must_use]
    pub fn of_service(&self, account: &str) -> Self {
        if self.is_root() { Self(self.of_owner().follow(account)) } else { self.clone() }
    }

    fn follow(&self, account: &str) -> String {
        HEXLOWER.encode(&Sha256::digest(format!("{} {account}", self.0)))
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// As ClickHouse keeps it.
    pub(crate) fn sha256(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(&self.0))
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

#[cfg(test)]
mod tests {
    use super::Password;

    #[test]
    fn each_is_another_and_none_is_shown() {
        let (one, other) = (Password::mint().unwrap(), Password::mint().unwrap());
        assert_ne!(one, other);
        assert!(one.reveal().len() == 44 && one.reveal().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        assert_eq!(format!("{one:?}"), "Password");
    }

    #[test]
    fn each_account_has_another_and_those_of_an_earlier_build_share_one() {
        let one = Password::mint().unwrap();
        let own = [one.clone(), one.of_owner(), one.of_service("telemetry_query"), one.of_service("telemetry_worker")];
        assert!((0..own.len()).all(|at| !own[..at].contains(&own[at])), "no two accounts share one");
        let shared = Password("0123456789abcdef".to_owned());
        assert!(shared.of_owner() == shared && shared.of_service("telemetry_query") == shared);
    }
}
