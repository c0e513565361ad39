//! The common log format and formats that begin like it: combined, also with the host before it or the correlation header, the host
//! and the request id after it; nginx's `main`; Traefik's; ingress-nginx's.
//!
//! ```text
//! [host[:port]] address identity user [time] "method target protocol" status bytes "referer" "user agent" [more]
//! ```
//!
//! Text from visitors must not move a field: before the time, they choose the user (HTTP Basic), in which most servers
//! escape only quotes. Traefik and Express don't escape text, so a line with two requests is bad.

use super::super::line_fields::{Field, Fields, Reason, address_in};
use super::{FormatId, begins_with_day, put_request_line};
use data_encoding::HEXLOWER_PERMISSIVE;
use schemas::site::Site;
use std::borrow::Cow;
use uuid::Uuid;

/// Fields that can follow the quoted user agent.
const MORE: [Field; 3] = [Field::TelemetryId, Field::Host, Field::RequestId];

/// Parses a line from the parts before its time, the time, and the parts after it.
pub(super) fn parse<'a>(before: &'a str, time: &'a str, rest: &'a str) -> Result<Fields<'a>, Reason> {
    let mut fields = Fields::new(FormatId::Combined);
    put_before(before, &mut fields);
    fields.put(Field::Time, Cow::Borrowed(time));
    let (request, rest) = request(rest).ok_or("not_combined")?;
    put_request_line(unescaped_target(last_text(request)), &mut fields);
    let (status, rest) = rest.split_once(' ').ok_or("not_combined")?;
    let (bytes, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    fields.put(Field::Status, Cow::Borrowed(status));
    fields.put(Field::Bytes, Cow::Borrowed(bytes));
    put_agent(rest, &mut fields)?;
    // Traefik doesn't escape quotes.
    if is_beginning(before, fields.format == Some(FormatId::TraefikClf)) { Ok(fields) } else { Err("not_combined") }
}

/// Returns whether the text has the form `[host] addresses [proxy] [identity] user`. Other logs, such as nginx's error log, contain
/// visitors' text that looks like a request. The user may contain spaces if an identity precedes it, and an unescaped quote only if the
/// server doesn't escape quotes.
fn is_beginning(text: &str, is_unescaped: bool) -> bool {
    let is_quoted = |text: &str| text.strip_prefix('"').and_then(end_of_quoted).is_some_and(|end| end + 2 == text.len());
    let has_no_quote = |text: &str| is_unescaped || end_of_quoted(text).is_none();
    let is_assignment = |text: &str| {
        text.split_once('=').is_some_and(|(name, _)| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    };
    let ends_with_address = |text: &str| is_address(text.rsplit(',').next().unwrap_or_default().trim()) && !is_assignment(text);
    let is_list = |text: &str| is_quoted(text) || (has_no_quote(text) && ends_with_address(text));
    let is_of_addresses = |text: &str| is_list(text) && is_address(text);
    let has_identity = |rest: &str| word(rest).0 == "-" || is_host_name(word(rest).0);
    let (first, mut rest) = addresses(text);
    let is_host = || has_no_quote(first) && !begins_with_day(first) && is_of_addresses(addresses(rest).0);
    let is_looked_up = || (first == "-" || is_host_name(first)) && has_identity(rest);
    if !is_list(first) && !is_host() && !is_looked_up() {
        return false;
    }
    for _ in 0..4 {
        let (list, after) = addresses(rest);
        rest = if is_list(list) { after } else { rest };
    }
    has_no_quote(rest) && (has_identity(rest) || (rest.split(' ').count() <= 2 && !is_assignment(rest)))
}

/// `[host] addresses identity user`.
fn put_before<'a>(before: &'a str, fields: &mut Fields<'a>) {
    let mut rest = before;
    let (first, after) = word(rest);
    // If the server resolves addresses to names, a name that isn't followed by an address is the visitor's own.
    let is_host = (is_address(word(after).0) || first.contains(':')) && is_host_name(first);
    if is_host {
        fields.put(Field::UnsureHost, Cow::Borrowed(without_usual_port(first)));
        rest = after;
    }
    let (address, rest) = client_address(rest);
    // Here, `X-Forwarded-For` can contain more than addresses, so its last address, which a proxy appended, may be missing.
    let ends_as_usual = rest.split(' ').count() <= 2 && !rest.contains(',');
    if let Some(address) = address.filter(|_| ends_as_usual) {
        fields.put(Field::Address, Cow::Borrowed(address));
    }
    // Lighttpd writes the requested host in place of the identity, which doesn't contain a dot.
    let (identity, user) = word(rest);
    if !is_host && ends_as_usual && !user.is_empty() && is_host_name(identity) {
        fields.put(Field::UnsureHost, Cow::Borrowed(without_usual_port(identity)));
    }
}

