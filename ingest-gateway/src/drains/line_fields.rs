//! The fields of one request in a log line.
//!
//! Fields borrow from the line, so personal data is dropped with it.

use super::format_table::FormatId;
use crate::request::limits::EARLIEST_AT_MS;
use schemas::instant::{self, TimestampFormat};
use schemas::site::Site;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Reason why a line is bad or not counted; a metric label.
pub(crate) type Reason = &'static str;

/// Fields that a line can contain. Formats use different names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    /// The date, if the time is only a time of day. In Fluent Bit's lines, a complete time.
    Date,
    Host,
    /// A host that may be the requested one, if [`Field::Host`] has none.
    OtherHost,
    /// The host of a CDN distribution.
    DistributionHost,
    /// A host that visitors may have chosen: in text lines, one whose position contains a header in other formats; otherwise, the request
    /// line's host. Used only if nothing else names the host.
    UnsureHost,
    Scheme,
    Port,
    /// A path, with or without a query, or a whole URL.
    Path,
    Query,
    Method,
    /// Method, target and protocol in one string.
    RequestLine,
    UserAgent,
    Status,
    Bytes,
    /// The visitor's address, with or without a port.
    Address,
    /// The connection's address, for formats whose [`Field::Address`] can come from a header.
    Connection,
    RequestId,
    TelemetryId,
    Cache,
    Asn,
    Country,
    /// The response's media type.
    MediaType,
    /// A media type under a name that doesn't show whether it belongs to the response. Visitors choose the request's media type.
    ContentType,
    Category,
    SignatureAgent,
    SignatureInput,
    Signature,
    /// The request that caused this one.
    Parent,
    /// The sender of the request, if it can be the CDN itself.
    Source,
    /// `false` if another server of the CDN made the request.
    IsEdge,
    /// The request's headers as one string.
    Headers,
    /// The subject of the line, if the log isn't only about requests.
    Kind,
    /// A server's log line within the line.
    Message,
}

/// Maximum difference between a request's start and end times.
const MAX_REQUEST_MS: u64 = 3_600_000;

/// Maximum length of a stored user agent. Longer ones are truncated.
pub(super) const MAX_USER_AGENT_BYTES: usize = 512;

/// Number of fields.
const FIELDS: usize = Field::Message as usize + 1;

/// A line's fields, as written. A field is absent if the format doesn't contain it, and empty if it has no value.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    values: [Option<Cow<'a, str>>; FIELDS],
    ranks: [u8; FIELDS],
    /// Recognized format.
    pub(crate) format: Option<FormatId>,
    /// Formats whose names occur in the line, as a bit set.
    signs: u64,
    /// Whether a JSON line repeats a field.
    pub(super) has_repeated_member: bool,
    /// Fields with several different values, as a bit set.
    disputed: u64,
    /// Whether the server wrote the address. If a visitor may have written it, it doesn't verify the agent.
    pub(super) is_address_trusted: bool,
    /// Whether the address is one of the bot's operator. Part of the line's id, unlike the verification, which depends on other lines.
    pub(super) is_address_of_operator: bool,
}

impl Default for Fields<'_> {
    fn default() -> Self {
        let (values, ranks) = ([const { None }; FIELDS], [0; FIELDS]);
        Self {
            values,
            ranks,
            format: None,
            signs: 0,
            has_repeated_member: false,
            disputed: 0,
            is_address_trusted: true,
            is_address_of_operator: false,
        }
    }
}

impl<'a> Fields<'a> {
    /// Creates empty fields of a format.
    pub(crate) fn new(format: FormatId) -> Self {
        Self { format: Some(format), ..Self::default() }
    }

    /// Sets a field. The first non-empty value counts, as in [`Fields::put_ranked`].
    pub(crate) fn put(&mut self, field: Field, value: Cow<'a, str>) {
        self.put_ranked(field, 0, value);
    }

