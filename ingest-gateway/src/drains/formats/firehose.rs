//! `CloudFront` through Amazon Data Firehose: records in Base64, each with lines of tab-separated values in the order of real-time
//! logs, or JSON.

use super::super::json::fields;
use super::super::line::{Field, Fields, Reason};
use super::{NoRequest, telemetry_id_in, unescaped};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use std::borrow::Cow;

/// The fields of a real-time log that are used, each with its place; all fields are to be chosen, in their order.
const PLACES: [(usize, Field); 15] = [
    (1, Field::Time),
    (2, Field::Address),
    (4, Field::Status),
    (5, Field::Bytes),
    (6, Field::Method),
    (7, Field::Scheme),
    (8, Field::OtherHost),
    (9, Field::Path),
    (12, Field::RequestId),
    (13, Field::Host),
    (17, Field::UserAgent),
    (20, Field::Query),
    (25, Field::Cache),
    (28, Field::MediaType),
    (34, Field::Country),
];
const HEADERS: usize = 38;
const ASN: usize = 45;
/// What a line must have to say anything.
const MIN_VALUES: usize = 20;
/// More than any edition of real-time logs has.
const MAX_VALUES: usize = 100;

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// The bytes in a record.
pub(in super::super) fn record_lines(record: &[u8]) -> Result<Vec<u8>, Reason> {
    let record: Record<'_> = serde_json::from_slice(record).map_err(|_| "not_a_record")?;
    BASE64_STANDARD.decode(record.data.as_bytes()).map_err(|_| "not_base64")
}

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let mut fields = if line.starts_with('{') { fields(line, name)? } else { between_tabs(line)? };
    [Field::UserAgent, Field::Headers, Field::MediaType].into_iter().for_each(|field| fields.rewrite(field, unescaped));
    let id = fields.get(Field::Headers).and_then(telemetry_id_in).map(str::to_owned);
    id.into_iter().for_each(|id| fields.put(Field::TelemetryId, Cow::Owned(id)));
    // Standard logs have the day and the time in two fields.
    let date = fields.text(Field::Date).to_owned();
    fields.rewrite(Field::Time, |time| (!date.is_empty() && time.contains(':')).then(|| format!("{date}T{time}Z")));
    // Where the path comes with its query, the query stands twice.
    if fields.text(Field::Path).contains('?') {
        fields.rewrite(Field::Query, |_| Some(String::new()));
    }
    fields.rewrite(Field::Scheme, |protocol| Some(protocol.to_ascii_lowercase()));
    Ok(fields)
}

fn between_tabs(line: &str) -> Result<Fields<'_>, Reason> {
    let values: Vec<&str> = line.split('\t').take(MAX_VALUES + 1).collect();
    match values.len() {
        0..MIN_VALUES => return Err("too_few_fields"),
        MIN_VALUES..=MAX_VALUES => {}
        _ => return Err("too_many_fields"),
    }
    let mut fields = Fields::default();
    for (place, field) in PLACES.into_iter().chain([(HEADERS, Field::Headers), (ASN, Field::Asn)]) {
        if let Some(value) = values.get(place - 1) {
            fields.put(field, Cow::Borrowed(value));
        }
    }
    Ok(fields)
}

fn name(around: &str, name: &str) -> Option<Field> {
    Some(match name {
        _ if !around.is_empty() => return None,
        "timestamp" | "timestamp(ms)" | "time" => Field::Time,
        "date" => Field::Date,
        "c-ip" => Field::Address,
        "sc-status" => Field::Status,
        "sc-bytes" => Field::Bytes,
        "cs-method" => Field::Method,
        "cs-protocol" => Field::Scheme,
        "x-host-header" => Field::Host,
        "cs-host" | "cs(Host)" => Field::OtherHost,
        "cs-uri-stem" => Field::Path,
        "cs-uri-query" => Field::Query,
        "x-edge-request-id" => Field::RequestId,
        "cs-user-agent" | "cs(User-Agent)" => Field::UserAgent,
        "x-edge-result-type" => Field::Cache,
        "sc-content-type" => Field::MediaType,
        "c-country" => Field::Country,
        "cs-headers" => Field::Headers,
        "asn" => Field::Asn,
        _ => return None,
    })
}
