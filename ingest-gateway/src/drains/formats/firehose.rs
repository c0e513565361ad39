//! `CloudFront` through Amazon Data Firehose: Base64 records with JSON, or with lines of tab-separated values in the order of real-time
//! logs.

use super::super::json_fields::{FieldMap, FieldMapping, Node, fields};
use super::super::line_fields::{Field, Fields, Reason};
use super::{FormatId, NoRequest, unescaped};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use std::borrow::Cow;

/// Positions of the fields used from a real-time log, which must contain all fields in order.
const PLACES: [(usize, Field); 15] = [
    (1, Field::Time),
    (2, Field::Address),
    (4, Field::Status),
    (5, Field::Bytes),
    (6, Field::Method),
    (7, Field::Scheme),
    (8, Field::Host),
    (9, Field::Path),
    (12, Field::RequestId),
    (13, Field::OtherHost),
    (17, Field::UserAgent),
    (20, Field::Query),
    (25, Field::Cache),
    (28, Field::MediaType),
    (34, Field::Country),
];
const HEADERS: usize = 38;
const ASN: usize = 45;
/// A position, and whether the text can be its value.
type Anchor = (usize, fn(&str) -> bool);
/// Positions whose values can't be confused with their neighbors'. A mismatch means that an earlier field isn't logged.
const ANCHORS: [Anchor; 9] = [
    (4, is_status),
    (6, is_method),
    (7, is_protocol),
    (9, |text| text.starts_with('/')),
    (15, |text| text.starts_with("HTTP/")),
    (16, |text| matches!(text, "IPv4" | "IPv6")),
    (21, is_result_type),
    (25, is_result_type),
    (34, is_country),
];
/// Number of values up to the result type after the query. Every line must have them.
const MIN_VALUES: usize = 21;
/// Number of values in the current version of real-time logs, rounded up.
const USUAL_VALUES: usize = 64;
/// More values than any version of real-time logs has.
const MAX_VALUES: usize = 100;

/// Host suffix of CloudFront distributions.
const DISTRIBUTION_DOMAIN: &str = ".cloudfront.net";

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// Decodes a record into `text`, which replaces its contents.
pub(in super::super) fn read_record(record: &[u8], text: &mut Vec<u8>) -> Result<(), Reason> {
    let mut decode = |data: &[u8]| {
        text.clear();
        BASE64_STANDARD.decode_vec(data, text).map_err(|_| "not_base64")
    };
    // Firehose doesn't write other members. Base64 contains neither quotes nor escapes.
    let alone = record.strip_prefix(b"{\"data\":\"").and_then(|data| data.strip_suffix(b"\"}"));
    if alone.is_some_and(|data| decode(data).is_ok()) {
        return Ok(());
    }
    let record: Record<'_> = serde_json::from_slice(record).map_err(|_| "not_a_record")?;
    decode(record.data.as_bytes())
}

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let fields = if line.starts_with('{') { of_json(line)? } else { between_tabs(line)? };
    Ok(finished(fields))
}

fn of_json(line: &str) -> Result<Fields<'_>, Reason> {
    let mut fields = fields(line, NAMES)?;
    fields.format = Some(FormatId::CloudFrontJson);
    Ok(fields)
}

