//! Parses each format's lines into fields (docs/drains/formats.md).
//!
//! Formats only parse. What is kept follows the same rules for all of them.

mod akamai;
mod azure;
mod cloudflare;
mod columns;
mod combined;
mod contradiction;
mod envoy;
mod firehose;
mod ndjson;
mod text;
mod vercel;
mod w3c;
mod without_agents;

use super::format_table::FormatId;
use super::json_fields::Node;
use super::line_fields::{Field, Fields, Reason};
use schemas::identity::{DrainBody, DrainProvider};
use std::borrow::Cow;
use std::ops::Range;

pub(super) use azure::records_in;
pub(super) use contradiction::contradicting_members;
pub(super) use firehose::read_record;
pub(super) use text::is_of_traefik;
pub(super) use w3c::DirectiveState;

/// Bodies that providers send to test a destination: Cloudflare's `test.txt.gz`, Akamai's validation, and an empty object.
const TRIALS: [&str; 3] = [r#"{"content":"tests"}"#, r#"{"access_validation":true}"#, "{}"];
const MAX_TRIAL_BYTES: usize = 64;

/// Reason why a line doesn't describe a request.
#[derive(Debug)]
pub(super) enum NoRequest {
    Bad(Reason),
    /// A line that only tests the destination.
    Trial,
    /// An entry that isn't about a request.
    Other,
}

impl From<Reason> for NoRequest {
    fn from(reason: Reason) -> Self {
        Self::Bad(reason)
    }
}

/// Parses one line. If the body has directives, the latest ones define the columns.
pub(super) fn parse<'a>(provider: DrainProvider, line: &'a str, heading: &DirectiveState) -> Result<Fields<'a>, NoRequest> {
    let columns = match heading {
        DirectiveState::Directives(columns) => Some(columns),
        DirectiveState::Unread | DirectiveState::Absent => None,
    };
    let is_trial = provider.facts().body == DrainBody::Json
        && line.len() <= MAX_TRIAL_BYTES
        && TRIALS.contains(&line.split_ascii_whitespace().collect::<String>().as_str());
    if is_trial {
        return Err(NoRequest::Trial);
    }
    let mut fields = match (provider, columns) {
        (DrainProvider::Combined | DrainProvider::Firehose, Some(Some(columns))) => Ok(columns.read(line)?),
        (DrainProvider::Combined | DrainProvider::Firehose, Some(None)) => return Err("no_columns".into()),
        (DrainProvider::Cloudflare, _) => cloudflare::parse(line),
        (DrainProvider::Fastly, _) => ndjson::parse_fastly(line),
        (DrainProvider::Ndjson, _) => ndjson::parse(line),
        (DrainProvider::Firehose, None) => firehose::parse(line),
        (DrainProvider::Akamai, _) => akamai::parse(line),
        (DrainProvider::Vercel, _) => vercel::parse(line),
        (DrainProvider::Azure, _) => azure::parse(line),
        (DrainProvider::Combined, None) => text::parse(line),
    }?;
    // Visitors choose the host in an absolute URL, whatever site responds.
    put_url_host(Field::UnsureHost, &mut fields);
    Ok(fields)
}

/// Returns whether a JSON member with this name can contain a field, in any format.
pub(super) fn is_read(name: &str) -> bool {
    let all = [ndjson::NAMES, akamai::NAMES, azure::NAMES, cloudflare::NAMES, firehose::NAMES, vercel::NAMES];
    all.iter().any(|names| Node::ALL.iter().any(|node| names(*node, name).is_read()))
}

/// Returns whether the text begins like a date: four digits and a hyphen.
fn begins_with_day(text: &str) -> bool {
    let text = text.as_bytes();
    text.len() > 4 && text[..4].iter().all(u8::is_ascii_digit) && text[4] == b'-'
}

/// Returns whether the text begins with this shape, where `d` is a digit and `a` a letter.
fn has_shape(text: &[u8], shape: &str) -> bool {
    let is_of = |(byte, of): (&u8, u8)| match of {
        b'd' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        b's' => matches!(byte, b'+' | b'-'),
        of => *byte == of,
    };
    text.len() >= shape.len() && text.iter().zip(shape.bytes()).all(is_of)
}

/// Sets method and path from `method target protocol`. The target may contain spaces; HTTP/0.9 has no protocol. Anything other than HTTP
/// has no method.
fn put_request_line<'a>(request: Cow<'a, str>, fields: &mut Fields<'a>) {
    match request {
        Cow::Borrowed(request) => {
            let (method, target) = method_and_target(request);
            let target = if target.contains(' ') { Cow::Owned(target.replace(' ', "%20")) } else { Cow::Borrowed(target) };
            fields.put(Field::Method, Cow::Borrowed(method));
            fields.put(Field::Path, target);
        }
        Cow::Owned(request) => {
            let (method, target) = method_and_target(&request);
            fields.put(Field::Method, Cow::Owned(method.to_owned()));
            fields.put(Field::Path, Cow::Owned(target.replace(' ', "%20")));
        }
    }
}

/// Splits a target that is an absolute URL, and sets `field` to its host. Formats whose servers build the URL themselves set
/// [`Field::Host`].
fn put_url_host(field: Field, fields: &mut Fields<'_>) {
    let Some((scheme, host, path)) = fields.get(Field::Path).and_then(url_parts) else { return };
    let Some(url) = fields.take(Field::Path) else { return };
    fields.put(Field::Path, if path.is_empty() { Cow::Borrowed("/") } else { part_of(&url, path) });
    fields.put(Field::Scheme, Cow::Borrowed(scheme));
    fields.put(field, part_of(&url, host));
}

