//! An event as a function of (seed, tenant, number): whoever knows the number can send it again, byte for byte, and
//! the oracle knows its type, session and time without keeping any of them.

use super::{AGENT, ROLES};
use chrono::{DateTime, SecondsFormat, Utc};
use std::io::Write as _;
use std::ops::Range;
use uuid::Uuid;

/// Types of generated events. Only the first merges across observers; the others come from the agent alone.
pub const TYPES: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
/// How often each of [`TYPES`] is drawn, in percent, added up.
const TYPE_BOUNDS: [u64; 5] = [55, 75, 90, 97, 100];
const DATA: [&str; 5] = [
    r#""user_agent":"ExampleBot/1.0 (+https://bot.example)""#,
    r#""scope":"full","cached":false,"tokens":412"#,
    r#""citation_type":"direct_quote","position":"primary""#,
    r#""presentation_kind":"reference","presentation_type":"card""#,
    r#""engagement_type":"link_click""#,
];
/// Events that share a session.
const SESSION_LENGTH: u32 = 8;
/// Hosts of a tenant over which such requests are spread, so that a reader can take them shelf by shelf.
pub const SHELVES: u32 = 32;
const PAGES: u64 = 500;
/// Events of a run that are not late happened at most this long before its start.
const FRESH_MS: u64 = 60_000;
/// Late events are older than this, and than the start of every windowed read.
const LATE_MS: u64 = 3_600_000;
/// Late events are spread over this.
const LATE_SPREAD_MS: u64 = 3 * 86_400_000;

/// What all events of a run have in common.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Decides types, sessions, pages and times: equal seeds give equal workloads.
    pub seed: u64,
    /// Makes ids new in every run, so that a repeated seed is not a repeated event.
    pub run: u64,
    /// When the run began, in milliseconds UTC.
    pub started_at_ms: i64,
    /// How many events in a hundred happened long ago.
    pub late_percent: u64,
    /// How many events a request has, by tenant and from the first again, when every request is about a page of its own and
    /// every event tells its number; empty when events are spread over pages.
    pub request_lengths: Vec<u32>,
}

/// The host that a request is about, where every request is about a page of its own.
pub fn shelf_host(domain: &str, request: u32) -> String {
    format!("shelf{}.{domain}", request % SHELVES)
}

/// What the oracle must know of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Place in [`TYPES`].
    pub event_type: usize,
    /// Number of its session within the tenant.
    pub session: u32,
    /// Whether it happened before every windowed read.
    pub is_late: bool,
}

/// The member of `data` that tells an event's number, where it tells it. Namespaced, so that owners are shown it.
pub(crate) const NUMBER: &str = "load.number";

/// What an aspect of an event is drawn from; the numbers only have to differ.
#[derive(Clone, Copy)]
enum Aspect {
    Type = 1,
    Page,
    Time,
    Late,
    Retrieval,
    Session,
    Report,
}

impl Shape {
    /// A windowed read from here on covers all events but the late ones.
    pub fn window_start(&self) -> String {
        let at_ms = self.started_at_ms - i64::try_from(LATE_MS / 2).unwrap_or(0);
        written(at_ms)
    }

    /// Moments that cut the time of the events that are not late into so many slices, in order.
    pub fn cuts_of_time(&self, slices: u64) -> impl Iterator<Item = String> {
        let (started_at_ms, slice_ms) = (self.started_at_ms, (FRESH_MS / slices).cast_signed());
        let first_ms = started_at_ms - FRESH_MS.cast_signed();
        (0..=slices.cast_signed()).map(move |slice| written(first_ms + slice * slice_ms))
    }

    /// Type, session and lateness of one event.
    pub fn describe(&self, tenant: usize, number: u32) -> Described {
        let drawn = self.draw(Aspect::Type, tenant, number) % 100;
        let event_type = TYPE_BOUNDS.iter().position(|bound| drawn < *bound).unwrap_or(0);
        Described { event_type, session: number / SESSION_LENGTH, is_late: self.is_late(tenant, number) }
    }

    /// How many events the requests of a tenant have.
    pub fn request_length(&self, tenant: usize) -> u32 {
        self.request_lengths.get(tenant % self.request_lengths.len().max(1)).copied().unwrap_or(1)
    }

