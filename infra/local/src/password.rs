//! The password of a server of the stack: made when the server is first started, kept in the stack's record, which only its
//! owner can read.
//!
//! Must not be printed.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// 160 bits, so that nobody guesses it.
const BYTES: usize = 20;

/// Lower-case letters and digits only: it stands in URLs, XML and SQL as it is.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// A fresh one.
    pub fn mint() -> Result<Self> {
        let mut bytes = [0; BYTES];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .context("the system has no randomness")?;
        Ok(Self(hex(&bytes)))
    }

    /// The password itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// As ClickHouse keeps it.
    pub(crate) fn sha256(&self) -> String {
        hex(&Sha256::digest(&self.0))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::Password;

    #[test]
    fn each_is_another_and_none_is_shown() {
        let (one, other) = (Password::mint().unwrap(), Password::mint().unwrap());
        assert_ne!(one, other);
        assert!(one.reveal().len() == 40 && one.reveal().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(format!("{one:?}"), "Password");
    }
}
