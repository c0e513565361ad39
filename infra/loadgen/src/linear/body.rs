//! Bodies that are as hard as their size allows: deep, full of members, of what is to be withheld, of what may be a token.
//!
//! Must be deterministic.

use ingest_gateway::Document;
use std::fmt::Write as _;

/// How deep: shallow, as deep as a rule allows, deeper than any rule, and beyond what is looked at.
pub const LEVELS: [usize; 4] = [1, 30, 55, 120];

/// Events take this much in `data`, a little less than its limit, and as much in members that nobody knows.
const DATA_BYTES: usize = 60_000;

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