/// Returns the client's address, and the text after the addresses. If there are several addresses, any of them can come from a header that
/// the visitor sent, so none can verify an agent. A missing header before the address is `-`.
fn client_address(text: &str) -> (Option<&str>, &str) {
    let ((mut client, mut rest), mut is_only) = (addresses(text), true);
    while is_address(word(rest).0) {
        let (list, after) = addresses(rest);
        // An identity and a user follow.
        let is_column = after.contains(' ');
        if client == "-" && is_column {
            client = list;
        } else {
            is_only = false;
        }
        if !is_column {
            break;
        }
        rest = after;
    }
    let client = client.trim_matches('"');
    ((is_only && address_in(client).is_some()).then_some(client), rest)
}

/// Returns the leading address or list of addresses, whatever its first part is, and the text after it.
fn addresses(text: &str) -> (&str, &str) {
    let (mut last, mut after) = word(text);
    while last.ends_with(',') && (is_address(word(after).0) || word(after).0.ends_with(',')) {
        (last, after) = word(after);
    }
    let length = text.len() - after.len();
    (text[..length].trim_end(), after)
}

/// Returns the first word or quoted text, and the text after it.
fn word(text: &str) -> (&str, &str) {
    if let Some(quoted) = text.strip_prefix('"')
        && let Some(end) = end_of_quoted(quoted)
    {
        let (part, rest) = text.split_at(end + 2);
        return (part, rest.strip_prefix(' ').unwrap_or(rest));
    }
    text.split_once(' ').unwrap_or((text, ""))
}

/// Returns whether the text is a public hostname, with or without a port.
fn is_host_name(text: &str) -> bool {
    let (name, port) = text.rsplit_once(':').unwrap_or((text, ""));
    (port == "*" || port.bytes().all(|byte| byte.is_ascii_digit())) && name.contains('.') && Site::from_domain(name).is_ok()
}

/// Returns whether a part is an address, a list of addresses, or a placeholder for one.
fn is_address(part: &str) -> bool {
    let part = part.strip_suffix(',').unwrap_or(part);
    let is_one = |part: &str| matches!(part, "unix:" | "localhost" | "unknown") || address_in(part).is_some();
    part.starts_with('"') || part.split(',').all(|part| is_one(part.trim()))
}

/// Removes an invalid port, or a scheme's default port. Other ports identify a site.
fn without_usual_port(host: &str) -> &str {
    let is_usual = |port: &str| matches!(port, "80" | "443") || port.parse::<u16>().is_err();
    host.rsplit_once(':').filter(|(_, port)| is_usual(port)).map_or(host, |(name, _)| name)
}

/// Returns the request line, and the text after it, which begins with a status. Traefik doesn't escape quotes.
pub(super) fn request(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let end = from + end_of_quoted(&text[from..])?;
        let rest = text.get(end + 1..)?;
        let is_status =
            matches!(rest.as_bytes(), [b' ', b'-', b' ', ..] | [b' ', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b' ', ..]);
        if is_status {
            return Some((&text[..end], &rest[1..]));
        }
        from = end + 1;
    }
}

/// Returns the last of several quoted strings, because a format can have the host before the request line. Methods don't contain quotes.
fn last_text(texts: &str) -> &str {
    let is_several = texts.split(' ').next().is_some_and(|method| method.contains('"'));
    texts.rsplit_once("\" \"").filter(|_| is_several).map_or(texts, |(_, last)| last)
}

/// Sets `"referer" "user agent"` and the fields after them. The common log format has neither.
fn put_agent<'a>(text: &'a str, fields: &mut Fields<'a>) -> Result<(), Reason> {
    if let Some(user_agent) = of_traefik(text) {
        fields.format = Some(FormatId::TraefikClf);
        fields.put(Field::UserAgent, Cow::Borrowed(user_agent));
        return Ok(());
    }
    let after_referer = match text.strip_prefix("- ") {
        Some(rest) if rest.starts_with('"') => rest,
        None if text.starts_with('"') => quoted(text).ok_or("not_combined")?.1,
        // Apache Traffic Server has more numbers here.
        _ => {
            fields.format = Some(FormatId::Common);
            return Ok(());
        }
    };
    let (user_agent, more) = quoted(after_referer).ok_or("not_combined")?;
    if text.starts_with("\"\" \"\" ") && is_haproxy_clf(more) {
        return Ok(());
    }
    fields.put(Field::UserAgent, unescaped_text(user_agent));
    if let Some(id) = of_ingress_nginx(more) {
        fields.format = Some(FormatId::IngressNginx);
        if is_request_id(id) {
            fields.put(Field::RequestId, Cow::Borrowed(id));
        }
        return Ok(());
    }
    put_more(more, fields);
    Ok(())
}

/// Sets the quoted fields after the user agent in our formats; other quoted strings are ignored. Servers also log headers there, which
/// visitors choose, so the second is a host only if an id like nginx's `$request_id` follows. A time, an address, a cache status or `-`
/// isn't such an id, and isn't read. A log with two other headers and such an id can't be distinguished from ours (docs/drains/nginx.md).
fn put_more<'a>(more: &'a str, fields: &mut Fields<'a>) {
    let (mut values, mut rest) = ([None; MORE.len()], more);
    for value in &mut values {
        if let Some((text, after)) = quoted(rest) {
            (*value, rest) = (Some(text), after);
        }
    }
    if !values[2].is_some_and(is_request_id) {
        (values[1], values[2]) = (None, None);
    }
    if rest.is_empty() {
        for (field, value) in MORE.into_iter().zip(values) {
            value.into_iter().for_each(|value| fields.put(field, unescaped_text(value)));
        }
    }
}