/// Decodes the user agent of a line, and sets its requested host.
pub(super) fn finished(mut fields: Fields<'_>) -> Fields<'_> {
    fields.rewrite(Field::UserAgent, unescaped);
    // If the path contains the query, the query is logged twice.
    if fields.text(Field::Path).contains('?') {
        fields.rewrite(Field::Query, |_| Some(String::new()));
    }
    put_requested_host(&mut fields);
    fields
}

/// Sets the requested host. One of two host columns contains the distribution's name. Real-time logs have the requested host in `cs-host`
/// and the distribution's in `x-host-header`; standard logs have the distribution's in `cs(Host)` and the requested host in `x-host-header`
/// (AWS, "Understand real-time log configurations" and "Standard logging reference"). A name other than the distribution's wins.
fn put_requested_host(fields: &mut Fields<'_>) {
    let is_distribution = |host: &str| {
        let end = host.len().checked_sub(DISTRIBUTION_DOMAIN.len()).and_then(|at| host.as_bytes().get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(DISTRIBUTION_DOMAIN.as_bytes()))
    };
    let is_own = |field: &Field| fields.get(*field).is_some_and(|host| !is_distribution(host));
    if let Some(own) = [Field::Host, Field::OtherHost, Field::DistributionHost].into_iter().find(is_own) {
        [Field::Host, Field::OtherHost].into_iter().for_each(|field| fields.copy(own, field));
    }
}

fn between_tabs(line: &str) -> Result<Fields<'_>, Reason> {
    let mut values: Vec<&str> = Vec::with_capacity(USUAL_VALUES);
    values.extend(line.split('\t').take(MAX_VALUES + 1));
    match values.len() {
        0..MIN_VALUES => return Err("too_few_fields"),
        MIN_VALUES..=MAX_VALUES => {}
        _ => return Err("too_many_fields"),
    }
    let is_in_place = |&(place, is_like): &Anchor| values.get(place - 1).is_none_or(|value| is_like(value));
    if !ANCHORS.iter().all(is_in_place) {
        return Err("wrong_columns");
    }
    let mut fields = Fields::new(FormatId::CloudFrontRealTime);
    for (place, field) in PLACES.into_iter().chain([(HEADERS, Field::Headers), (ASN, Field::Asn)]) {
        if let Some(value) = values.get(place - 1) {
            fields.put(field, Cow::Borrowed(value));
        }
    }
    Ok(fields)
}

/// Three digits, or `-` or `0` for a request without a response.
fn is_status(text: &str) -> bool {
    matches!(text, "-" | "0") || (text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

fn is_protocol(text: &str) -> bool {
    ["http", "https", "ws", "wss", "grpcs"].iter().any(|protocol| text.eq_ignore_ascii_case(protocol))
}

/// For example `Hit`, `Miss` or `LambdaExecutionError`. Addresses, TLS versions and numbers don't match.
fn is_result_type(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_country(text: &str) -> bool {
    text == "-" || (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

pub(super) const NAMES: FieldMap = |node, name| match node {
    Node::Root => column(name).map_or(FieldMapping::NONE, |(field, rank)| FieldMapping::ranked(field, rank)),
    _ => FieldMapping::NONE,
};

/// Returns the field and rank of a column of CloudFront or W3C logs.
pub(super) fn column(name: &str) -> Option<(Field, u8)> {
    let field = match name {
        "timestamp" | "timestamp(ms)" => Field::Time,
        "time" => return Some((Field::Time, 1)),
        "date" => Field::Date,
        "c-ip" => Field::Address,
        "sc-status" => Field::Status,
        "sc-bytes" => Field::Bytes,
        "cs-method" => Field::Method,
        "cs-protocol" => Field::Scheme,
        "s-port" => Field::Port,
        "cs-host" => Field::Host,
        "x-host-header" => Field::OtherHost,
        "cs(Host)" => Field::DistributionHost,
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
    };
    Some((field, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_record_clears_the_buffer() {
        let mut text = Vec::new();
        for (record, expected) in [
            (r#"{"data":"YWJj"}"#, Ok("abc")),
            (r#"{"data":"ZA=="}"#, Ok("d")),
            (r#"{"x":1,"data":"ZQ=="}"#, Ok("e")),
            (r#"{"data":"Z\u0067=="}"#, Ok("f")),
            (r#"{"data":""}"#, Ok("")),
            (r#"{"data":"Zg"}"#, Err("not_base64")),
            (r#"{"data":"ZA==","data":"ZA=="}"#, Err("not_a_record")),
            (r#"{"data":1}"#, Err("not_a_record")),
        ] {
            let read = read_record(record.as_bytes(), &mut text).map(|()| str::from_utf8(&text).unwrap());
            assert_eq!(read, expected, "{record}");
        }
    }
}
