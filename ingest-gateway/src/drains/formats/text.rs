//! Text access logs. Each format is recognized by text that only the server can write.

use super::super::line_fields::{Field, Fields, address_in};
use super::without_agents;
use super::{
    FormatId, NoRequest, begins_with_day, columns, combined, envoy, has_shape, put_request_line, put_url_host, unescaped,
};
use schemas::identity::DrainProvider;
use serde_json::Value;
use std::borrow::Cow;
use std::net::SocketAddr;

/// First words of AWS load balancer lines.
const ALB_TYPES: [&str; 6] = ["http", "https", "h2", "grpcs", "ws", "wss"];

/// The time in the common log format and a quote, which user names can't contain because servers escape quotes.
const COMMON_LOG_TIME: &str = "dd/aaa/dddd:dd:dd:dd sdddd] \"";
const HAPROXY_TIME: &str = "dd/aaa/dddd:dd:dd:dd.ddd] ";
/// Maximum number of quotes in a cookie that look like a request of HAProxy.
const MAX_TLS_COLUMNS: usize = 4;

type Recognizer = fn(&str) -> bool;
type Parser = fn(&str) -> Result<Fields<'_>, NoRequest>;
/// Formats that are recognized by the beginning of a line.
const BY_BEGINNING: [(Recognizer, Parser); 8] = [
    (is_application_load_balancer, application_load_balancer),
    (is_classic_load_balancer, classic_load_balancer),
    (is_bunny, |line| in_columns(bunny(line))),
    (envoy::is_envoy, envoy::parse),
    (columns::is_nginx_proxy_manager, |line| in_columns(columns::nginx_proxy_manager(line))),
    (columns::is_gcore, |line| in_columns(columns::gcore(line))),
    (columns::is_keycdn, |line| in_columns(columns::keycdn(line))),
    (columns::is_s3, columns::s3),
];

pub(super) fn parse(whole: &str) -> Result<Fields<'_>, NoRequest> {
    let line = without_header(whole);
    if let Some((_, parser)) = BY_BEGINNING.iter().find(|(is_its, _)| is_its(line)) {
        match (parser(line), is_of_another_server(line)) {
            (Err(NoRequest::Bad(_)), true) => {}
            // Visitors' text at the beginning of a combined line can look like columns of another format.
            (_, true) => return Err("wrong_columns".into()),
            (read, false) => return read,
        }
    }
    let common = cut_at_time(line, COMMON_LOG_TIME);
    if let Some((before, time, rest)) = cut_at_time(line, HAPROXY_TIME).filter(|of| is_of_haproxy(of.0, common.map(|of| of.0))) {
        if is_of_another_server(rest) {
            return Err("wrong_columns".into());
        }
        return haproxy(before, time, rest).ok_or_else(|| "not_combined".into());
    }
    if let Some((before, time, rest)) = common {
        if has_request(rest) {
            return Err("wrong_columns".into());
        }
        let mut fields = combined::parse(before, time, rest)?;
        // Visitors' text at the beginning of a line can look like a header, which would hide the real address.
        fields.is_address_trusted = line.len() == whole.len();
        if fields.format == Some(FormatId::TraefikClf) {
            // Lines begin with the client, and a host there comes from a forwarded header. User names and their line breaks aren't escaped,
            // so visitors can write whole lines.
            fields.take(Field::UnsureHost);
            fields.is_address_trusted = false;
        }
        return Ok(fields);
    }
    without_agents::parse(whole).or_else(|| without_agents::parse(line)).ok_or_else(|| "not_combined".into())
}