/// Returns whether the text is a server's id: a UUID, or 32 hexadecimal digits. 16 digits can be a time in microseconds.
pub(super) fn is_request_id(text: &str) -> bool {
    Uuid::try_parse(text).is_ok()
}

/// Returns whether a line ends with Traefik's columns. Its beginning can be missing, because visitors can write line breaks.
pub(super) fn is_of_traefik(line: &str) -> bool {
    before_traefik_columns(line).is_some_and(|rest| rest.ends_with('"'))
}

/// Returns the user agent in Traefik's lines.
fn of_traefik(text: &str) -> Option<&str> {
    let rest = before_traefik_columns(text)?;
    let agent = match rest.strip_prefix("- \"") {
        Some(agent) => agent,
        None => rest.strip_prefix('"')?.split_once("\" \"")?.1,
    };
    agent.strip_suffix('"')
}

/// Returns the text before `N "router" "server" Nms`. Traefik doesn't escape quotes, so its own columns are counted from the end.
fn before_traefik_columns(text: &str) -> Option<&str> {
    let (rest, duration) = text.rsplit_once(' ')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !duration.strip_suffix("ms").is_some_and(is_number) {
        return None;
    }
    let rest = without_last(without_last(rest)?)?;
    rest.rsplit_once(' ').filter(|(_, count)| is_number(count)).map(|(rest, _)| rest)
}

/// Removes the last part, which is quoted. Servers that escape quotes in headers can't write it for a visitor.
fn without_last(text: &str) -> Option<&str> {
    text.strip_suffix('"')?.rsplit_once(" \"").map(|(rest, _)| rest)
}

/// Returns whether HAProxy's `port milliseconds "frontend"` follow the user agent, which is always empty with `option httplog clf`.
fn is_haproxy_clf(more: &str) -> bool {
    let mut words = more.split(' ');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    words.by_ref().take(2).all(is_number) && words.next().is_some_and(|frontend| frontend.starts_with('"'))
}

/// Returns the id from `length time [upstream name] [alternative] upstream … id`.
fn of_ingress_nginx(more: &str) -> Option<&str> {
    let mut words = more.split(' ');
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_its = words.next().is_some_and(is_number) && words.next().is_some_and(is_number) && words.next()?.starts_with('[');
    is_its.then(|| words.next_back()).flatten()
}

/// Returns the leading quoted text, and the text after the quotes and a space.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let (value, rest) = text.split_at_checked(end_of_quoted(text)?)?;
    let rest = &rest[1..];
    Some((value, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Returns the closing quote's index. Quotes within the text are written `\"` or `\x22`.
fn end_of_quoted(text: &str) -> Option<usize> {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

/// Decodes the escapes in a value.
pub(super) fn unescaped_text(logged: &str) -> Cow<'_, str> {
    if logged.contains('\\') {
        Cow::Owned(String::from_utf8_lossy(&unescaped(logged)).replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(logged)
    }
}

/// Decodes a request line's escapes. Its bytes may not be UTF-8, and all of them are part of the page.
pub(super) fn unescaped_target(logged: &str) -> Cow<'_, str> {
    if logged.contains('\\') {
        Cow::Owned(percent_encoding::percent_encode(&unescaped(logged), percent_encoding::CONTROLS).to_string())
    } else {
        Cow::Borrowed(logged)
    }
}

/// Decodes escapes to bytes: nginx writes quotes, backslashes, control characters and
/// non-ASCII bytes as `\xHH`; Apache also writes `\"` and `\\`.
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
    use super::super::text;
    use super::*;

    /// Returns one field from a line with this request and user agent.
    fn read(host: &str, request: &str, user_agent: &str, field: Field) -> String {
        let at = "[01/Nov/2026:10:00:00 +0000]";
        let line = format!(
            r#"{host}192.0.2.1 - - {at} "{request}" 200 10 "-" "{user_agent}" "t-1" "other.test" "529a007902362a5f51385a5fa7049884""#
        );
        text::parse(&line).unwrap().text(field).to_owned()
    }

    #[test]
    fn decodes_server_escapes() {
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
        assert_eq!(read("", r"\x16\x03\x01", "x", Field::Method), "", "a request that is not HTTP has no method");
    }

    #[test]
    fn keeps_only_unusual_ports_of_a_leading_host() {
        for (before, host) in [
            ("a.test:8443 ", "a.test:8443"),
            ("a.test:443 ", "a.test"),
            ("a.test:80 ", "a.test"),
            ("a.test:* ", "a.test"),
            ("a.test ", "a.test"),
            ("", "other.test"),
        ] {
            let field = if before.is_empty() { Field::Host } else { Field::UnsureHost };
            assert_eq!(read(before, "GET / HTTP/1.1", "x", field), host, "{before}");
        }
    }
}
