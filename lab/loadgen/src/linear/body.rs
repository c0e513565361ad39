//! Bodies, logs and sessions that are as expensive as possible for their size: deeply nested, with many members, with withheld members, or
//! with text that resembles click tokens.

use ingest_gateway::Document;
use schemas::identity::DrainProvider;
use serde_json::Value;
use std::fmt::Write as _;

/// Nesting depths: shallow, the deepest allowed, deeper than any limit, and deeper than the parser goes.
pub const LEVELS: [usize; 4] = [1, 30, 55, 120];

/// Size of an event's `data`, slightly below the limit, and of its unknown members, in bytes.
const DATA_BYTES: usize = 60_000;
/// Size of an event's URLs and strings in bytes, slightly below the limit for a URL.
const URL_BYTES: usize = 7_900;
const LINE_BYTES: usize = 60_000;
const ELEMENT_BYTES: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `[1,1,…]` and one hash of an IP address.
    Numbers,
    /// Thousands of members.
    Members,
    /// Members that a privacy level withholds.
    Withheld,
    /// Objects that become empty.
    Emptied,
    /// Text that resembles click tokens, in every spelling.
    Spelled,
}

impl Shape {
    pub const ALL: [Self; 5] = [Self::Numbers, Self::Members, Self::Withheld, Self::Emptied, Self::Spelled];

    fn filler(self, bytes: usize) -> String {
        let (begin, part, end) = match self {
            Self::Numbers => ("[", "1,", "{\"ip_hash\":1}]"),
            Self::Members => ("{", "\"a\":1,", "\"ip_hash\":1}"),
            Self::Withheld => ("{", "\"query_text\":1,\"b\":1,", "\"ip_hash\":1}"),
            Self::Emptied => ("[", "{\"ip_hash\":1},", "1]"),
            Self::Spelled => ("\"", "ctx_%63tx\\u005fctx_\\\\", "\""),
        };
        let times = bytes.saturating_sub(begin.len() + end.len()) / part.len();
        format!("{begin}{}{end}", part.repeat(times))
    }

    fn text(self, bytes: usize) -> String {
        let part = match self {
            Self::Numbers => "1",
            Self::Members => "QUJD",
            Self::Withheld => "\u{e9}",
            Self::Emptied => "e\u{301}",
            Self::Spelled => "%63tx_%2563",
        };
        part.repeat(bytes.div_ceil(part.len()))
    }

    /// Returns an object of about this size with this nesting depth.
    fn object(self, levels: usize, bytes: usize) -> String {
        let around = (levels * "{\"a\":}".len()).min(bytes);
        format!("{}{}{}", "{\"a\":".repeat(levels), self.filler(bytes - around), "}".repeat(levels))
    }
}

pub fn body(document: Document, shape: Shape, levels: usize, bytes: usize) -> Vec<u8> {
    const SESSION: &str = "\"session_id\":\"67e55044-10b1-426f-9247-bb680e5fe0c8\"";
    let own = shape.object(levels, bytes);
    let text = match document {
        Document::Events => format!("{{{SESSION},\"events\":[{}]}}", events(shape, levels, bytes)),
        Document::Session => format!("{{{SESSION},\"events\":[{}]}}", events(shape, levels, bytes)),
        Document::Start => format!("{{\"agent_id\":\"bot\",\"own\":{own}}}"),
        Document::End => format!("{{{SESSION},\"outcome\":{{\"type\":\"browse\",\"own\":{own}}}}}"),
        Document::ClickToken => format!("{{{SESSION},\"content_url\":\"https://a.test/\",\"own\":{own}}}"),
    };
    text.into_bytes()
}

fn events(shape: Shape, levels: usize, bytes: usize) -> String {
    let mut events = String::with_capacity(bytes + 1_000);
    let mut left = bytes;
    while left > 0 {
        // Half of the bytes are in `data`, half in an unknown member.
        let of_each = (left / 2).min(DATA_BYTES);
        let object = shape.object(levels, of_each);
        let comma = if events.is_empty() { "" } else { "," };
        let written = write!(
            events,
            "{comma}{{\"type\":\"content_cited\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"content_url\":\"https://a.test/\",\"data\":{object},\"own\":{object}}}"
        );
        written.expect("writing to memory cannot fail");
        left = left.saturating_sub(2 * of_each.max(100));
    }
    events
}

/// Returns a log of about this size with fetches by a bot.
pub(super) fn log(provider: DrainProvider, shape: Shape, levels: usize, bytes: usize) -> Vec<u8> {
    const TIME: &str = "2026-01-01T00:00:00Z";
    const BOT: &str = "GPTBot/1.2";
    let mut log = String::with_capacity(bytes + LINE_BYTES);
    while log.len() < bytes {
        let of_line = (bytes - log.len()).min(LINE_BYTES);
        let written = match provider {
            DrainProvider::Combined => {
                let path = shape.text(of_line);
                writeln!(log, "192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] \"GET /{path} HTTP/1.1\" 200 1 \"-\" \"{BOT}\"")
            }
            DrainProvider::Cloudflare => writeln!(
                log,
                "{{\"ClientRequestHost\":\"a.test\",\"ClientRequestURI\":\"/\",\"ClientRequestMethod\":\"GET\",\
                 \"ClientRequestUserAgent\":\"{BOT}\",\"EdgeStartTimestamp\":\"{TIME}\",\"EdgeResponseStatus\":200,\"own\":{}}}",
                shape.object(levels, of_line)
            ),
            _ => writeln!(
                log,
                "{{\"host\":\"a.test\",\"url\":\"/\",\"method\":\"GET\",\"user_agent\":\"{BOT}\",\"timestamp\":\"{TIME}\",\
                 \"status\":200,\"own\":{}}}",
                shape.object(levels, of_line)
            ),
        };
        written.expect("writing to memory cannot fail");
    }
    log.into_bytes()
}

/// Returns a settings change of about this size: an example with longer strings and arrays, padded with spaces.
pub(super) fn change(example: &Value, shape: Shape, bytes: usize) -> Vec<u8> {
    let mut text = longer(example, shape, bytes).to_string();
    text.push_str(&" ".repeat(bytes.saturating_sub(text.len())));
    text.into_bytes()
}

fn longer(value: &Value, shape: Shape, bytes: usize) -> Value {
    match value {
        Value::String(_) => shape.text(bytes).into(),
        // Either many valid elements, or elements that are checked and rejected one by one.
        Value::Array(elements) if shape == Shape::Members => {
            elements.iter().cycle().take(bytes / ELEMENT_BYTES).cloned().collect()
        }
        Value::Array(elements) => {
            let longer = elements.iter().map(|element| longer(element, shape, ELEMENT_BYTES));
            longer.collect::<Vec<_>>().into_iter().cycle().take(bytes / ELEMENT_BYTES).collect()
        }
        Value::Object(members) => {
            let of_each = bytes / members.len().max(1);
            members.iter().map(|(name, member)| (name.clone(), longer(member, shape, of_each))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns the events of a session of about this size, as URL and `data`.
pub(super) fn session(shape: Shape, levels: usize, bytes: usize) -> Vec<(String, String)> {
    let events = bytes.div_ceil(2 * URL_BYTES).max(1);
    let of_each = bytes / events / 2;
    let event = || (format!("https://a.test/{}", shape.text(of_each)), shape.object(levels, of_each));
    std::iter::repeat_with(event).take(events).collect()
}