    /// The page of an event, as its URL ends: host and path.
    fn page(&self, tenant: usize, domain: &str, number: u32) -> String {
        match self.request_lengths.is_empty() {
            true => format!("www.{domain}/articles/{}", self.draw(Aspect::Page, tenant, number) % PAGES),
            false => {
                let request = number / self.request_length(tenant);
                format!("{}/requests/{request}", shelf_host(domain, request))
            }
        }
    }

    pub fn report_id(&self, tenant: usize, role: usize, number: u32) -> Uuid {
        self.id(Aspect::Report, tenant, (number << 2) | u32::try_from(role).unwrap_or(0))
    }

    pub fn session_id(&self, tenant: usize, session: u32) -> Uuid {
        self.id(Aspect::Session, tenant, session)
    }

    pub fn numbers_of_session(session: u32) -> Range<u32> {
        session * SESSION_LENGTH..(session + 1) * SESSION_LENGTH
    }

    /// Whether several observers report it.
    pub fn is_retrieval(&self, tenant: usize, number: u32) -> bool {
        self.describe(tenant, number).event_type == 0
    }

    /// Appends the event as `role` reports it, about 300 bytes of JSON.
    pub fn render(&self, out: &mut Vec<u8>, tenant: usize, domain: &str, role: usize, number: u32) {
        let described = self.describe(tenant, number);
        let event_type = described.event_type;
        let (mut id, mut other) = ([0; 36], [0; 36]);
        let id = self.report_id(tenant, role, number).hyphenated().encode_lower(&mut id);
        let page = self.page(tenant, domain, number);
        let written = write!(
            out,
            r#"{{"id":"{id}","type":"{}","timestamp":"{}","source_role":"{}","content_url":"https://{page}","#,
            TYPES[event_type],
            self.timestamp(tenant, number, role),
            ROLES[role].as_str(),
        );
        written.expect("writing to memory cannot fail");
        if event_type == 0 {
            let retrieval = self.id(Aspect::Retrieval, tenant, number).hyphenated().encode_lower(&mut other);
            write!(out, r#""content_telemetry_id":"{retrieval}","#).expect("writing to memory cannot fail");
        }
        if role == AGENT {
            let session = self.session_id(tenant, described.session).hyphenated().encode_lower(&mut other);
            write!(out, r#""session_id":"{session}","#).expect("writing to memory cannot fail");
        }
        let number = if self.request_lengths.is_empty() { String::new() } else { format!(r#""{NUMBER}":{number},"#) };
        write!(out, r#""data":{{{number}{}}}}}"#, DATA[event_type]).expect("writing to memory cannot fail");
    }

    /// Observers of one retrieval disagree by a few milliseconds, as real clocks do.
    fn timestamp(&self, tenant: usize, number: u32, role: usize) -> String {
        let drawn = self.draw(Aspect::Time, tenant, number);
        let before_ms = if self.is_late(tenant, number) { LATE_MS + drawn % LATE_SPREAD_MS } else { 100 + drawn % FRESH_MS };
        let skew_ms = i64::try_from(role * 3).unwrap_or(0);
        let at_ms = self.started_at_ms - i64::try_from(before_ms).unwrap_or(0) + skew_ms;
        written(at_ms)
    }

    fn is_late(&self, tenant: usize, number: u32) -> bool {
        self.late_percent > 0 && self.draw(Aspect::Late, tenant, number) % 100 < self.late_percent
    }

    fn id(&self, aspect: Aspect, tenant: usize, number: u32) -> Uuid {
        let high = mix(self.draw(aspect, tenant, number) ^ self.run);
        let low = mix(high ^ self.run.rotate_left(17));
        uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes()).into_uuid()
    }

    fn draw(&self, aspect: Aspect, tenant: usize, number: u32) -> u64 {
        let place = (tenant as u64) << 40 | (aspect as u64) << 34;
        mix(mix(self.seed ^ place) ^ u64::from(number))
    }
}

/// A time as events and parameters bear it.
fn written(at_ms: i64) -> String {
    let at: DateTime<Utc> = DateTime::from_timestamp_millis(at_ms).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The finaliser of SplitMix64: every input bit changes about half of the output bits.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