fn in_columns(fields: Option<Fields<'_>>) -> Result<Fields<'_>, NoRequest> {
    fields.ok_or_else(|| "wrong_columns".into())
}

/// Removes the header of syslog (RFC 3164, RFC 5424, or with a whole time; the length before it in RFC 6587) or of a container's log in
/// Kubernetes.
fn without_header(line: &str) -> &str {
    let after_words = |text: &str, count: usize| text.match_indices(' ').nth(count - 1).map(|(at, _)| at + 1);
    let framed = line.trim_start_matches(|character: char| character.is_ascii_digit()).strip_prefix(" <");
    let text = framed.or_else(|| line.strip_prefix('<')).and_then(|rest| rest.split_once('>')).map_or(line, |(_, text)| text);
    if let Some(rest) = text.strip_prefix("1 ").filter(|rest| begins_with_day(rest)) {
        // Time, host, application, process, message id, data.
        return after_words(rest, 6).map_or(line, |at| &rest[at..]);
    }
    let has_shape = |shape| has_shape(text.as_bytes(), shape);
    let rest = if has_shape("aaa dd dd:dd:dd ") || has_shape("aaa  d dd:dd:dd ") {
        &text[16..]
    } else if has_shape("dddd-dd-ddTdd:dd:dd") {
        after_words(text, 1).map_or("", |at| &text[at..])
    } else {
        return line;
    };
    if let Some(entry) = ["stdout F ", "stdout P ", "stderr F ", "stderr P "].iter().find_map(|begin| rest.strip_prefix(begin)) {
        return entry;
    }
    // The host may be missing.
    let ends = [1, 2].into_iter().filter_map(|count| after_words(rest, count));
    ends.filter(|end| rest[..*end].ends_with(": ")).map(|end| &rest[end..]).next().unwrap_or(line)
}

/// Returns whether a line comes from HAProxy, given the text before its time and the text before a time in the common log format. HAProxy
/// doesn't escape cookies, so the first time counts. If a list of addresses ends before the second one, the first can be in the header
/// `X-Forwarded-For`.
fn is_of_haproxy(before: &str, before_common: Option<&str>) -> bool {
    let ends_with_list = |text: &str| {
        let mut words = text.rsplit(' ').skip(2);
        words.next().is_some_and(|word| address_in(word).is_some()) && words.next().is_some_and(|word| word.ends_with(','))
    };
    let is_client = before.rsplit_once(':').is_some_and(|(address, _)| address == "unix" || address_in(address).is_some());
    is_client
        && !before.contains(' ')
        && before_common.is_none_or(|common| common.len() > before.len() && !ends_with_list(common))
}

/// Returns whether a line, or the text that a shipper sends in it, ends like Traefik's.
pub(in super::super) fn is_of_traefik(provider: DrainProvider, line: &[u8]) -> bool {
    let is_its = |text: &str| combined::is_of_traefik(text.trim_end());
    match provider {
        DrainProvider::Combined => line.ends_with(b"ms") && is_its(&String::from_utf8_lossy(line)),
        DrainProvider::Ndjson => {
            let ends = [r#"ms""#, r#"ms\n""#, r#"ms\r\n""#];
            let can_contain = ends.iter().any(|end| memchr::memmem::find(line, end.as_bytes()).is_some());
            let read = can_contain.then(|| serde_json::from_slice::<Value>(line).ok()).flatten();
            read.is_some_and(|read| {
                let texts = [&read["log"], &read["message"], &read["event.original"], &read["event"]["original"]];
                texts.into_iter().filter_map(Value::as_str).any(is_its)
            })
        }
        _ => false,
    }
}

/// Returns whether a line contains a request in the common log format, or ends like Traefik's. If it begins like another format, one of the
/// two is visitors' text.
fn is_of_another_server(line: &str) -> bool {
    has_request(line) || combined::is_of_traefik(line)
}

/// Returns whether the text contains a time and a request. After the line's own time, these are forged: nginx, Apache and Lighttpd escape
/// quotes, so a quote ends a visitor's text, and a space, KeyCDN's next column or nothing follows. Traefik, Express (morgan) and others
/// don't escape quotes: a user name or forwarded header can contain the beginning of a line, and the server's own fields follow later.
fn has_request(mut text: &str) -> bool {
    while let Some((_, _, rest)) = cut_at_time(text, COMMON_LOG_TIME) {
        let quoted = rest.get(1..).unwrap_or_default();
        let is_request = match quoted.as_bytes().first() {
            None | Some(b' ') => false,
            // Methods can contain it, and KeyCDN has it between columns.
            Some(b'|') => quoted.trim_start_matches(is_of_method).starts_with(' '),
            Some(_) => true,
        };
        if is_request {
            return true;
        }
        text = rest;
    }
    false
}

/// Returns whether a method can contain this character (RFC 9110, section 5.6.2).
fn is_of_method(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

/// Splits a line at the first ` [` that is followed by a time of this shape. Returns the time, and the parts before and after it.
fn cut_at_time<'a>(line: &'a str, shape: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(b'[', line.as_bytes().get(from..)?)?;
        if at > 0 && line.as_bytes()[at - 1] == b' ' && has_shape(&line.as_bytes()[at + 1..], shape) {
            let (time, rest) = line.get(at + 1..)?.split_once(']')?;
            return Some((&line[..at - 1], time, rest.strip_prefix(' ').unwrap_or(rest)));
        }
        from = at + 1;
    }
}

fn is_application_load_balancer(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(kind, rest)| ALB_TYPES.contains(&kind) && begins_with_day(rest))
}

/// `type time elb client:port target:port … elb_status target_status received sent "request" "user agent" …` (AWS, "Access logs for your
/// Application Load Balancer"). None of its ids identifies the request: visitors choose `Root=…`, and `TID_…` is the connection's.
fn application_load_balancer(line: &str) -> Result<Fields<'_>, NoRequest> {
    load_balancer(FormatId::AwsAlb, line.split_once(' ').unwrap_or_default().1)
}