    /// Sets a field that can occur several times in a line. The value with the lowest rank counts; among equal ranks, the first non-empty
    /// one. An impossible value, such as a host that can't be owned, counts only if there is no other.
    pub(crate) fn put_ranked(&mut self, field: Field, rank: u8, value: Cow<'a, str>) {
        let at = field as usize;
        if self.values[at].is_none() {
            (self.values[at], self.ranks[at]) = (Some(value), rank);
            return;
        }
        if !is_placeholder(&value) && self.get(field).is_some_and(|known| is_other(field, known, &value)) {
            self.disputed |= 1 << at;
        }
        let is_better = match self.get(field) {
            None => !is_placeholder(&value),
            Some(_) if is_placeholder(&value) => false,
            Some(known) if known == value || is_same_host(field, known, &value) => rank < self.ranks[at],
            Some(known) => match (is_possible(field, known), is_possible(field, &value)) {
                (true, false) => false,
                (false, true) => true,
                _ => rank < self.ranks[at],
            },
        };
        if is_better {
            self.values[at] = Some(value);
            self.ranks[at] = rank;
        }
    }

    /// Returns a field, unless it is absent or empty.
    pub(crate) fn get(&self, field: Field) -> Option<&str> {
        self.values[field as usize].as_deref().filter(|value| !is_placeholder(value))
    }

    /// Returns whether the line has different values for a field.
    pub(crate) fn is_disputed(&self, field: Field) -> bool {
        self.disputed & (1 << (field as usize)) != 0
    }

    /// Returns whether the line doesn't contain a field.
    pub(crate) fn is_absent(&self, field: Field) -> bool {
        self.values[field as usize].is_none()
    }

    pub(crate) fn take(&mut self, field: Field) -> Option<Cow<'a, str>> {
        self.values[field as usize].take()
    }

    /// Records a format. Of several, the first in the table counts.
    pub(crate) fn sign(&mut self, format: FormatId) {
        self.signs |= 1 << (format as u64);
        self.format = Some(self.format.map_or(format, |known| known.min(format)));
    }

    /// Returns whether the line contains a format's names, even if it is recognized as another format.
    pub(crate) fn has_sign(&self, format: FormatId) -> bool {
        self.signs & (1 << (format as u64)) != 0
    }

    /// Returns owned copies of the fields.
    pub(crate) fn into_owned(self) -> Fields<'static> {
        let values = self.values.map(|value| value.map(|value| Cow::Owned(value.into_owned())));
        Fields {
            values,
            ranks: self.ranks,
            format: self.format,
            signs: self.signs,
            has_repeated_member: self.has_repeated_member,
            disputed: self.disputed,
            is_address_trusted: self.is_address_trusted,
            is_address_of_operator: self.is_address_of_operator,
        }
    }

    /// Returns a field; empty if absent.
    pub(crate) fn text(&self, field: Field) -> &str {
        self.get(field).unwrap_or_default()
    }

    /// Returns a field as a number; 0 if invalid.
    pub(crate) fn number<N: std::str::FromStr + Default>(&self, field: Field) -> N {
        self.get(field).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Changes a field if it has a value.
    pub(crate) fn rewrite(&mut self, field: Field, change: impl FnOnce(&str) -> Option<String>) {
        if let Some(changed) = self.get(field).and_then(change) {
            self.values[field as usize] = Some(Cow::Owned(changed));
        }
    }

    /// Replaces a field that has a value with another one.
    pub(crate) fn copy(&mut self, from: Field, to: Field) {
        if from != to && self.get(to).is_some() {
            self.values[to as usize] = self.values[from as usize].clone();
        }
    }

    /// Returns the possible requested hosts, most likely first.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        [Field::Host, Field::OtherHost, Field::DistributionHost].into_iter().filter_map(|field| self.get(field))
    }

    /// Returns the request's time in milliseconds UTC.
    pub(crate) fn at_ms(&self) -> Result<i64, Reason> {
        let (time, date) = (self.get(Field::Time), self.get(Field::Date));
        if time.or(date).is_none() {
            return Err("no_time");
        }
        let of_day = || instant::parse_date_and_time(date?, time?);
        time.and_then(time_in).or_else(of_day).or_else(|| time_in(date?)).ok_or("bad_time")
    }

    /// Returns the status; 0 for requests without a response, which logs write as -1, 0, 000 or -.
    pub(crate) fn status(&self) -> Result<u16, Reason> {
        if self.is_absent(Field::Status) {
            return Err("no_status");
        }
        let status = self.text(Field::Status);
        if matches!(status, "" | "-1" | "0" | "000") {
            return Ok(0);
        }
        status.parse().ok().filter(|status| (100..600).contains(status)).ok_or("bad_status")
    }

    /// Returns the connection's address, which is used only to verify the agent. Returns `None` for an address that can come from a header.
    /// If a line contains several addresses, any of them can.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        if self.is_disputed(Field::Address) {
            return None;
        }
        let read = |field| self.get(field).map(address_in);
        match (read(Field::Address), read(Field::Connection)) {
            (Some(address), None) | (None, Some(address)) => address,
            (Some(address), Some(connection)) => address.filter(|_| address == connection),
            (None, None) => None,
        }
    }
}

