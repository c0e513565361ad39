//! Credentials: read from files, stored in profiles, sent in one header.
//!
//! `Debug` doesn't show them, they have no `Display`, and they are never on a command line.

use crate::failure::{Failure, file_error};
use data_encoding::HEXLOWER;
use schemas::secrets::{PlainApiKey, PlainUserSession};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;
use std::path::Path;

const MAX_FILE_BYTES: u64 = 4 * 1024;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// Creates a secret without surrounding whitespace.
    pub(crate) fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the text, only for the header that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the prefix, which key lists show too.
    pub(crate) fn visible_prefix(&self) -> String {
        PlainApiKey::parse(&self.0).map(|key| key.visible_prefix().to_owned()).unwrap_or_default()
    }

    /// Returns a digest that identifies the secret without revealing it.
    pub(crate) fn digest(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(&self.0))
    }

    /// Returns the secret if it is an API key. Errors name its source, `whence`.
    pub(crate) fn into_key(self, whence: &str) -> Result<Self, Failure> {
        match PlainApiKey::parse(&self.0) {
            Some(_) => Ok(self),
            None => Err(Failure::Usage(format!("{whence} doesn't contain a valid API key; keys start with svc_pub_ or svc_pk_"))),
        }
    }

    /// Returns the secret if it is a session token.
    pub(crate) fn into_session(self) -> Result<Self, Failure> {
        match PlainUserSession::parse(&self.0) {
            Some(_) => Ok(self),
            None => Err(Failure::Failed("the service returned an invalid session".to_owned())),
        }
    }

    /// Reads a file with one secret; `-` is standard input.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let taken = if file == Path::new("-") {
            std::io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text)
        } else {
            std::fs::File::open(file).and_then(|opened| opened.take(MAX_FILE_BYTES).read_to_string(&mut text))
        };
        taken.map_err(|error| file_error(file, &error))?;
        let secret = Self::new(&text);
        if secret.0.is_empty() || secret.0.contains(char::is_whitespace) {
            return Err(Failure::Usage(format!("{}: must contain only the secret, on one line", file.display())));
        }
        Ok(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}
