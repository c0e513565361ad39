//! One request as a log line describes it.
//!
//! Must not outlive the line: it borrows, and what it holds of a person goes with it.

use super::format_table::FormatId;
use crate::request::limits::EARLIEST_AT_MS;
use schemas::instant::{self, Spelling};
use schemas::site::Site;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// Why a line is bad or isn't counted: a word for the counters.
pub(crate) type Reason = &'static str;

/// What a line can contain. Each format has other names for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    /// The day, if the time is a time of day; a whole time in the lines of Fluent Bit.
    Date,
    Host,
    /// A host that may be the requested one, if [`Field::Host`] has none.
    OtherHost,
    /// The host of a CDN's distribution.
    DistributionHost,
    /// The host in a request line. It counts if neither the line nor its sender names another one.
    TargetHost,
    Scheme,
    Port,
    /// A path, with or without query, or a whole URL.
    Path,
    Query,
    Method,
    /// Method, target and protocol in one text.
    RequestLine,
    UserAgent,
    Status,
    Bytes,
    /// Address of the visitor, with or without a port.
    Address,
    /// Address of the connection, where [`Field::Address`] can be from a header.
    Connection,
    RequestId,
    TelemetryId,
    Cache,
    Asn,
    Country,
    /// Media type of the response.
    MediaType,
    /// A media type whose name doesn't say whether it is the response's. That of the request is the visitor's choice.
    ContentType,
    Category,
    SignatureAgent,
    /// The request that this one was made for.
    Parent,
    /// Who made the request, if that can be the CDN itself.
    Source,
    /// `false` if another server of the CDN made the request.
    IsEdge,
    /// The headers of the request, as one text.
    Headers,
    /// What the line is about, if its log isn't only about requests.
    Kind,
    /// A line of a log within the line.
    Message,
}

/// Longest request whose beginning and end one line can have.
const MAX_REQUEST_MS: u64 = 3_600_000;

/// Longest user agent that is kept; the rest is cut off.
pub(super) const MAX_USER_AGENT_BYTES: usize = 512;

/// How many fields there are.
const FIELDS: usize = Field::Message as usize + 1;

/// The fields of one line, each as it is written. A field that the line has no place for is absent; an empty one is there, and
/// says that there was no value.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    values: [Option<Cow<'a, str>>; FIELDS],
    ranks: [u8; FIELDS],
    /// The format that was recognized.
    pub(crate) format: Option<FormatId>,
    /// The formats whose names the line has, one bit each.
    signs: u32,
    /// Whether a member of a JSON line that is a field occurs twice.
    pub(super) has_repeated_member: bool,
    /// The fields with several different values, one bit each.
    disputed: u64,
}

impl<'a> Fields<'a> {
    /// None, of a format.
    pub(crate) fn of(format: FormatId) -> Self {
        Self { format: Some(format), ..Self::default() }
    }

    /// Sets a field. The first value that isn't empty counts, as in [`Fields::put_ranked`].
    pub(crate) fn put(&mut self, field: Field, value: Cow<'a, str>) {
        self.put_ranked(field, 0, value);
    }

    /// Sets a field that a line can have several times. The value with the lowest rank counts, and of equal ones the first that
    /// isn't empty. A value that can't be the field's, such as a host that nobody can own, counts only if there is no other one.
    pub(crate) fn put_ranked(&mut self, field: Field, rank: u8, value: Cow<'a, str>) {
        let at = field as usize;
        if self.values[at].is_none() {
            (self.values[at], self.ranks[at]) = (Some(value), rank);
            return;
        }
        if !says_nothing(&value) && self.get(field).is_some_and(|known| is_other(field, known, &value)) {
            self.disputed |= 1 << at;
        }
        let is_better = match self.get(field) {
            None => !says_nothing(&value),
            Some(_) if says_nothing(&value) => false,
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
        self.values[field as usize].as_deref().filter(|value| !says_nothing(value))
    }

    /// Whether the line has different values for a field.
    pub(crate) fn is_disputed(&self, field: Field) -> bool {
        self.disputed & (1 << (field as usize)) != 0
    }

    /// Whether the line has no place for a field.
    pub(crate) fn is_absent(&self, field: Field) -> bool {
        self.values[field as usize].is_none()
    }

    pub(crate) fn take(&mut self, field: Field) -> Option<Cow<'a, str>> {
        self.values[field as usize].take()
    }

