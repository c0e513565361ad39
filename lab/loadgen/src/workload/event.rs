//! An event is a function of seed, tenant and number. It can therefore be repeated byte by byte, and the oracle can derive its type,
//! session and time.

use super::{AGENT, ROLES};
use chrono::{DateTime, SecondsFormat, Utc};
use std::io::Write as _;
use std::ops::Range;
use uuid::Uuid;

/// Types of the generated events. Several observers report the first type; only the agent reports the others.
pub const TYPES: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
/// Cumulative percentages for [`TYPES`].
const TYPE_BOUNDS: [u64; 5] = [55, 75, 90, 97, 100];
const DATA: [&str; 5] = [
    r#""user_agent":"ExampleBot/1.0 (+https://bot.example)""#,
    r#""scope":"full","cached":false,"tokens":412"#,
    r#""citation_type":"direct_quote","position":"primary""#,
    r#""presentation_kind":"reference","presentation_type":"card""#,
    r#""engagement_type":"link_click""#,
];
const SESSION_LENGTH: u32 = 8;
/// Number of hosts per tenant if every request has its own page, so that readers can read host by host.
pub const SHELVES: u32 = 32;
const PAGES: u64 = 500;
/// Maximum age, at the start of the run, of events that aren't late.
const FRESH_MS: u64 = 60_000;
/// Minimum age of late events. Every read over a period starts later.
const LATE_MS: u64 = 3_600_000;
/// Range over which the ages of late events are spread.
const LATE_SPREAD_MS: u64 = 3 * 86_400_000;

#[derive(Clone, Debug)]
pub struct Shape {
    /// Determines types, sessions, pages and times: equal seeds give equal workloads.
    pub seed: u64,
    /// Makes every run's ids unique, so that a repeated seed doesn't repeat events.
    pub run: u64,
    /// Start of the run, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// Percentage of events that happened long ago.
    pub late_percent: u64,
    /// Number of events per request, by tenant; starts over if there are more tenants. If set, every request has its own page and every
    /// event contains its number. If empty, events are spread over pages.
    pub request_lengths: Vec<u32>,
}

/// Returns a request's host, if every request has its own page.
pub fn shelf_host(domain: &str, request: u32) -> String {
    format!("shelf{}.{domain}", request % SHELVES)
}

/// The properties of an event that the oracle needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Index in [`TYPES`].
    pub event_type: usize,
    /// The session's number within the tenant.
    pub session: u32,
    /// Whether the event is before every period that is read.
    pub is_late: bool,
}

/// Member of `data` that contains the event's number, if events contain it. The prefix makes it visible to owners.
pub(crate) const NUMBER: &str = "load.number";

/// Distinguishes an event's random values.
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
    /// Returns the start of a period that contains all but the late events.
    pub fn window_start(&self) -> String {
        let at_ms = self.started_at_ms - i64::try_from(LATE_MS / 2).unwrap_or(0);
        written(at_ms)
    }

    /// Returns the times that divide the period with the events that aren't late into this many slices.
    pub fn cuts_of_time(&self, slices: u64) -> impl Iterator<Item = String> {
        let (started_at_ms, slice_ms) = (self.started_at_ms, (FRESH_MS / slices).cast_signed());
        let first_ms = started_at_ms - FRESH_MS.cast_signed();
        (0..=slices.cast_signed()).map(move |slice| written(first_ms + slice * slice_ms))
    }

    pub fn describe(&self, tenant: usize, number: u32) -> Described {
        let drawn = self.draw(Aspect::Type, tenant, number) % 100;
        let event_type = TYPE_BOUNDS.iter().position(|bound| drawn < *bound).unwrap_or(0);
        Described { event_type, session: number / SESSION_LENGTH, is_late: self.is_late(tenant, number) }
    }

    pub fn request_length(&self, tenant: usize) -> u32 {
        self.request_lengths.get(tenant % self.request_lengths.len().max(1)).copied().unwrap_or(1)
    }

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

    pub fn is_retrieval(&self, tenant: usize, number: u32) -> bool {
        self.describe(tenant, number).event_type == 0
    }

    /// Appends the event as reported by `role`, about 300 bytes of JSON.
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

    /// Returns the time in a report. The observers of one fetch differ by a few milliseconds, like real clocks.
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

fn written(at_ms: i64) -> String {
    let at: DateTime<Utc> = DateTime::from_timestamp_millis(at_ms).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The finalizer of SplitMix64: each input bit changes about half of the output bits.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
