//! Bodies, logs and sessions that are as hard as their size allows: deep, full of members, of what is to be withheld, of what may be
//! a token.

use ingest_gateway::Document;
use schemas::identity::DrainProvider;
use serde_json::Value;
use std::fmt::Write as _;

/// How deep: shallow, as deep as a rule allows, deeper than any rule, and beyond what is looked at.
pub const LEVELS: [usize; 4] = [1, 30, 55, 120];

/// Events take this much in `data`, a little less than its limit, and as much in members that nobody knows.
const DATA_BYTES: usize = 60_000;
/// URLs and texts of one event, a little less than the limit of a URL.
const URL_BYTES: usize = 7_900;
/// A line of a log, a little less than its limit.
const LINE_BYTES: usize = 60_000;
/// An element of an array of texts.
const ELEMENT_BYTES: usize = 30;

/// What stands at the deepest level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `[1,1,…]` and one address hash.
    Numbers,
    /// Members by the thousand.
    Members,
    /// Members that a privacy level withholds.
    Withheld,
    /// Objects that lose all they have.
    Emptied,
    /// Text that nearly is a click token, in every spelling.
    Spelled,
}

impl Shape {
    /// Every shape.
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

    /// Text of about that size for where a text is meant.
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

    /// An object of about that size that nests so deep.
    fn object(self, levels: usize, bytes: usize) -> String {
        let around = (levels * "{\"a\":}".len()).min(bytes);
        format!("{}{}{}", "{\"a\":".repeat(levels), self.filler(bytes - around), "}".repeat(levels))
    }
}

/// A body of about that many bytes for an endpoint.
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
        // Half of it is `data`, half a member that nobody knows.
        let of_each = (left / 2).min(DATA_BYTES);
        let object = shape.object(levels, of_each);
        let comma = if events.is_empty() { "" } else { "," };
        let written = write!(
            events,
            "{comma}{{\"type\":\"content_cited\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"content_url\":\"https://a.test/\",\"data\":{object},\"own\":{object}}}"
        );
        written.expect("memory takes it");
        left = left.saturating_sub(2 * of_each.max(100));
    }
    events
}

/// A log of about that many bytes, of retrievals by a bot.
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
        written.expect("memory takes it");
    }
    log.into_bytes()
}

/// A change of about that many bytes: an example, its texts and arrays made longer, and blanks for what cannot be.
pub(super) fn change(example: &Value, shape: Shape, bytes: usize) -> Vec<u8> {
    let mut text = longer(example, shape, bytes).to_string();
    text.push_str(&" ".repeat(bytes.saturating_sub(text.len())));
    text.into_bytes()
}

fn longer(value: &Value, shape: Shape, bytes: usize) -> Value {
    match value {
        Value::String(_) => shape.text(bytes).into(),
        // Elements as they are, by the thousand, or such that each is looked at for what it is not.
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

/// The events of a session of about that many bytes, as URL and `data`.
pub(super) fn session(shape: Shape, levels: usize, bytes: usize) -> Vec<(String, String)> {
    let events = bytes.div_ceil(2 * URL_BYTES).max(1);
    let of_each = bytes / events / 2;
    let event = || (format!("https://a.test/{}", shape.text(of_each)), shape.object(levels, of_each));
    std::iter::repeat_with(event).take(events).collect()
}