    /// Notes a format; of several the first of the table counts.
    pub(crate) fn sign(&mut self, format: FormatId) {
        self.signs |= 1 << (format as u32);
        self.format = Some(self.format.map_or(format, |known| known.min(format)));
    }

    /// Whether the line has names of a format, even if it is recognized as another one.
    pub(crate) fn has_sign(&self, format: FormatId) -> bool {
        self.signs & (1 << (format as u32)) != 0
    }

    /// The same fields without what they borrow.
    pub(crate) fn into_owned(self) -> Fields<'static> {
        let values = self.values.map(|value| value.map(|value| Cow::Owned(value.into_owned())));
        Fields {
            values,
            ranks: self.ranks,
            format: self.format,
            signs: self.signs,
            has_repeated_member: self.has_repeated_member,
            disputed: self.disputed,
        }
    }

    /// A field or nothing.
    pub(crate) fn text(&self, field: Field) -> &str {
        self.get(field).unwrap_or_default()
    }

    /// A number; 0 where it is none.
    pub(crate) fn number<N: std::str::FromStr + Default>(&self, field: Field) -> N {
        self.get(field).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Changes a field that is there.
    pub(crate) fn rewrite(&mut self, field: Field, change: impl FnOnce(&str) -> Option<String>) {
        if let Some(changed) = self.get(field).and_then(change) {
            self.values[field as usize] = Some(Cow::Owned(changed));
        }
    }

    /// What can be the requested host, the most likely first.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        [Field::Host, Field::OtherHost, Field::DistributionHost].into_iter().filter_map(|field| self.get(field))
    }

    /// When it was, in milliseconds UTC.
    pub(crate) fn at_ms(&self) -> Result<i64, Reason> {
        let (time, date) = (self.get(Field::Time), self.get(Field::Date));
        if time.or(date).is_none() {
            return Err("no_time");
        }
        let of_day = || instant::read_day(date?, time?);
        time.and_then(time_in).or_else(of_day).or_else(|| time_in(date?)).ok_or("bad_time")
    }

    /// The status; 0 if the request wasn't answered: logs have -1, 0, 000 or - then.
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

    /// The address of the connection, to verify the agent at this moment, and for nothing else. One that a header can have changed
    /// proves nothing. If a line has several, any of them can be from a header.
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

/// Cuts a text at a character's boundary.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// An address, with or without a port.
pub(crate) fn address_in(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// Returns a host whose name somebody can own, without what is no port.
pub(super) fn ownable(host: &str) -> Option<&str> {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    site_in(host)?;
    Some(if port.parse::<u16>().is_ok() { host } else { name })
}

/// Whether a value can be that of a field.
fn is_possible(field: Field, value: &str) -> bool {
    match field {
        Field::Time => time_in(value).is_some(),
        Field::Host => ownable(value).is_some(),
        _ => true,
    }
}

/// A time in milliseconds since 1970. What reads as one before 2000 is a duration.
fn time_in(text: &str) -> Option<i64> {
    instant::read(text, Spelling::Log).filter(|at_ms| *at_ms >= EARLIEST_AT_MS)
}

/// The site of a host with or without a port.
fn site_in(host: &str) -> Option<Site> {
    Site::from_domain(host.rsplit_once(':').map_or(host, |(name, _)| name)).ok()
}

/// Whether two values of a field contradict each other. Logs have the port of an address or a host in one of them, the query of a
/// path, or the end of a request beside its beginning.
fn is_other(field: Field, one: &str, other: &str) -> bool {
    if one == other {
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

/// The path of a URL or of a target, without the slash before it.
fn path_in(target: &str) -> &str {
    let target = target.split_once("://").map_or(target, |(_, rest)| rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]));
    target.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/')
}

/// What formats write for a value that isn't there.
pub(crate) fn says_nothing(value: &str) -> bool {
    matches!(value, "" | "-" | "(null)")
}
