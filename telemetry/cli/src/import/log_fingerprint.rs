//! Identifies a log by its beginning, because another log may get the same name.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::io::{self, Read};

const HEAD_BYTES: usize = 4 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct LogFingerprint {
    bytes: usize,
    sha256: String,
}

impl LogFingerprint {
    /// Returns the head of a log of which `read` bytes were read.
    pub(super) fn from_start_of(log: impl Read, read: u64) -> io::Result<Self> {
        let bytes = usize::try_from(read).unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
        let mut head = Vec::new();
        log.take(bytes as u64).read_to_end(&mut head)?;
        let sha256 = HEXLOWER.encode(&Sha256::digest(&head));
        Ok(Self { bytes: head.len(), sha256 })
    }
}
