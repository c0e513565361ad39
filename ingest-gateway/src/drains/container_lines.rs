//! Joins the parts of lines that container runtimes split, usually after 16 KiB (`visitors_cannot_split_lines`).
//!
//! Visitors choose where a line is split, so a part can look like a whole line. If parts aren't marked, they can't always be joined, so
//! text lines from containers never verify agents.

use super::split::MAX_LINE_BYTES;
use schemas::identity::DrainProvider;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;

/// Length of each of Docker's parts except the last.
const DOCKER_PART_BYTES: usize = 16 * 1024;
/// Maximum length of all incomplete lines together.
const MAX_PENDING_BYTES: usize = 4 * MAX_LINE_BYTES;
/// Maximum number of incomplete lines.
const MAX_PENDING: usize = 4_096;

/// What a container's entry becomes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// A complete line.
    Whole,
    /// A line or part that a shipper parsed.
    Parsed,
    /// A part; the rest follows.
    Part,
    /// A part that can't be joined with the others.
    Rest,
    /// The joined line, with its first part's number. `None` if it is too long.
    Line { number: u64, text: Option<Vec<u8>> },
    /// A complete line, after others that looked like parts of Docker's. `None` for those that are too long to keep.
    WholeAfter(Vec<(u64, Option<Vec<u8>>)>),
}

/// Incomplete lines of one body, by the hash of their container and stream.
#[derive(Default)]
pub(super) struct ContainerLines {
    hasher: RandomState,
    pending: BTreeMap<u64, Pending>,
    pending_bytes: usize,
}

/// The parts of an incomplete line, each with its number.
struct Pending {
    number: u64,
    /// Whether the runtime or the shipper marked a part.
    is_marked: bool,
    /// `None` if the line is too long.
    parts: Option<Vec<(u64, String)>>,
    bytes: usize,
}

/// An entry in a container's log.
struct Entry {
    /// Container and stream, as far as the entry names them.
    source: String,
    /// `None` if a shipper parsed it.
    text: Option<String>,
    part: PartKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// The rest of the line follows.
    Begin,
    /// The whole line, or its last part.
    End,
    /// The last of several parts.
    Last,
    /// Docker's own entries. The last part of a line ends with a line break, unless a shipper removed it.
    Unmarked,
}

impl ContainerLines {
    /// Reads the next line, which isn't a container's in most logs. `is_parsed` is true if a JSON line contains a request.
    pub(super) fn next(&mut self, provider: DrainProvider, (number, line): (u64, &[u8]), is_parsed: bool) -> Joined {
        let is_json = provider != DrainProvider::Combined;
        let entry = if is_json { json_entry(line, is_parsed) } else { text_entry(line) };
        let Some(Entry { source, text, part }) = entry else { return Joined::Whole };
        let Some(text) = text else {
            return if part == PartKind::Begin { Joined::Rest } else { Joined::Parsed };
        };
        let source = self.hasher.hash_one(source);
        let is_full = text.len() == DOCKER_PART_BYTES && !text.ends_with('\n');
        if part == PartKind::Begin || (part == PartKind::Unmarked && is_full) {
            return self.begin(source, number, &text, part == PartKind::Begin);
        }
        let Some(line) = self.pending.remove(&source) else {
            return if part == PartKind::Last { Joined::Rest } else { Joined::Whole };
        };
        self.pending_bytes -= line.bytes;
        if part == PartKind::Unmarked && !text.ends_with('\n') && !line.is_marked {
            // The shipper removes line breaks, so the parts are complete lines that happen to be as long as Docker's parts.
            let Some(parts) = line.parts else { return Joined::WholeAfter(vec![(line.number, None)]) };
            return Joined::WholeAfter(parts.into_iter().map(|(number, text)| (number, Some(as_line(&text, is_json)))).collect());
        }
        let whole = line.parts.map(|parts| parts.into_iter().map(|(_, part)| part).chain([text]).collect::<String>());
        let whole = whole.filter(|text| text.len() <= MAX_LINE_BYTES);
        Joined::Line { number: line.number, text: whole.map(|text| as_line(&text, is_json)) }
    }

