//! Envoy's default format, and Istio's, which adds columns to it:
//!
//! ```text
//! [time] "method target protocol" status flags received sent milliseconds milliseconds "X-Forwarded-For" "user agent" "id" "host" "upstream"
//! [time] "method target protocol" status flags details termination "failure" received … "upstream" cluster address address address name route
//! ```
//!
//! Envoy escapes nothing, so a line that can be read in two ways is bad. The addresses in it can be from headers.

use super::super::line_fields::{Field, Fields, truncate};
use super::{FormatId, NoRequest, combined, has_shape, put_request_line};
use std::borrow::Cow;

/// Begins every line. Everything before the visitors' text comes from Envoy.
const BEGINNING: &str = "[dddd-dd-ddTdd:dd:dd.dddZ] \"";
/// The request field for a connection that isn't HTTP.
const NO_REQUEST: &str = "- - -";
const QUOTES: &str = "\" \"";
/// Maximum length of the columns between the request and the visitors' strings.
const MAX_COLUMN_BYTES: usize = 1_024;

/// The columns after the request.
struct Columns<'a> {
    format: FormatId,
    status: &'a str,
    bytes: &'a str,
    texts: &'a str,
}

pub(super) fn is_envoy(line: &str) -> bool {
    has_shape(without_label(line).as_bytes(), BEGINNING)
}

/// Removes the word that Emissary (Ambassador) writes before its lines.
fn without_label(line: &str) -> &str {
    line.strip_prefix("ACCESS ").unwrap_or(line)
}

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let fields = read(line).ok_or("wrong_columns")?;
    if fields.get(Field::Method).is_none() && fields.get(Field::Path).is_none() { Err(NoRequest::Other) } else { Ok(fields) }
}

fn read(line: &str) -> Option<Fields<'_>> {
    let (time, rest) = without_label(line).strip_prefix('[')?.split_once("] \"")?;
    let (request, Columns { format, status, bytes, texts }) = only(request_ends(rest))?;
    // Visitors' strings are counted from both ends.
    let (texts, more) = texts.strip_prefix('"')?.rsplit_once('"')?;
    if more.is_empty() != (format == FormatId::Envoy) {
        return None;
    }
    let (texts, _) = texts.rsplit_once(QUOTES)?;
    let (texts, host) = texts.rsplit_once(QUOTES)?;
    let (texts, id) = texts.rsplit_once(QUOTES)?;
    let (_, user_agent) = only(texts.match_indices(QUOTES).map(|(at, quotes)| (&texts[..at], &texts[at + quotes.len()..])))?;
    let mut fields = Fields::new(format);
    put_request_line(Cow::Borrowed(if request == NO_REQUEST { "" } else { request }), &mut fields);
    for (field, text) in
        [(Field::Time, time), (Field::Status, status), (Field::Bytes, bytes), (Field::Host, host), (Field::UserAgent, user_agent)]
    {
        fields.put(field, Cow::Borrowed(text));
    }
    if combined::is_request_id(id) {
        fields.put(Field::RequestId, Cow::Borrowed(id));
    }
    Some(fields)
}

/// Returns each possible request with the columns after it. Visitors can write many beginnings of columns, so only a part of the line is
/// read for each.
fn request_ends(text: &str) -> impl Iterator<Item = (&str, Columns<'_>)> {
    text.match_indices("\" ").filter_map(|(at, end)| {
        let rest = &text[at + end.len()..];
        let begin = truncate(rest, MAX_COLUMN_BYTES);
        let columns = columns(begin)?;
        let texts = &rest[begin.len() - columns.texts.len()..];
        Some((&text[..at], Columns { texts, ..columns }))
    })
}

fn columns(text: &str) -> Option<Columns<'_>> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |text: &str| text == "-" || is_number(text);
    let (status, rest) = text.split_once(' ').filter(|(status, _)| is_number(status) && status.len() <= 3)?;
    let is_flag = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b',' | b'_');
    let (_, rest) = rest.split_once(' ').filter(|(flags, _)| flags.bytes().all(is_flag))?;
    let is_of_istio = !rest.split(' ').next().is_some_and(is_number);
    let rest = if is_of_istio {
        let (details, rest) = rest.split_once('"')?;
        rest.split_once("\" ").filter(|_| details.ends_with(' '))?.1
    } else {
        rest
    };
    let mut words = rest.splitn(5, ' ');
    let (received, bytes, duration, upstream) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let texts = words.next().filter(|texts| texts.starts_with('"'))?;
    let format = if is_of_istio { FormatId::Istio } else { FormatId::Envoy };
    let is_in_order = is_number(received) && is_number(bytes) && is_time(duration) && is_time(upstream);
    is_in_order.then_some(Columns { format, status, bytes, texts })
}

/// Returns the only element.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let one = all.next()?;
    all.next().is_none().then_some(one)
}
