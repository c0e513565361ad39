//! The result of checking a signature, as records and tables store it (docs/api/signatures.md#results).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Reason for a signature without a result: its key or nonce couldn't be looked up.
pub const UNCHECKED: &str = "unchecked";

named_enum! {
    /// Result for a report, or for a fetch in a log line. An event gets the last of its reports' results in this order.
    pub enum SignatureResult {
        None = "none",
        Invalid = "invalid",
        Valid = "valid",
    }
}

impl SignatureResult {
    /// The stored code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Reverses [`code`](Self::code); unknown codes are `None`.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::None)
    }
}

/// A signature that was checked when its report or log line was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSignature {
    pub result: SignatureResult,
    /// Why it is not valid; [`UNCHECKED`] or a reason of `docs/api/signatures.md#results`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For a fetch: origin of the key set that identifies the agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signed_by: String,
    /// Absent if no key was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<SignatureProof>,
}

impl RecordedSignature {
    pub fn without_proof(result: SignatureResult, reason: &str) -> Self {
        Self { result, reason: reason.to_owned(), signed_by: String::new(), proof: None }
    }
}

/// Data for checking a signature again, without the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureProof {
    /// The signed text.
    pub base: String,
    /// Ed25519, in base64.
    pub signature: String,
    pub key_id: String,
    /// Version of the key in the organization's manifest; absent for agents' key sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_version: Option<Uuid>,
    /// Multibase, as in manifests.
    pub public_key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for (code, result) in (0..).zip(SignatureResult::ALL) {
            assert_eq!((result.code(), SignatureResult::from_code(code)), (code, result));
        }
        assert_eq!(SignatureResult::from_code(9), SignatureResult::None);
    }
}