    /// Returns the numbers of lines whose rest is missing.
    pub(super) fn end(&mut self) -> Vec<u64> {
        let mut numbers: Vec<u64> = mem::take(&mut self.pending).into_values().map(|line| line.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn begin(&mut self, source: u64, number: u64, text: &str, is_marked: bool) -> Joined {
        if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(&source) {
            return Joined::Rest;
        }
        let begun = || Pending { number, is_marked, parts: Some(Vec::new()), bytes: 0 };
        let line = self.pending.entry(source).or_insert_with(begun);
        line.is_marked |= is_marked;
        let Some(parts) = &mut line.parts else { return Joined::Part };
        let text = text.strip_suffix('\n').unwrap_or(text);
        let bytes = text.len() + size_of::<(u64, String)>();
        if line.bytes + bytes > MAX_LINE_BYTES || self.pending_bytes + bytes > MAX_PENDING_BYTES {
            self.pending_bytes -= mem::take(&mut line.bytes);
            line.parts = None;
        } else {
            parts.push((number, text.to_owned()));
            line.bytes += bytes;
            self.pending_bytes += bytes;
        }
        Joined::Part
    }
}

/// Returns a container's text as a line of the drain's format.
fn as_line(text: &str, is_json: bool) -> Vec<u8> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if is_json { json!({"log": text}).to_string() } else { text.to_owned() }.into_bytes()
}

/// Returns the entry in a line of containerd or CRI-O: `time stream tags text`.
fn text_entry(line: &[u8]) -> Option<Entry> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let (time, stream, tags) = (words.next()?, words.next()?, words.next()?);
    let is_time = time.len() > 10 && time[..4].iter().all(u8::is_ascii_digit) && time[10] == b'T';
    let part = match tags.split(|byte| *byte == b':').next()? {
        b"P" => PartKind::Begin,
        b"F" => PartKind::End,
        _ => return None,
    };
    let text = Some(String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned());
    let source = String::from_utf8_lossy(stream).into_owned();
    (is_time && is_stream(&source)).then_some(Entry { source, text, part })
}

fn is_stream(text: &str) -> bool {
    matches!(text, "stdout" | "stderr")
}

/// Returns the entry in a line of Docker, or of a shipper that reads containers' logs.
fn json_entry(line: &[u8], is_parsed: bool) -> Option<Entry> {
    let names = ["\"logtag\"", "\"_p", "\"stream\"", "\"partial_message\"", "stdout ", "stderr "];
    let names = if is_parsed { &names[..3] } else { &names[..] };
    if !names.iter().any(|name| memchr::memmem::find(line, name.as_bytes()).is_some()) {
        return None;
    }
    let Ok(Value::Object(mut members)) = serde_json::from_slice(line) else { return None };
    let text = ["log", "message"].into_iter().find_map(|name| match members.get(name)? {
        Value::String(text) => Some(text.clone()),
        _ => None,
    });
    ["log", "message"].iter().for_each(|name| drop(members.remove(*name)));
    let part = json_part(&mut members);
    // A shipper can send the runtime's line as its text.
    let (text, part) = match text.as_deref().and_then(|text| text_entry(text.as_bytes())) {
        Some(inner) => {
            members.insert("stream".to_owned(), inner.source.into());
            (inner.text, inner.part)
        }
        None => (text, part?),
    };
    ["time", "date", "timestamp", "@timestamp", "offset"].iter().for_each(|name| drop(members.remove(*name)));
    Some(Entry { source: Value::Object(members).to_string(), text, part })
}

/// Removes the members that mark an entry as a part of a line, and returns which part it is. Returns `None` if the entry doesn't come
/// from a container.
fn json_part(members: &mut Map<String, Value>) -> Option<PartKind> {
    let is_true = |value: &Value| value == true || value == "true";
    let mut remove = |name: &str| members.remove(name);
    let tag = [remove("logtag"), remove("_p")].into_iter().flatten().find_map(|tag| tag.as_str().map(str::to_owned));
    let (partial, of_parts, last) = (remove("_partial"), remove("partial_message"), remove("partial_last"));
    ["partial_id", "partial_ordinal"].iter().for_each(|name| drop(remove(name)));
    if let Some(tag) = tag {
        return Some(if tag.starts_with('P') { PartKind::Begin } else { PartKind::End });
    }
    if let Some(partial) = partial {
        return Some(if is_true(&partial) { PartKind::Begin } else { PartKind::End });
    }
    if of_parts.is_some_and(|value| is_true(&value)) {
        return Some(if last.is_some_and(|value| is_true(&value)) { PartKind::Last } else { PartKind::Begin });
    }
    let has_stream = members.get("stream").and_then(Value::as_str).is_some_and(is_stream);
    has_stream.then_some(PartKind::Unmarked)
}
