//! A line's event id, and the mark that identifies it in its body's digest.

use super::line_fields::{Field, Fields, MAX_USER_AGENT_BYTES, truncate};
use schemas::event_key::telemetry_id_of_line;
use schemas::identity::DrainProvider;
use schemas::ids::OrgId;
use sha1::{Digest, Sha1};
use uuid::{Builder, Uuid};

/// Returns the id of a line: a `UUIDv5` of the organization, the provider, time, host and path, and the provider's request id, which is at
/// best unique per server. Without one, all other stored fields of the request are used. Text logs can contain another value in the id's
/// place, and JSON logs can contain an id from a visitor's header, so these ids don't replace the rest. `host` is the requested host's
/// name. A visitor can copy everything that an agent sends except its address, so a request from an operator's address has a different id.
///
/// The id must not depend on a value that can be a visitor's address and isn't stored: logs can have other fields in place of ids and
/// hosts, and a reader who knows the rest of the line could find the address by trying all of them.
pub(super) fn line_id(org: OrgId, provider: DrainProvider, fields: &Fields<'_>, host: &str, at_ms: i64) -> Uuid {
    let said = |field| fields.text(field);
    let telemetry_id = fields.get(Field::TelemetryId).and_then(telemetry_id_of_line).unwrap_or_default();
    let at = at_ms.to_string();
    let request = [at.as_str(), host, said(Field::Path), said(Field::Query)];
    let user_agent = truncate(said(Field::UserAgent), MAX_USER_AGENT_BYTES);
    let rest = [said(Field::Method), user_agent, said(Field::Status), said(Field::Bytes), &telemetry_id];
    let address = if fields.is_address_of_operator { "operator" } else { "" };
    let (kind, rest) = match fields.get(Field::RequestId) {
        Some(id) if !matches!(provider, DrainProvider::Combined | DrainProvider::Ndjson) => ("request", vec![id]),
        id => ("line", rest.into_iter().chain([id.unwrap_or_default(), address]).collect()),
    };
    let parts = [provider.as_str(), kind].into_iter().chain(request).chain(rest);
    // Prefix each part with its length, so different parts never produce the same text.
    let name: String = parts.map(|part| format!("{}:{part}", part.len())).collect();
    named_id(org.0, &name)
}

/// Identifies a line in its body's digest. Contains the bot, but neither address nor user agent.
pub(super) fn mark(fields: &Fields<'_>, host: &str, at_ms: i64, bot: &str) -> [u8; 16] {
    let said = [Field::RequestId, Field::Path, Field::Query, Field::Method, Field::Status, Field::Bytes];
    let mut digest = Sha1::new();
    digest.update(at_ms.to_be_bytes());
    for text in said.into_iter().map(|field| fields.text(field)).chain([host, bot]) {
        digest.update(text.as_bytes());
        digest.update([0]);
    }
    let bytes: [u8; 20] = digest.finalize().into();
    *bytes.first_chunk().expect("16 of 20 bytes")
}

pub(super) fn named_id(namespace: Uuid, name: &str) -> Uuid {
    let mut digest = Sha1::new();
    digest.update(namespace.as_bytes());
    digest.update(name.as_bytes());
    let bytes: [u8; 20] = digest.finalize().into();
    Builder::from_sha1_bytes(*bytes.first_chunk().expect("16 of 20 bytes")).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_based_uuids_match_rfc_9562() {
        let dns = Uuid::from_u128(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c8);
        assert_eq!(named_id(dns, "www.example.com").to_string(), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
    }
}