/// Returns the scheme of an absolute URL, and where its host and its path are.
fn url_parts(target: &str) -> Option<(&'static str, Range<usize>, Range<usize>)> {
    if target.starts_with('/') {
        return None;
    }
    let (scheme, rest) = target.split_once("://")?;
    let scheme = ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
    let begin = target.len() - rest.len();
    let end = begin + rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = target[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    Some((scheme, host..end, end..target.len()))
}

fn part_of<'a>(text: &Cow<'a, str>, range: Range<usize>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[range]),
        Cow::Owned(text) => Cow::Owned(text[range].to_owned()),
    }
}

fn method_and_target(request: &str) -> (&str, &str) {
    let (method, rest) = request.trim_start().split_once(' ').unwrap_or_default();
    let target = match rest.trim().rsplit_once(' ') {
        Some((target, protocol)) if protocol.starts_with("HTTP/") => target.trim(),
        _ => rest.trim(),
    };
    (method, target)
}

/// Maximum number of times that text can be escaped.
const MAX_ESCAPES: usize = 3;

/// Decodes percent escapes. Returns `None` if there are none. Some logs escape text two or three times.
fn unescaped(text: &str) -> Option<String> {
    let mut read = text.contains('%').then(|| unescaped_once(text))?;
    for _ in 1..MAX_ESCAPES {
        if !read.contains('%') {
            break;
        }
        read = unescaped_once(&read);
    }
    Some(read)
}

fn unescaped_once(text: &str) -> String {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some(at) = memchr::memchr(b'%', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let byte = match rest[at + 1..] {
            [high, low, ..] => digit(high).zip(digit(low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(byte.unwrap_or(b'%'));
        rest = &rest[at + if byte.is_some() { 3 } else { 1 }..];
    }
    bytes.extend_from_slice(rest);
    let text = String::from_utf8(bytes).unwrap_or_else(|invalid| String::from_utf8_lossy(invalid.as_bytes()).into_owned());
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Returns whether the server of a bot's line wrote its address.
pub(super) fn is_address_trusted(provider: DrainProvider, line: &str, fields: &Fields<'_>) -> bool {
    fields.is_address_trusted && (provider != DrainProvider::Fastly || ndjson::has_our_order(line))
}

/// Decodes the fields that only lines of bots need.
pub(super) fn decode_fields_of_bot(fields: &mut Fields<'_>) {
    use FormatId::{AkamaiJson, AkamaiText, CloudFrontJson, CloudFrontRealTime, CloudFrontStandard};
    if matches!(fields.format, Some(CloudFrontJson | CloudFrontRealTime | CloudFrontStandard | AkamaiJson | AkamaiText)) {
        [Field::Headers, Field::MediaType].into_iter().for_each(|field| fields.rewrite(field, unescaped));
        // Akamai's custom field can have any value, so only a named one is a correlation id.
        let id = fields.get(Field::Headers).and_then(telemetry_id_in).map(str::to_owned);
        id.into_iter().for_each(|id| fields.put(Field::TelemetryId, Cow::Owned(id)));
    }
}

/// Returns the correlation header from a list of headers, written as `name: value` or `name=value`, one per line or separated by commas.
fn telemetry_id_in(headers: &str) -> Option<&str> {
    let headers = headers.split(['\n', '\r', ',', ';']);
    let named = headers.filter_map(|header| header.trim().split_once([':', '=']));
    named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("content-telemetry-id")).map(|(_, value)| value.trim()).next()
}

#[cfg(test)]
mod samples_tests;
#[cfg(test)]
mod vendor_tests;
#[cfg(test)]
pub(super) use samples_tests::{WITHOUT_USER_AGENTS, outcomes};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_correlation_header() {
        for headers in
            ["host:a.test\ncontent-telemetry-id: t-1\n", "a=1;Content-Telemetry-ID=t-1", "x:y,content-telemetry-id:t-1,z:1"]
        {
            assert_eq!(telemetry_id_in(headers), Some("t-1"), "{headers:?}");
        }
        for headers in ["", "x-content-telemetry-id:t-1", "content-telemetry-id", "t-1"] {
            assert_eq!(telemetry_id_in(headers), None, "{headers:?}");
        }
    }

    #[test]
    fn decodes_percent_escapes_like_browsers() {
        for (text, expected) in [
            ("a%20b", "a b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("%+1", "%+1"),
            ("%%41", "%A"),
            ("%c3%A9", "\u{e9}"),
            ("%ff", "\u{fffd}"),
            ("a%00", "a\u{fffd}"),
            ("%252525", "%"),
            ("%25252525", "%25"),
            ("\u{e9}%20", "\u{e9} "),
        ] {
            assert_eq!(unescaped(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(unescaped("a+b"), None);
    }

    #[test]
    fn formats_never_panic() {
        let long = "a ".repeat(5_000);
        let tabs = "\t".repeat(10_000);
        let deep = format!("{{\"a\":{}", "[".repeat(10_000));
        for line in ["", "{", "{}", "[]", "null", "\u{feff}{}", "- - - [] \"\"", "\"\"\"\"", "%", "%zz", &long, &tabs, &deep] {
            for provider in DrainProvider::ALL {
                drop(parse(provider, line, &DirectiveState::default()));
            }
        }
    }
}
