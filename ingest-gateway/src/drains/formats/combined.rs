//! Combined log format, also with the host before it, and with the correlation header, the host and the id of the request after it.
//!
//! ```text
//! [host[:port]] address identity user [time] "method target protocol" status bytes "referer" "user agent" ["id of the header" ["host" ["request id"]]]
//! ```

use super::super::line::{Field, Fields, Reason};
use super::NoRequest;
use chrono::DateTime;
use std::borrow::Cow;

/// What may stand in quotes behind the user agent.
const MORE: [Field; 3] = [Field::TelemetryId, Field::Host, Field::RequestId];

pub(super) fn parse(line: &str) -> Result<Fields<'_>, NoRequest> {
    let mut fields = Fields::default();
    let (before, rest) = line.split_once(" [").ok_or("not_combined")?;
    put_before(before, &mut fields)?;
    let (time, rest) = rest.split_once("] ").ok_or("not_combined")?;
    let at = DateTime::parse_from_str(time, "%d/%b/%Y:%H:%M:%S %z").map_err(|_| "bad_time")?;
    fields.put(Field::Time, Cow::Owned(at.timestamp_millis().to_string()));
    let (request, rest) = quoted(rest).ok_or("not_combined")?;
    put_request(&request, &mut fields);
    let (numbers, rest) = rest.split_once(" \"").ok_or("not_combined")?;
    let (status, bytes) = numbers.split_once(' ').ok_or("not_combined")?;
    fields.put(Field::Status, Cow::Borrowed(status));
    fields.put(Field::Bytes, Cow::Borrowed(bytes));
    let (_, rest) = rest_of_quoted(rest).ok_or("not_combined")?;
    let (user_agent, mut rest) = quoted(rest).ok_or("not_combined")?;
    fields.put(Field::UserAgent, user_agent);
    for field in MORE {
        if rest.is_empty() {
            break;
        }
        let (value, after) = quoted(rest).ok_or("not_combined")?;
        fields.put(field, value);
        rest = after;
    }
    if rest.is_empty() { Ok(fields) } else { Err("not_combined".into()) }
}

/// `[host[:port]] address identity user`.
fn put_before<'a>(before: &'a str, fields: &mut Fields<'a>) -> Result<(), Reason> {
    let words: Vec<&str> = before.split(' ').take(5).collect();
    let (host, address) = match words.as_slice() {
        [address, _, _] => (None, address),
        [host, address, _, _] => (Some(host), address),
        _ => return Err("not_combined"),
    };
    fields.put(Field::Address, Cow::Borrowed(address));
    if let Some(host) = host {
        fields.put(Field::Host, Cow::Borrowed(host.rsplit_once(':').map_or(*host, |(host, _)| host)));
    }
    Ok(())
}

/// `method target protocol`; what is no HTTP leaves no method.
fn put_request(request: &str, fields: &mut Fields<'_>) {
    let words: Vec<String> = request.split(' ').map(str::to_owned).collect();
    if let [method, target, _protocol] = words.as_slice() {
        fields.put(Field::Method, Cow::Owned(method.clone()));
        fields.put(Field::Path, Cow::Owned(target.clone()));
    }
}

/// The text in the quotes at the beginning, and what follows them and a space.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    rest_of_quoted(text.strip_prefix('"')?)
}

/// The same behind the first quote. A quote in the text is written `\"` or `\x22`.
fn rest_of_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    let (value, rest) = (text.get(..at)?, text.get(at + 1..)?);
    let value =
        if value.contains('\\') { Cow::Owned(value.replace("\\\"", "\"").replace("\\x22", "\"")) } else { Cow::Borrowed(value) };
    Some((value, rest.strip_prefix(' ').unwrap_or(rest)))
}