/// Returns whether a line begins with a time, the name of a load balancer and an address with a port.
fn is_classic_load_balancer(line: &str) -> bool {
    let is_client = |word: &str| word.parse::<SocketAddr>().is_ok();
    begins_with_day(line) && line.split(' ').nth(2).is_some_and(is_client)
}

/// Like the format of Application Load Balancers, without the type.
fn classic_load_balancer(line: &str) -> Result<Fields<'_>, NoRequest> {
    load_balancer(FormatId::AwsElb, line)
}

/// TCP connections, and connections that end before a whole request, have no request.
fn load_balancer(format: FormatId, line: &str) -> Result<Fields<'_>, NoRequest> {
    let fields = in_columns(load_balancer_columns(format, line))?;
    if fields.get(Field::Method).is_none() { Err(NoRequest::Other) } else { Ok(fields) }
}

fn load_balancer_columns(format: FormatId, line: &str) -> Option<Fields<'_>> {
    let mut fields = Fields::new(format);
    let mut words = line.splitn(12, ' ');
    let mut put = |place, field| {
        let word = words.nth(place)?;
        fields.put(field, Cow::Borrowed(word));
        Some(())
    };
    put(0, Field::Time)?;
    put(1, Field::Address)?;
    put(4, Field::Status)?;
    put(2, Field::Bytes)?;
    fields.at_ms().ok()?;
    let (request, rest) = combined::quoted(words.next()?)?;
    put_request_line(combined::unescaped_target(request), &mut fields);
    put_url_host(Field::Host, &mut fields);
    let (user_agent, _) = combined::quoted(rest)?;
    fields.put(Field::UserAgent, combined::unescaped_text(user_agent));
    Some(fields)
}

/// Returns whether a line begins with Bunny's first columns: cache status, status, time in milliseconds.
fn is_bunny(line: &str) -> bool {
    let mut columns = line.split('|');
    let is_cache_status = |text: &str| text == "-" || text.bytes().all(|byte| byte.is_ascii_uppercase());
    let (cache, status, time) = (columns.next(), columns.next(), columns.next());
    let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    cache.is_some_and(is_cache_status)
        && status.is_some_and(|status| status == "-" || is_number(status, 3))
        && time.is_some_and(|time| is_number(time, 13))
}

/// `cache|status|time|bytes|pull zone|address|referer|url|edge|user agent|request id|country`, and three more columns if they are chosen
/// (Bunny, "Log format"). It doesn't contain the method. Whether visitors' `|` characters are escaped isn't documented, so columns after
/// the sixth are counted from both ends, around the only URL, which an edge code follows.
fn bunny(line: &str) -> Option<Fields<'_>> {
    let columns: Vec<&str> = line.split('|').collect();
    let is_of_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let is_edge = |text: &str| {
        (2..=4).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.bytes().all(is_of_code)
    };
    let is_url = |text: &str| text.starts_with("https://") || text.starts_with("http://");
    let mut urls = (7..columns.len()).filter(|at| is_url(columns[*at]));
    let url = urls.next().filter(|at| urls.next().is_none() && columns.get(at + 1).is_some_and(|edge| is_edge(edge)))?;
    let is_country = |text: &str| text == "-" || (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase()));
    let id = [columns.len().checked_sub(2)?, columns.len().checked_sub(5)?].into_iter().find(|at| {
        let is_id = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        *at > url + 2 && is_id(columns[*at]) && is_country(columns[at + 1])
    })?;
    let mut fields = Fields::new(FormatId::Bunny);
    for (field, at) in [(Field::Cache, 0), (Field::Status, 1), (Field::Time, 2), (Field::Bytes, 3), (Field::Path, url)] {
        fields.put(field, Cow::Borrowed(columns[at]));
    }
    put_url_host(Field::Host, &mut fields);
    // Addresses are anonymized by default and then can't verify an agent.
    if !columns[5].ends_with(".0") && !columns[5].ends_with("::") {
        fields.put(Field::Address, Cow::Borrowed(columns[5]));
    }
    fields.put(Field::Method, Cow::Borrowed("GET"));
    fields.put(Field::UserAgent, Cow::Owned(columns[url + 2..id].join("|")));
    fields.put(Field::RequestId, Cow::Borrowed(columns[id]));
    fields.put(Field::Country, Cow::Borrowed(columns[id + 1]));
    Some(fields)
}

