//! Passwords of the stack's servers. The administrator's password is created at the first start and stored in the stack's record, which
//! only its owner can read. The table owner's password is derived from it, and the services' passwords from the owner's. The derivation is
//! one-way, so a service knows only its own password.
//!
//! Passwords must not be printed. The derivation must be the same as in `service_kit::roles`.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// 160 bits.
const BYTES: usize = 20;

/// Prefix of passwords from which others are derived. Passwords of earlier builds don't have it; with those, all accounts share
/// the password.
const ROOT: &str = "each";
/// Account that owns the tables.
pub(crate) const OWNER: &str = "telemetry_owner";

/// Only lower-case letters and digits, so that URLs, XML and SQL can contain it unescaped.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// Creates a random password.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; BYTES];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).context("cannot read /dev/urandom")?;
        Ok(Self(format!("{ROOT}{}", HEXLOWER.encode(&bytes))))
    }

    /// Returns whether each account has a separate password.
    pub(crate) fn is_root(&self) -> bool {
        self.0.starts_with(ROOT)
    }

    /// Returns the table owner's password, derived from the administrator's.
    #[must_use]
    pub fn for_owner(&self) -> Self {
        if self.is_root() { Self(format!("{ROOT}{}", self.derive(OWNER))) } else { self.clone() }
    }

    /// Returns a service's password, derived from the administrator's.
    #[must_use]
    pub fn for_service(&self, account: &str) -> Self {
        if self.is_root() { Self(self.for_owner().derive(account)) } else { self.clone() }
    }

    fn derive(&self, account: &str) -> String {
        HEXLOWER.encode(&Sha256::digest(format!("{} {account}", self.0)))
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the hash that ClickHouse stores.
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
    fn passwords_are_unique_and_never_printed() {
        let (one, other) = (Password::generate().unwrap(), Password::generate().unwrap());
        assert_ne!(one, other);
        assert!(one.reveal().len() == 44 && one.reveal().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        assert_eq!(format!("{one:?}"), "Password");
    }

    #[test]
    fn accounts_share_only_passwords_from_earlier_builds() {
        let one = Password::generate().unwrap();
        let own = [one.clone(), one.for_owner(), one.for_service("telemetry_query"), one.for_service("telemetry_worker")];
        assert!((0..own.len()).all(|at| !own[..at].contains(&own[at])), "two accounts share a password");
        let shared = Password("0123456789abcdef".to_owned());
        assert!(shared.for_owner() == shared && shared.for_service("telemetry_query") == shared);
    }
}
