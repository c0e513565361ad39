//! A record as it is written to the log: key, headers and value, with or without the spill.

use rdkafka::message::{Header, OwnedHeaders};
use schemas::ids::OrgId;
use schemas::log::{LogRecord, header};
use schemas::problem::Code;
use schemas::shard::Buckets;
use service_kit::http::ApiError;
use std::borrow::Cow;
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(super) key: Option<String>,
    headers: Vec<(Cow<'static, str>, String)>,
    pub(super) value: Vec<u8>,
    /// Number of events, used only for gauges.
    pub(super) events: u32,
}

impl Message {
    pub(super) fn from_record(record: &LogRecord, request_id: &str) -> Result<Self, ApiError> {
        let value = serde_json::to_vec(record).map_err(ApiError::internal)?;
        let headers = vec![
            (Cow::Borrowed(header::SCHEMA), format!("telemetry.v1/{}", record.v)),
            (Cow::Borrowed(header::ORG), record.org.to_string()),
            (Cow::Borrowed(header::REQUEST_ID), request_id.to_owned()),
            (Cow::Borrowed(header::BUCKETS), Buckets::for_record(record).to_header()),
        ];
        let events = u32::try_from(record.events.len()).unwrap_or(u32::MAX);
        let message = Self { key: partition_key(record), headers, value, events };
        if message.bytes() > schemas::log::MAX_RECORD_BYTES {
            return Err(too_large());
        }
        Ok(message)
    }

    pub(super) fn organization(&self) -> OrgId {
        let header = self.headers.iter().find(|(name, _)| name == header::ORG);
        header.and_then(|(_, id)| id.parse().ok()).unwrap_or(OrgId(Uuid::nil()))
    }

    pub(crate) fn events(&self) -> usize {
        usize::try_from(self.events).unwrap_or(usize::MAX)
    }

    pub(super) fn headers(&self) -> OwnedHeaders {
        let headers = OwnedHeaders::new_with_capacity(self.headers.len());
        self.headers.iter().fold(headers, |headers, (name, value)| headers.insert(Header { key: name, value: Some(value) }))
    }

    /// Size as the broker counts it for its limit, with room for the framing of key and headers.
    pub(super) fn bytes(&self) -> usize {
        const FRAMING: usize = 32;
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + FRAMING).sum();
        self.value.len() + self.key.as_ref().map_or(0, String::len) + headers + FRAMING
    }

    /// Encodes the record for the spill: events, key, headers, value. Strings have a length prefix; the value extends to the end.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend_from_slice(&self.events.to_le_bytes());
        bytes.push(u8::from(self.key.is_some()));
        self.key.iter().for_each(|key| put_text(&mut bytes, key));
        bytes.extend_from_slice(&(u16::try_from(self.headers.len()).unwrap_or(u16::MAX)).to_le_bytes());
        for (name, value) in &self.headers {
            put_text(&mut bytes, name);
            put_text(&mut bytes, value);
        }
        bytes.extend_from_slice(&self.value);
        bytes
    }

    /// Decodes [`Self::to_bytes`]. Returns `None` for any other bytes.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let events = u32::from_le_bytes(take(&mut bytes)?);
        let [has_key] = take(&mut bytes)?;
        let key = if has_key == 1 { Some(take_text(&mut bytes)?) } else { None };
        let mut headers = Vec::new();
        for _ in 0..u16::from_le_bytes(take(&mut bytes)?) {
            headers.push((Cow::Owned(take_text(&mut bytes)?), take_text(&mut bytes)?));
        }
        Some(Self { key, headers, value: bytes.to_vec(), events })
    }

    /// Returns the number of events in spilled bytes without decoding the rest.
    pub(super) fn events_of(bytes: &[u8]) -> u64 {
        bytes.first_chunk().map_or(0, |events| u64::from(u32::from_le_bytes(*events)))
    }
}

pub(crate) fn too_large() -> ApiError {
    ApiError::new(Code::TooLarge, "The request is too large to store. Send fewer events in each request.")
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(u32::from_le_bytes(take(bytes)?)).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// Keeps a session's records in one partition, so the worker reads the record that names the agent before later events that need it.
/// Without a session, reports of the same fetch share a partition.
fn partition_key(record: &LogRecord) -> Option<String> {
    let of_session = record.session.as_ref().map(|session| session.session_id);
    let session = of_session.or_else(|| record.events.iter().find_map(|event| event.session_id));
    let of_retrieval = match record.events.as_slice() {
        [only] => only.content_telemetry_id.clone(),
        _ => None,
    };
    session.map(|session| session.to_string()).or(of_retrieval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_records_have_one_partition_key() {
        let session = r#""session_id":"00000000-0000-0000-0000-000000000001""#;
        let key = |members: &str| {
            let head = r#""v":1,"org":"00000000-0000-0000-0000-000000000002","received_at_us":0,"kind":"events""#;
            let event =
                format!(r#"{{"own_key":"0000000000000000000000000000000a","type":"content_retrieved","at_ms":0{members}}}"#);
            partition_key(&serde_json::from_str(&format!(r#"{{{head},"events":[{event}]}}"#)).unwrap())
        };
        let of_session = Some("00000000-0000-0000-0000-000000000001".to_owned());
        assert_eq!(key(&format!(",{session}")), of_session);
        assert_eq!(key(&format!(r#","content_telemetry_id":"t",{session}"#)), of_session);
        assert_eq!(key(r#","content_telemetry_id":"t""#), Some("t".to_owned()));
        assert_eq!(key(""), None);
    }

    #[test]
    fn spilled_records_round_trip() {
        let headers = vec![(Cow::Borrowed("org"), "o".to_owned()), (Cow::Borrowed("request-id"), String::new())];
        for key in [None, Some("k".to_owned())] {
            let message = Message { key, headers: headers.clone(), value: b"{}".to_vec(), events: 7 };
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes).as_ref(), Some(&message));
            assert_eq!(Message::events_of(&bytes), 7);
            assert!((0..bytes.len() - 2).all(|end| Message::from_bytes(&bytes[..end]).is_none()), "truncation is detected");
        }
    }
}