/// `client:port [time] frontend backend/server timers status bytes cookie … [{captures}] "request"`, and in the format for HTTPS `errors
/// name/version/cipher` after it (HAProxy, "HTTP log format", "HTTPS log format"). Captured headers have no names: the first is read as
/// `Host`, the second as `User-Agent`, and others aren't read. Braces, quotes and `|` in captures and requests are written as `#HH`; a
/// cookie before them and the TLS name after them aren't escaped, so a line with both is bad if it can be read in two ways. Syslog can
/// truncate a line within its request.
fn haproxy<'a>(before: &'a str, time: &'a str, rest: &'a str) -> Option<Fields<'a>> {
    let is_timers =
        |word: &str| word.split('/').count() == 5 && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'/' | b'-' | b'+'));
    let mut columns = rest.split(' ');
    let frontend = columns.next()?;
    columns.find(|word| is_timers(word))?;
    let (status, bytes) = (columns.next()?, columns.next()?);
    let has_cookie = columns.next()? != "-";
    let (words, request) = if has_cookie { request_after_cookie(rest) } else { rest.split_once(" \"") }?;
    let (request, tls) = request.split_once('"').unwrap_or((request, ""));
    let (format, scheme) = match tls.rsplit('/').nth(1) {
        None => (FormatId::Haproxy, if frontend.ends_with('~') { "https" } else { "http" }),
        Some(version) => (FormatId::HaproxyHttps, if version == "-" { "http" } else { "https" }),
    };
    let mut fields = Fields::new(format);
    fields.put(Field::Time, Cow::Borrowed(time));
    fields.put(Field::Address, Cow::Borrowed(before.rsplit_once(':')?.0));
    fields.put(Field::Scheme, Cow::Borrowed(scheme));
    fields.put(Field::Status, Cow::Borrowed(status));
    fields.put(Field::Bytes, Cow::Borrowed(bytes.trim_start_matches('+')));
    put_request_line(Cow::Owned(hash_escapes(request)), &mut fields);
    let mut captures = request_captures(words).unwrap_or_default().split('|');
    let text = |capture: &str| {
        let escaped = hash_escapes(capture);
        unescaped(&escaped).unwrap_or(escaped)
    };
    if let (Some(host), Some(user_agent)) = (captures.next(), captures.next()) {
        fields.put(Field::UnsureHost, Cow::Owned(text(host)));
        // A capture that contains a URL is another header. An empty capture before others can be another header too.
        let is_other = user_agent.contains("://") && !user_agent.contains(' ');
        let is_one_of_several = user_agent.is_empty() && captures.next().is_some();
        if !is_other && !is_one_of_several {
            fields.put(Field::UserAgent, Cow::Owned(text(user_agent)));
        }
    }
    Some(fields)
}

/// Splits a line with a cookie before its request. The last quote begins the request, unless it is part of the TLS name at the end. Returns
/// `None` if an earlier quote can begin it too.
fn request_after_cookie(rest: &str) -> Option<(&str, &str)> {
    let (words, request) = rest.rsplit_once(" \"")?;
    let is_of_tls = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !rest.rsplit('/').take(2).all(|part| part.bytes().all(is_of_tls)) {
        return Some((words, request));
    }
    let is_certain = has_counts(words);
    let parts = |at: usize| (&rest[..at], &rest[at + 2..]);
    let mut earlier = words
        .match_indices(" \"")
        .map(|(at, _)| parts(at))
        .filter(|(_, request)| request.split_once('"').is_some_and(|(_, tls)| is_tls_column(tls)));
    // Checking each would take too long.
    let is_other = |(words, _): (&str, &str)| !is_certain || has_counts(words);
    let is_disputed = earlier.by_ref().take(MAX_TLS_COLUMNS).any(is_other) || earlier.next().is_some();
    (!is_disputed).then_some((words, request))
}

/// Returns whether the text begins like the TLS column: ` error/error/error/error/resumed name/`.
fn is_tls_column(text: &str) -> bool {
    let errors = text.strip_prefix(' ').and_then(|text| text.split(' ').next()).unwrap_or_default();
    errors.split('/').count() == 5 && errors.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'/' | b'-'))
}

/// Returns whether the text ends with the numbers of connections and of queued requests, and captures.
fn has_counts(words: &str) -> bool {
    let mut counts = split_captures(words).0.rsplit(' ');
    let mut has = |length| counts.next().is_some_and(|word| word.split('/').count() == length);
    has(2) && has(5)
}

/// Returns the captured request headers at the end, before any captured response headers.
fn request_captures(words: &str) -> Option<&str> {
    split_captures(words).1
}

/// Splits the captures from the end.
fn split_captures(words: &str) -> (&str, Option<&str>) {
    let (mut words, mut captures) = (words, None);
    for _ in 0..2 {
        if let Some((rest, last)) = words.strip_suffix('}').and_then(|words| words.rsplit_once(" {")) {
            (words, captures) = (rest, Some(last));
        }
    }
    (words, captures)
}

/// Replaces HAProxy's `#HH` escapes with percent escapes.
fn hash_escapes(text: &str) -> String {
    let mut parts = text.split('#');
    let mut escaped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_escape = part.as_bytes().first_chunk::<2>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        escaped.push(if is_escape { '%' } else { '#' });
        escaped.push_str(part);
    }
    escaped
}