/// Returns whether the text is `type/subtype`, with or without parameters (RFC 9110, section 8.3.1). The subtype can't be an address.
pub(super) fn is_media_type(text: &str) -> bool {
    const MAX_NAME_BYTES: usize = 127;
    let is_subtype = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
    let is_name = |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len());
    let media_type = text.split(';').next().unwrap_or_default().trim();
    media_type.split_once('/').is_some_and(|(kind, subtype)| {
        is_name(kind)
            && kind.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
            && is_name(subtype)
            && subtype.bytes().all(is_subtype)
            && address_in(subtype).is_none()
    })
}

/// Truncates text at a character boundary.
pub(super) fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Parses an address with or without a port. Converts IPv4-mapped IPv6 addresses to IPv4.
pub(crate) fn address_in(text: &str) -> Option<IpAddr> {
    let address = text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// Returns whether the text is a two-letter code.
pub(super) fn is_country(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns whether the text can be a cache status, such as `HIT`, `HIT, MISS` or `1`.
pub(super) fn is_cache_status(text: &str) -> bool {
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ' | b',' | b'/' | b';' | b'=');
    text.bytes().all(is_of)
        && (text.len() <= 3 || (text.len() <= 64 && text.starts_with(|first: char| first.is_ascii_alphabetic())))
}

/// Returns a public hostname, without an invalid port.
pub(super) fn public_host(host: &str) -> Option<&str> {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    site_in(host)?;
    Some(if port.parse::<u16>().is_ok() { host } else { name })
}

/// Returns whether a field can have this value.
fn is_possible(field: Field, value: &str) -> bool {
    match field {
        Field::Time => time_in(value).is_some(),
        Field::Host | Field::UnsureHost => public_host(value).is_some(),
        _ => true,
    }
}

/// Parses a time into milliseconds since 1970. Values before 2000 are durations.
fn time_in(text: &str) -> Option<i64> {
    let parse = |text: &str| instant::parse_millis(text, TimestampFormat::Log);
    let completed = || match text.as_bytes() {
        // Log4j and Python write a comma before the fraction.
        [_, _, _, _, b'-', ..] if text.as_bytes().get(19) == Some(&b',') => parse(&text.replacen(',', ".", 1)),
        [_, _, _, _, b'-', ..] if text.len() > 16 && text.is_char_boundary(16) => {
            parse(&format!("{}:00{}", &text[..16], &text[16..]))
        }
        _ => None,
    };
    parse(text).or_else(completed).filter(|at_ms| *at_ms >= EARLIEST_AT_MS)
}

/// Parses a host's site, with or without a port.
fn site_in(host: &str) -> Option<Site> {
    Site::from_domain(name_in(host)).ok()
}

/// Returns a host without its port.
fn name_in(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Returns whether two hosts are equal apart from their ports, without parsing them.
fn is_same_host(field: Field, one: &str, other: &str) -> bool {
    matches!(field, Field::Host | Field::UnsureHost) && name_in(one) == name_in(other)
}

/// Returns whether two values of a field contradict each other. One of them may lack the port of an address or host, the query of a path,
/// or the end of a request's time range.
fn is_other(field: Field, one: &str, other: &str) -> bool {
    if one == other || is_same_host(field, one, other) {
        return false;
    }
    match field {
        Field::Time => time_in(one).zip(time_in(other)).is_some_and(|(one, other)| one.abs_diff(other) > MAX_REQUEST_MS),
        Field::Host => site_in(one).zip(site_in(other)).is_some_and(|(one, other)| one != other),
        Field::Path => path_in(one) != path_in(other),
        Field::Status => {
            let read = |text: &str| text.parse::<i32>().ok();
            read(one).zip(read(other)).is_some_and(|(one, other)| one != other)
        }
        _ => address_in(one).is_none() || address_in(one) != address_in(other),
    }
}

/// Returns the path in a URL or target, without the leading slash.
fn path_in(target: &str) -> &str {
    let target = target.split_once("://").map_or(target, |(_, rest)| rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]));
    target.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/')
}

/// Returns whether a value is a placeholder.
pub(crate) fn is_placeholder(value: &str) -> bool {
    matches!(value, "" | "-" | "(null)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_keep_the_lowest_rank() {
        for (first, second) in [("www.a.test", "www.a.test"), ("www.a.test", "www.a.test:443"), ("www.a.test:443", "www.a.test")]
        {
            let mut fields = Fields::default();
            for (rank, host) in [(2, first), (0, second), (1, "b.test")] {
                fields.put_ranked(Field::Host, rank, Cow::Borrowed(host));
            }
            assert_eq!((fields.text(Field::Host), fields.is_disputed(Field::Host)), (second, true), "{first} {second}");
        }
    }

    #[test]
    fn reads_times_without_seconds_or_with_a_comma() {
        for text in ["2026-11-01 10:00:00,123", "2026-11-01T10:00:00,123Z", "2026-11-01T10:00Z", "2026-11-01T11:00+01:00"] {
            assert_eq!(time_in(text).map(|at_ms| at_ms / 1_000), Some(1_793_527_200), "{text}");
        }
        for text in ["2026-11-01,10:00:00", "2026-11-01T10:0\u{e9}0:00", "2026-11-01T10", "2026-11-01T10:00:00,", "2026-11-01"] {
            assert_eq!(time_in(text), None, "{text}");
        }
    }

    #[test]
    fn media_types_are_two_names() {
        for text in ["text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml", "video/3gpp", "application/vnd.ms-excel", "x-a/b"]
        {
            assert!(is_media_type(text), "{text}");
        }
        let long = format!("text/{}", "x".repeat(128));
        for text in [
            "203.0.113.7",
            "203.0.113.7/32",
            "text/203.0.113.7",
            "2001:db8::7",
            "text/2001:db8::7",
            "text",
            "text/",
            "/html",
            "a/b/c",
            "text/html x",
            "text/a\u{e9}",
            "ann@example.com/x",
            "text/html, text/css",
            "",
            ";",
            &long,
        ] {
            assert!(!is_media_type(text), "{text}");
        }
    }

    #[test]
    fn countries_and_cache_statuses_are_not_addresses() {
        for text in ["203.0.113.7", "203.0.113.7:80", "2001:db8::7", "::1", "3405803783", "192.0.2.7, 192.0.2.8"] {
            assert!(!is_country(text) && !is_cache_status(text), "{text}");
        }
        for text in ["HIT", "HIT, MISS", "RefreshHit", "TCP_HIT", "HIT-CLUSTER", "1", "dynamic", "Fastly; hit; ttl=30"] {
            assert!(is_cache_status(text), "{text}");
        }
        assert!(is_country("US") && is_country("us") && !is_country("USA") && !is_country("U1"));
    }

    #[test]
    fn maps_ipv4_in_ipv6_addresses_to_ipv4() {
        for text in ["::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80", "192.0.2.1:80"] {
            assert_eq!(address_in(text), address_in("192.0.2.1"), "{text}");
        }
    }
}
