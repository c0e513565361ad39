//! Joins the parts of lines that container runtimes split, usually after 16 KiB (`visitors_cannot_split_lines`).
//!
//! Visitors choose where a line is split, so a part can look like a whole line.

use super::split::MAX_LINE_BYTES;
use schemas::identity::DrainProvider;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::mem;

/// Length of each of Docker's parts except the last.
const DOCKER_PART_BYTES: usize = 16 * 1024;
/// Maximum length of all incomplete lines together.
const MAX_PENDING_BYTES: usize = 4 * MAX_LINE_BYTES;
/// Maximum number of containers whose lines are known to be complete.
const MAX_COMPLETE: usize = 4_096;

/// What a container's entry becomes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// A complete line that verifies agents.
    Whole,
    /// A line whose beginning may be in an earlier body.
    MaybeRest,
    /// A part; the rest follows.
    Part,
    /// A part that can't be joined with the others.
    Rest,
    /// The joined line, with its first part's number. `None` if it is too long.
    Line { number: u64, text: Option<Vec<u8>>, verifies: bool },
}

/// Incomplete lines of one body, by container and stream.
#[derive(Default)]
pub(super) struct ContainerLines {
    pending: BTreeMap<String, Pending>,
    pending_bytes: usize,
    /// Containers whose latest line is complete.
    complete: HashSet<String>,
    /// Containers whose complete lines end with a line break.
    with_line_breaks: HashSet<String>,
}

struct Pending {
    number: u64,
    /// `None` if too long.
    text: Option<String>,
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
    /// Docker's entries end with a line break if the line is complete, unless a shipper removed it.
    Unmarked,
}

impl ContainerLines {
    /// Reads the next line, which isn't a container's in most logs. `is_parsed` is true if a JSON line contains a request.
    pub(super) fn next(&mut self, provider: DrainProvider, (number, line): (u64, &[u8]), is_parsed: bool) -> Joined {
        let is_json = provider != DrainProvider::Combined;
        let entry = if is_json { json_entry(line, is_parsed) } else { text_entry(line) };
        let Some(Entry { source, text, part }) = entry else {
            // It can be the rest of a line, if its shipper marks only the other parts.
            return if self.pending.is_empty() { Joined::Whole } else { Joined::MaybeRest };
        };
        let Some(text) = text else {
            return match part {
                PartKind::Begin => Joined::Rest,
                PartKind::End | PartKind::Last => Joined::MaybeRest,
                PartKind::Unmarked => Joined::Whole,
            };
        };
        if self.is_begin(&source, &text, part) {
            self.add(source, number, &text);
            return Joined::Part;
        }
        if part == PartKind::Unmarked && text.ends_with('\n') {
            remember(&mut self.with_line_breaks, &source);
        }
        let verifies = self.complete.contains(&source);
        if !verifies {
            remember(&mut self.complete, &source);
        }
        if !self.pending.contains_key(&source) {
            return match part {
                PartKind::Last => Joined::Rest,
                _ if verifies => Joined::Whole,
                _ => Joined::MaybeRest,
            };
        }
        self.add(source.clone(), number, &text);
        let Pending { number, text } = self.take(&source);
        let text = text.map(|text| if is_json { json!({"log": text}).to_string() } else { text });
        Joined::Line { number, text: text.map(String::into_bytes), verifies }
    }

    /// Returns the numbers of lines whose rest is missing.
    pub(super) fn end(&mut self) -> Vec<u64> {
        let mut numbers: Vec<u64> = mem::take(&mut self.pending).into_values().map(|line| line.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn is_begin(&self, source: &str, text: &str, part: PartKind) -> bool {
        match part {
            PartKind::Begin => true,
            PartKind::End | PartKind::Last => false,
            PartKind::Unmarked => {
                !text.ends_with('\n') && (text.len() == DOCKER_PART_BYTES || self.with_line_breaks.contains(source))
            }
        }
    }

    fn add(&mut self, source: String, number: u64, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let line = self.pending.entry(source).or_insert_with(|| Pending { number, text: Some(String::new()) });
        let Some(known) = &mut line.text else { return };
        if known.len() + text.len() > MAX_LINE_BYTES || self.pending_bytes + text.len() > MAX_PENDING_BYTES {
            self.pending_bytes -= known.len();
            line.text = None;
        } else {
            self.pending_bytes += text.len();
            known.push_str(text);
        }
    }

    fn take(&mut self, source: &str) -> Pending {
        let line = self.pending.remove(source).unwrap_or(Pending { number: 0, text: None });
        self.pending_bytes -= line.text.as_ref().map_or(0, String::len);
        line
    }
}

/// Adds a container. A forgotten container's next line doesn't verify an agent.
fn remember(known: &mut HashSet<String>, source: &str) {
    if known.len() >= MAX_COMPLETE {
        known.clear();
    }
    known.insert(source.to_owned());
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
    // Docker's own marks don't matter in lines with a request.
    let names = if is_parsed { &names[..2] } else { &names[..] };
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

/// Removes the members that identify an entry's part of a line. Returns `None` if the entry doesn't come from a container.
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
