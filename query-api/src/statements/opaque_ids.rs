//! Opaque IDs in evidence files and exports: equal in all files of an owner, and meaningless without the owner's key.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use uuid::Uuid;

pub(crate) struct OpaqueIds {
    key: Vec<u8>,
    known: HashMap<Uuid, String>,
}

impl OpaqueIds {
    pub(super) fn new(key: Vec<u8>) -> Self {
        Self { key, known: HashMap::new() }
    }

    /// Returns the ID of an organization or a drain; empty for nil.
    pub(crate) fn opaque(&mut self, id: Uuid) -> String {
        if id.is_nil() {
            return String::new();
        }
        self.known.entry(id).or_insert_with(|| hex(digest(&self.key, "id", &[id.as_bytes()]))).clone()
    }

    pub(crate) fn session(&self, platform: Uuid, session: Uuid) -> u64 {
        digest(&self.key, "session", &[platform.as_bytes(), session.as_bytes()])
    }

    /// Returns the ID of an output or a turn, which is unique in its session.
    pub(crate) fn response(&self, organization: Uuid, session: Uuid, response: &str) -> u64 {
        digest(&self.key, "response", &[organization.as_bytes(), session.as_bytes(), response.as_bytes()])
    }
}

pub(super) fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

fn digest(key: &[u8], kind: &str, parts: &[&[u8]]) -> u64 {
    let hash = Sha256::new().chain_update(key).chain_update(kind);
    let digest: [u8; 32] = parts.iter().fold(hash, Digest::chain_update).finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
