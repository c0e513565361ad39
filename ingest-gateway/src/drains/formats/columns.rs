//! Text formats of single vendors, whose columns have fixed places: Nginx Proxy Manager, Gcore, KeyCDN and Amazon S3.

use super::super::line_fields::{Field, Fields, address_in};
use super::{FormatId, NoRequest, combined, has_shape, put_request_line};
use combined::{quoted, unescaped_target, unescaped_text};
use std::borrow::Cow;

const TIME_OF_MANAGER: &str = "[dd/aaa/dddd:dd:dd:dd sdddd] ";
const TIME_OF_KEYCDN: &str = "dddddddddd.ddd|";
/// Length of the bucket owner's id.
const OWNER_BYTES: usize = 64;
/// Operations that return an object; others manage the bucket.
const OPERATIONS: [&str; 4] = ["WEBSITE.GET.OBJECT", "WEBSITE.HEAD.OBJECT", "REST.GET.OBJECT", "REST.HEAD.OBJECT"];

pub(super) fn is_nginx_proxy_manager(line: &str) -> bool {
    has_shape(line.as_bytes(), TIME_OF_MANAGER)
}

/// `[time] [cache upstream] status - method scheme host "target" [Client address] [Length bytes] [Gzip ratio] [Sent-to server]
/// "user agent" "referer"`. The address isn't read, because it is the `X-Real-IP` header of every request from a private network.
pub(super) fn nginx_proxy_manager(line: &str) -> Option<Fields<'_>> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (head, rest) = rest.split_at(rest.find(" \"")?);
    let (target, rest) = quoted(&rest[1..])?;
    let mut words = head.rsplit(' ');
    let (host, scheme, method, dash, status) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let (_, rest) = rest.strip_prefix("[Client ")?.split_once("] [Length ")?;
    let (bytes, rest) = rest.split_once("] [Gzip ")?;
    let (user_agent, _) = quoted(&rest[rest.find('"')?..])?;
    if dash != "-" || !matches!(scheme, "http" | "https") {
        return None;
    }
    let mut fields = Fields::new(FormatId::NginxProxyManager);
    for (field, text) in [
        (Field::Time, time),
        (Field::Status, status),
        (Field::Method, method),
        (Field::Scheme, scheme),
        (Field::Host, host),
        (Field::Bytes, bytes),
    ] {
        fields.put(field, Cow::Borrowed(text));
    }
    fields.put(Field::Path, unescaped_target(target));
    fields.put(Field::UserAgent, unescaped_text(user_agent));
    Some(fields)
}

/// Returns whether a line begins with an address, `-`, a user and a time, each in quotes.
pub(super) fn is_gcore(line: &str) -> bool {
    let begins = || {
        let (address, rest) = quoted(line)?;
        let (_, rest) = quoted(rest.strip_prefix("\"-\" ")?)?;
        Some(address_in(address).is_some() && rest.starts_with("\"["))
    };
    begins().unwrap_or_default()
}

/// `"address" "-" "user" "[time]" "request" "status" "bytes" "referer" "user agent" "bytes" "edge" "scheme" "host" …`
pub(super) fn gcore(line: &str) -> Option<Fields<'_>> {
    let (mut texts, mut rest) = ([""; 13], line);
    for text in &mut texts {
        (*text, rest) = quoted(rest)?;
    }
    let [address, _, _, time, request, status, bytes, _, user_agent, _, _, scheme, host] = texts;
    let mut fields = Fields::new(FormatId::Gcore);
    put_request_line(unescaped_target(request), &mut fields);
    for (field, text) in [
        (Field::Address, address),
        (Field::Time, time),
        (Field::Status, status),
        (Field::Bytes, bytes),
        (Field::Scheme, scheme),
        (Field::Host, host),
    ] {
        fields.put(field, Cow::Borrowed(text));
    }
    fields.put(Field::UserAgent, unescaped_text(user_agent));
    Some(fields)
}

pub(super) fn is_keycdn(line: &str) -> bool {
    has_shape(line.as_bytes(), TIME_OF_KEYCDN)
}

/// `time|edge|address|status|bytes|user|zone|zone's host|cache|"request"|[time]|"referer"|"user agent"|scheme|…`. The address is
/// anonymized.
pub(super) fn keycdn(line: &str) -> Option<Fields<'_>> {
    let mut columns = line.splitn(10, '|');
    let mut column = |place| columns.nth(place);
    let (time, status, bytes, host, cache) = (column(0)?, column(2)?, column(0)?, column(2)?, column(0)?);
    let (request, rest) = quoted(column(0)?)?;
    let (_, rest) = rest.strip_prefix("|[")?.split_once("]|")?;
    let (_, rest) = quoted(rest)?;
    let (user_agent, rest) = quoted(rest.strip_prefix('|')?)?;
    let scheme = rest.strip_prefix('|')?.split('|').next()?;
    let mut fields = Fields::new(FormatId::KeyCdn);
    put_request_line(unescaped_target(request), &mut fields);
    for (field, text) in [
        (Field::Time, time),
        (Field::Status, status),
        (Field::Bytes, bytes),
        (Field::Host, host),
        (Field::Cache, cache),
        (Field::Scheme, scheme),
    ] {
        fields.put(field, Cow::Borrowed(text));
    }
    fields.put(Field::UserAgent, unescaped_text(user_agent));
    Some(fields)
}

/// Returns whether a line begins with the id of a bucket's owner, the bucket and a time.
pub(super) fn is_s3(line: &str) -> bool {
    let mut words = line.splitn(3, ' ');
    let is_owner = |word: &str| word.len() == OWNER_BYTES && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    words.next().is_some_and(is_owner) && words.nth(1).is_some_and(is_nginx_proxy_manager)
}

pub(super) fn s3(line: &str) -> Result<Fields<'_>, NoRequest> {
    let operation = line.split(' ').nth(7).unwrap_or_default();
    if OPERATIONS.contains(&operation) { Ok(s3_object(line).ok_or("wrong_columns")?) } else { Err(NoRequest::Other) }
}

/// `owner bucket [time] address requester id operation key "request" status error bytes size milliseconds milliseconds "referer" "user
/// agent" version …`. A website's bucket has the website's name. Visitors' quotes aren't escaped, and the columns at the end contain no
/// quotes.
fn s3_object(line: &str) -> Option<Fields<'_>> {
    let (_, rest) = line.split_once(' ')?;
    let (bucket, rest) = rest.split_once(" [")?;
    let (time, rest) = rest.split_once("] ")?;
    let (address, _) = rest.split_once(' ')?;
    let (_, rest) = rest.split_at(rest.find(" \"")? + 1);
    let (request, rest) = combined::request(rest)?;
    let mut words = rest.splitn(7, ' ');
    let (status, bytes, texts) = (words.next()?, words.nth(1)?, words.nth(3)?);
    let texts = &texts[..texts.rfind('"')?];
    let (_, user_agent) = texts.split_once("\" \"")?;
    let mut fields = Fields::new(FormatId::AmazonS3);
    put_request_line(Cow::Borrowed(request), &mut fields);
    for (field, text) in [
        (Field::Time, time),
        (Field::Address, address),
        (Field::Status, status),
        (Field::Bytes, bytes),
        (Field::UnsureHost, bucket),
        (Field::UserAgent, user_agent),
    ] {
        fields.put(field, Cow::Borrowed(text));
    }
    Some(fields)
}
