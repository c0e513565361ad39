//! Combined log format, also with the host before it, and with the correlation header, the host and the id of the request after it.
//!
//! ```text
//! [host[:port]] address identity user [time] "method target protocol" status bytes "referer" "user agent" ["id of the header" ["host" ["request id"]]]
//! ```

use super::super::line::{Field, Fields, Reason};
use super::NoRequest;
use chrono::DateTime;
use data_encoding::HEXLOWER_PERMISSIVE;
use percent_encoding::{CONTROLS, percent_encode};
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
    put_request(request, &mut fields);
    let (numbers, rest) = rest.split_once(" \"").ok_or("not_combined")?;
    let (status, bytes) = numbers.split_once(' ').ok_or("not_combined")?;
    fields.put(Field::Status, Cow::Borrowed(status));
    fields.put(Field::Bytes, Cow::Borrowed(bytes));
    let (_, rest) = rest_of_quoted(rest).ok_or("not_combined")?;
    let (user_agent, mut rest) = quoted(rest).ok_or("not_combined")?;
    fields.put(Field::UserAgent, unescaped_text(user_agent));
    for field in MORE {
        if rest.is_empty() {
            break;
        }
        let (value, after) = quoted(rest).ok_or("not_combined")?;
        fields.put(field, unescaped_text(value));
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
        fields.put(Field::Host, Cow::Borrowed(without_usual_port(host)));
    }
    Ok(())
}

/// A port says which site it is, unless it is one that a scheme has anyway, or none at all.
fn without_usual_port(host: &str) -> &str {
    let is_usual = |port: &str| matches!(port, "80" | "443") || port.parse::<u16>().is_err();
    host.rsplit_once(':').filter(|(_, port)| is_usual(port)).map_or(host, |(name, _)| name)
}

/// `method target protocol`; what is no HTTP leaves no method.
fn put_request<'a>(request: &'a str, fields: &mut Fields<'a>) {
    let words: Vec<&str> = request.split(' ').take(4).collect();
    if let [method, target, _protocol] = words.as_slice() {
        fields.put(Field::Method, Cow::Borrowed(method));
        fields.put(Field::Path, unescaped_target(target));
    }
}

/// The text in the quotes at the beginning, and what follows them and a space.
fn quoted(text: &str) -> Option<(&str, &str)> {
    rest_of_quoted(text.strip_prefix('"')?)
}

/// The same behind the first quote. A quote in the text is written `\"` or `\x22`.
fn rest_of_quoted(text: &str) -> Option<(&str, &str)> {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    let (value, rest) = (text.get(..at)?, text.get(at + 1..)?);
    Some((value, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// A text that was logged with escapes.
fn unescaped_text(logged: &str) -> Cow<'_, str> {
    if logged.contains('\\') {
        Cow::Owned(String::from_utf8_lossy(&unescaped(logged)).into_owned())
    } else {
        Cow::Borrowed(logged)
    }
}

/// A path and a query that were logged with escapes. Bytes need not be UTF-8 there, and each of them is part of the page.
fn unescaped_target(logged: &str) -> Cow<'_, str> {
    if logged.contains('\\') {
        Cow::Owned(percent_encode(&unescaped(logged), CONTROLS).to_string())
    } else {
        Cow::Borrowed(logged)
    }
}

/// The bytes that stand for themselves or, behind a backslash, for another one: nginx writes quotes, backslashes, controls and
/// what is no ASCII as `\xHH`; Apache writes `\"` and `\\` besides.
fn unescaped(logged: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(logged.len());
    let mut rest = logged.as_bytes();
    while let Some(&first) = rest.first() {
        let (byte, length) = match rest {
            [b'\\', b'x', high, low, ..] => byte_of([*high, *low]).map_or((first, 1), |byte| (byte, 4)),
            [b'\\', byte @ (b'"' | b'\\'), ..] => (*byte, 2),
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

fn byte_of(digits: [u8; 2]) -> Option<u8> {
    let mut byte = [0];
    HEXLOWER_PERMISSIVE.decode_mut(&digits, &mut byte).ok()?;
    Some(byte[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field of a line that has a request and a user agent.
    fn read(host: &str, request: &str, user_agent: &str, field: Field) -> String {
        let at = "[01/Nov/2026:10:00:00 +0000]";
        let line = format!(r#"{host}192.0.2.1 - - {at} "{request}" 200 10 "-" "{user_agent}" "t-1" "other.test""#);
        parse(&line).unwrap().text(field).to_owned()
    }

    #[test]
    fn what_a_server_escapes_in_its_log_is_undone() {
        for (request, path) in [
            (r"GET /caf\xC3\xA9?q=\xe2\x82\xac HTTP/1.1", "/caf%C3%A9?q=%E2%82%AC"),
            (r"GET /\xE9\x7F\x09 HTTP/1.1", "/%E9%7F%09"),
            (r#"GET /a?q=\"b\x22\x5Cc\\d HTTP/1.1"#, r#"/a?q="b"\c\d"#),
            (r"GET /\x5Cx41\\x41 HTTP/1.1", r"/\x41\x41"),
            (r"GET /\xZZ\x4 HTTP/1.1", r"/\xZZ\x4"),
            ("GET /caf%C3%A9 HTTP/1.1", "/caf%C3%A9"),
        ] {
            assert_eq!(read("", request, "x", Field::Path), path, "{request}");
        }
        for (logged, user_agent) in
            [(r#"Bot/1 \"a\" \x22b\x22 caf\xC3\xA9"#, "Bot/1 \"a\" \"b\" caf\u{e9}"), (r"C:\\x41 \xE9", "C:\\x41 \u{fffd}")]
        {
            assert_eq!(read("", "GET / HTTP/1.1", logged, Field::UserAgent), user_agent);
        }
        assert_eq!(read("", r"\x16\x03\x01", "x", Field::Method), "", "what is no HTTP leaves no method");
    }

    #[test]
    fn a_port_before_the_line_stays_unless_a_scheme_has_it_anyway() {
        for (before, host) in [
            ("a.test:8443 ", "a.test:8443"),
            ("a.test:443 ", "a.test"),
            ("a.test:80 ", "a.test"),
            ("a.test:* ", "a.test"),
            ("a.test ", "a.test"),
            ("", "other.test"),
        ] {
            assert_eq!(read(before, "GET / HTTP/1.1", "x", Field::Host), host, "{before}");
        }
    }
}
