//! Splits a body into lines, or into the elements of its JSON array, while reading it.

mod truncate_texts;

use memchr::{memchr, memchr_iter, memchr2};
use schemas::identity::{DrainBody, DrainProvider};
use std::io::{self, BufRead, BufReader, Read};
use truncate_texts::{TruncatedText, max_text, without_long_texts, without_unread_members};

const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum length of a line after shortening, and of a multi-line JSON object. Visitors choose their headers, and servers accept up to a
/// mebibyte of them. Caddy logs all headers, and JSON escapes can expand them sixfold.
pub(super) const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Maximum length of a request id to search for in a body.
const MAX_ID_BYTES: usize = 256;

/// Some editors write it at the beginning of files.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    /// Line number (blank lines are skipped but count), or position in the array. Starts at 1.
    pub(super) number: u64,
    /// `None` if the line is too long even with truncated strings.
    pub(super) bytes: Option<&'a [u8]>,
}

/// A body's structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Lines.
    Lines,
    /// The elements of one array.
    Array,
    /// The elements of an object's `records` array.
    Records,
}

/// Splits one body.
pub(super) struct Splitter<R> {
    reader: BufReader<R>,
    max_bytes: usize,
}

impl<R: Read> Splitter<R> {
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        Self { reader: BufReader::with_capacity(CHUNK_BYTES, reader), max_bytes }
    }

    /// Passes on each line of a body, or each element of an array. A combined log's line may begin with `[`, because visitors choose the
    /// host, such as `[::1]`, so combined logs are never JSON.
    pub(super) fn items(mut self, provider: DrainProvider, take: impl FnMut(Item<'_>) -> io::Result<()>) -> io::Result<()> {
        match provider.facts().body {
            DrainBody::Text => lines(&mut self.reader, self.max_bytes, 0, take),
            // A visitor can end an array in a Fastly log, so its lines are read one by one.
            DrainBody::Json if provider == DrainProvider::Fastly => lines(&mut self.reader, self.max_bytes, 0, take),
            DrainBody::Json | DrainBody::FirehoseRecords => self.lines_or_elements(take),
        }
    }

    fn lines_or_elements(self, take: impl FnMut(Item<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut body = self.without_byte_order_mark()?;
        match body.layout()? {
            (Layout::Array, _) => body.elements(Layout::Array, take).map(drop),
            (_, passed) => lines(&mut body.reader, body.max_bytes, passed, take),
        }
    }

    fn without_byte_order_mark(mut self) -> io::Result<Splitter<impl Read>> {
        let mut begin = Vec::with_capacity(BYTE_ORDER_MARK.len());
        self.reader.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut begin)?;
        if begin == BYTE_ORDER_MARK {
            begin.clear();
        }
        Ok(Splitter::new(io::Cursor::new(begin).chain(self.reader), self.max_bytes))
    }

    /// Passes on a Firehose delivery's records, and returns its `requestId`.
    pub(super) fn records(self, take: impl FnMut(Item<'_>) -> io::Result<()>) -> io::Result<Option<String>> {
        self.elements(Layout::Records, take)
    }

    /// Returns the body's structure, and the number of blank lines before it.
    fn layout(&mut self) -> io::Result<(Layout, u64)> {
        let mut passed = 0;
        loop {
            let chunk = self.reader.fill_buf()?;
            let blank = chunk.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            match chunk.get(blank) {
                Some(b'[') => return Ok((Layout::Array, passed)),
                Some(_) => return Ok((Layout::Lines, passed)),
                None if chunk.is_empty() => return Ok((Layout::Lines, passed)),
                None => {
                    passed += memchr_iter(b'\n', chunk).count() as u64;
                    self.reader.consume(blank);
                }
            }
        }
    }

    fn elements(mut self, layout: Layout, mut take: impl FnMut(Item<'_>) -> io::Result<()>) -> io::Result<Option<String>> {
        let (mut number, mut scanner) = (0, Scanner::new(layout, self.max_bytes));
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return scanner.end();
            }
            let mut rest = chunk;
            while !rest.is_empty() {
                let (taken, has_ended) = scanner.advance(rest)?;
                if has_ended {
                    number += 1;
                    take(Item { number, bytes: scanner.element() })?;
                    scanner.next_element();
                }
                rest = &rest[taken..];
            }
            let length = chunk.len();
            self.reader.consume(length);
        }
    }
}

/// Passes on each line; `passed` lines precede the first. Consecutive JSON objects without line breaks are split when they exceed the
/// maximum length, and long strings are truncated.
pub(super) fn lines(
    reader: &mut impl BufRead,
    max_bytes: usize,
    passed: u64,
    mut take: impl FnMut(Item<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let (mut number, mut line) = (passed + 1, Vec::with_capacity(4_096));
    loop {
        let room = (max_bytes + 1).saturating_sub(line.len());
        let read = reader.by_ref().take(room as u64).read_until(b'\n', &mut line)?;
        if read == 0 && line.is_empty() {
            return Ok(());
        }
        let is_too_long = line.len() > max_bytes && line.last() != Some(&b'\n');
        if is_too_long {
            let cut = values_in(&line, number, &mut take)?;
            if cut > 0 {
                line.drain(..cut);
                continue;
            }
            if shorten(reader, &mut line, max_bytes)? {
                continue;
            }
        }
        if is_too_long {
            reader.skip_until(b'\n')?;
            take(Item { number, bytes: None })?;
        } else {
            let marked = if number == 1 { line.strip_prefix(BYTE_ORDER_MARK) } else { None };
            let text = marked.unwrap_or(&line).trim_ascii();
            if !text.is_empty() {
                take(Item { number, bytes: Some(text) })?;
            }
        }
        number += 1;
        line.clear();
    }
}

/// Like [`lines`], for text in memory. Lines aren't copied.
pub(super) fn lines_of(text: &[u8], max_bytes: usize, mut take: impl FnMut(Item<'_>) -> io::Result<()>) -> io::Result<()> {
    if text.len() > max_bytes {
        return lines(&mut &*text, max_bytes, 0, take);
    }
    let mut rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    for number in 1.. {
        let end = memchr(b'\n', rest);
        let line = rest[..end.unwrap_or(rest.len())].trim_ascii();
        if !line.is_empty() {
            take(Item { number, bytes: Some(line) })?;
        }
        let Some(end) = end else { break };
        rest = &rest[end + 1..];
    }
    Ok(())
}

/// Truncates long strings in an incomplete line. Returns whether there is enough room for the rest, because shortening it byte by byte
/// would be too expensive.
fn shorten(reader: &mut impl BufRead, line: &mut Vec<u8>, max_bytes: usize) -> io::Result<bool> {
    let (mut short, rest) = without_long_texts(line, max_text(max_bytes));
    if let Some(mut rest) = rest {
        loop {
            let (passed, has_ended) = rest.pass(reader.fill_buf()?);
            reader.consume(passed);
            if has_ended || passed == 0 {
                break;
            }
        }
        short.extend_from_slice(rest.text().as_bytes());
    }
    Ok(has_room(std::mem::replace(line, short).len(), line, max_bytes))
}

/// Returns whether a shortened line leaves enough room. If it doesn't, removes a JSON object's unread members.
fn has_room(before: usize, line: &mut Vec<u8>, max_bytes: usize) -> bool {
    let is_enough = |after: usize| before > after && (before - after) * 4 >= max_bytes;
    if !is_enough(line.len()) && line.first() == Some(&b'{') {
        *line = without_unread_members(line);
    }
    is_enough(line.len())
}

/// Passes on the leading JSON objects of an incomplete line. Returns their length in bytes.
fn values_in(line: &[u8], number: u64, take: &mut impl FnMut(Item<'_>) -> io::Result<()>) -> io::Result<usize> {
    let mut from = 0;
    while line.get(from) == Some(&b'{') {
        let Some(end) = Nesting::default().end_of_value(&line[from..]).map(|end| from + end).filter(|end| *end < line.len())
        else {
            break;
        };
        take(Item { number, bytes: Some(&line[from..end]) })?;
        from = end + line[end..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b',')).count();
    }
    Ok(from)
}

/// Nesting depth while reading JSON.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Returns the end of the outermost value if the text contains it.
    pub(super) fn end_of_value(&mut self, text: &[u8]) -> Option<usize> {
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns whether a string is incomplete. JSON strings don't contain line breaks.
    pub(super) fn is_within_text(&self) -> bool {
        self.in_string
    }
}

/// Scans JSON for the ends of its elements, without validating them.
struct Scanner {
    layout: Layout,
    max_bytes: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether the scanner is in the array whose elements are wanted.
    in_array: bool,
    has_ended: bool,
    element: Vec<u8>,
    is_too_long: bool,
    /// Rest of a truncated string.
    cut: Option<TruncatedText>,
    /// A string of the outermost object, to find one of its members.
    text: Vec<u8>,
    is_wanted: bool,
    id: Option<String>,
}

impl Scanner {
    fn new(layout: Layout, max_bytes: usize) -> Self {
        Self {
            layout,
            max_bytes,
            depth: 0,
            in_string: false,
            is_escaped: false,
            in_array: false,
            has_ended: false,
            element: Vec::new(),
            is_too_long: false,
            cut: None,
            text: Vec::new(),
            is_wanted: false,
            id: None,
        }
    }

    /// Returns the elements' nesting depth.
    fn level(&self) -> usize {
        if self.layout == Layout::Records { 2 } else { 1 }
    }

    /// Reads one byte, or a string up to its end or an escape. Returns the length, and whether an element ended before it.
    fn advance(&mut self, rest: &[u8]) -> io::Result<(usize, bool)> {
        let is_plain = self.in_string && !self.is_escaped;
        let plain = if is_plain { memchr2(b'"', b'\\', rest).unwrap_or(rest.len()) } else { 0 };
        match rest.split_at(plain) {
            ([], [byte, ..]) => Ok((1, self.step(*byte)?)),
            (plain, _) => {
                self.keep_plain(plain);
                Ok((plain.len(), false))
            }
        }
    }

    /// Reads one byte. Returns whether an element ended before it.
    fn step(&mut self, byte: u8) -> io::Result<bool> {
        if self.in_string {
            self.step_in_string(byte);
            return Ok(false);
        }
        if byte.is_ascii_whitespace() {
            return Ok(false);
        }
        if self.has_ended || (self.depth == 0 && byte != self.opening()) {
            return Err(unreadable("the body is not a JSON object or array"));
        }
        let ends_element = self.in_array && self.depth == self.level() && matches!(byte, b',' | b']');
        match byte {
            b'"' => self.begin_string(),
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => self.close(byte),
            _ => self.keep_within(byte),
        }
        Ok(ends_element && (self.is_too_long || !self.element.is_empty()))
    }

    fn opening(&self) -> u8 {
        if self.layout == Layout::Records { b'{' } else { b'[' }
    }

    fn open(&mut self, byte: u8) {
        let is_the_array = byte == b'[' && self.depth + 1 == self.level() && !self.in_array;
        if self.in_array {
            self.keep(byte);
        }
        self.depth += 1;
        self.in_array |= is_the_array;
    }

    fn close(&mut self, byte: u8) {
        let closes_array = self.in_array && self.depth == self.level();
        self.depth -= 1;
        self.has_ended = self.depth == 0;
        match closes_array {
            true => self.in_array = false,
            false => self.keep_if_in_array(byte),
        }
    }

    fn keep_within(&mut self, byte: u8) {
        let is_between = self.depth == self.level() && byte == b',';
        if !is_between {
            self.keep_if_in_array(byte);
        }
    }

    fn begin_string(&mut self) {
        self.in_string = true;
        self.text.clear();
        self.keep_if_in_array(b'"');
    }

    fn step_in_string(&mut self, byte: u8) {
        if byte == b'"' && !self.is_escaped {
            let rest = self.cut.take().map(TruncatedText::text).unwrap_or_default();
            self.element.extend_from_slice(rest.as_bytes());
        }
        self.keep_if_in_array(byte);
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.end_string(),
            _ => {}
        }
    }

    /// Stores the part of a string between quotes and escapes.
    fn keep_plain(&mut self, plain: &[u8]) {
        if self.in_array {
            self.keep_all(plain);
        }
        if self.depth == 1 {
            let room = MAX_ID_BYTES.saturating_sub(self.text.len());
            self.text.extend_from_slice(&plain[..plain.len().min(room)]);
        }
    }

    fn end_string(&mut self) {
        self.in_string = false;
        if self.depth == 1 && self.layout == Layout::Records {
            if self.is_wanted && self.id.is_none() {
                self.id = String::from_utf8(std::mem::take(&mut self.text)).ok();
            }
            self.is_wanted = self.text == b"requestId";
        }
    }

    fn keep_if_in_array(&mut self, byte: u8) {
        if self.in_array {
            self.keep(byte);
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.element.len() < self.max_bytes && self.cut.is_none() {
            self.element.push(byte);
        } else {
            self.keep_all(&[byte]);
        }
    }

    fn keep_all(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty() && !self.is_too_long {
            if let Some(rest) = &mut self.cut {
                return rest.add(bytes);
            }
            let room = self.max_bytes.saturating_sub(self.element.len()).min(bytes.len());
            self.element.extend_from_slice(&bytes[..room]);
            bytes = &bytes[room..];
            self.is_too_long = !bytes.is_empty() && !self.shorten();
        }
    }

    /// Truncates an element's long strings; a Firehose record's string is the record itself. Returns whether there is enough room then.
    fn shorten(&mut self) -> bool {
        if self.layout == Layout::Records {
            return false;
        }
        let (short, cut) = without_long_texts(&self.element, max_text(self.max_bytes));
        self.cut = cut;
        has_room(std::mem::replace(&mut self.element, short).len(), &mut self.element, self.max_bytes)
    }

    fn element(&self) -> Option<&[u8]> {
        (!self.is_too_long).then_some(&self.element)
    }

    fn next_element(&mut self) {
        self.element.clear();
        self.is_too_long = false;
        self.cut = None;
    }

    fn end(self) -> io::Result<Option<String>> {
        if self.has_ended { Ok(self.id) } else { Err(unreadable("the JSON in the body is truncated")) }
    }
}

fn unreadable(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a body's items with their numbers.
    fn numbered(body: impl Read, max_bytes: usize) -> io::Result<Vec<(u64, Option<String>)>> {
        let mut found = Vec::new();
        let keep = |item: Item<'_>| {
            found.push((item.number, item.bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())));
            Ok(())
        };
        Splitter::new(body, max_bytes).lines_or_elements(keep)?;
        Ok(found)
    }

    fn split(body: &str, max_bytes: usize) -> io::Result<Vec<Option<String>>> {
        Ok(numbered(body.as_bytes(), max_bytes)?.into_iter().map(|(_, item)| item).collect())
    }

    fn some(items: &[&str]) -> Vec<Option<String>> {
        items.iter().map(|item| Some((*item).to_owned())).collect()
    }

    #[test]
    fn lines_and_elements_are_equivalent() {
        for body in [
            "{\"a\":1}\n{\"b\":[2]}",
            "{\"a\":1}\r\n\n  \n{\"b\":[2]}\n",
            "\u{feff}{\"a\":1}\n{\"b\":[2]}",
            " [{\"a\":1},{\"b\":[2]}]",
            "\u{feff}[{\"a\":1},{\"b\":[2]}]",
            "[\n{\"a\": 1} ,\n{\"b\":[ 2 ]}\n]\n",
        ] {
            assert_eq!(split(body, 100).unwrap(), some(&["{\"a\":1}", "{\"b\":[2]}"]), "{body:?}");
        }
        assert_eq!(split(r#"["a,]\"[",7,null]"#, 100).unwrap(), some(&[r#""a,]\"[""#, "7", "null"]));
        for empty in ["", "\n\n", "[]", " [ ] "] {
            assert_eq!(split(empty, 100).unwrap(), [], "{empty:?}");
        }
    }

    #[test]
    fn numbers_lines_like_an_editor_and_elements_by_position() {
        let numbers = |body: &str| {
            let whole = numbered(body.as_bytes(), 10).unwrap().into_iter().map(|(number, _)| number).collect::<Vec<_>>();
            let dripped =
                numbered(Dripping(body.as_bytes()), 10).unwrap().into_iter().map(|(number, _)| number).collect::<Vec<_>>();
            assert_eq!(whole, dripped, "{body:?}");
            whole
        };
        assert_eq!(numbers("a\nb\n"), [1, 2]);
        assert_eq!(numbers("\n \r\n\ta\n\n\nb"), [3, 6], "blank lines are counted, at the beginning too");
        assert_eq!(numbers(&format!("a\n{}\n\nb", "x".repeat(11))), [1, 2, 4], "a line that is too long is counted");
        assert_eq!(numbers("\n[7,\n\n8,\"a text too long\",9]\n"), [1, 2, 3, 4]);
    }

    #[test]
    fn skips_lines_that_are_too_long() {
        let long = "x".repeat(11);
        assert_eq!(split(&format!("{long}\nshort\n"), 10).unwrap(), [None, Some("short".to_owned())]);
        assert_eq!(split(&format!("{}\nshort", "y".repeat(10)), 10).unwrap(), some(&["yyyyyyyyyy", "short"]));
        assert_eq!(split(&format!("[\"{long}\",7]"), 10).unwrap(), [None, Some("7".to_owned())]);
        assert_eq!(split(&long.repeat(100_000), 10).unwrap(), [None]);
    }

    #[test]
    fn rejects_incomplete_arrays_and_trailing_data() {
        for body in ["[", "[{\"a\":1}", "[{\"a\":1},", "[\"a", "[] x", "[1][2]", "[]]"] {
            assert!(split(body, 100).is_err(), "{body:?}");
        }
    }

    /// Returns one byte per read.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let some = buffer.len().min(1);
            self.0.read(&mut buffer[..some])
        }
    }

    /// Returns the elements and the result.
    fn elements(body: impl Read, layout: Layout, max_bytes: usize) -> (Vec<Option<Vec<u8>>>, String) {
        let mut found = Vec::new();
        let ended = Splitter::new(body, max_bytes).elements(layout, |item| {
            found.push(item.bytes.map(<[u8]>::to_vec));
            Ok(())
        });
        (found, format!("{ended:?}"))
    }

    const LONG: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    const ESCAPES: &str =
        r"\ud83d\ude00\u0022\x22\\\n\ud83d\ude00\u0022\x22\\\n\ud83d\ude00\u0022\x22\\\n\ud83d\ude00\u0022\x22\\\n";

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_items(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\\"", "\\\\", " ", "a", "requestId", "records", "data", "\"requestId\":\"i\"",
                    "\"records\":[", "{\"data\":\"YQ==\"}", "\"a long text, with [all] {that}\"", "\n", "\r\n", "\u{feff}", LONG, ESCAPES,
                ]),
                0..30,
            ),
            max_bytes in prop_oneof![0..40_usize, 40..600_usize],
            is_delivery in any::<bool>(),
        ) {
            let numbered = |body: &mut dyn Read| {
                let mut found = Vec::new();
                let keep = |item: Item<'_>| {
                    found.push((item.number, item.bytes.map(<[u8]>::to_vec)));
                    Ok(())
                };
                lines(&mut BufReader::new(body), max_bytes, 0, keep).unwrap();
                found
            };
            let body = parts.concat();
            let lines = numbered(&mut body.as_bytes());
            prop_assert_eq!(&lines, &numbered(&mut Dripping(body.as_bytes())));
            let mut of_memory = Vec::new();
            let keep = |item: Item<'_>| {
                of_memory.push((item.number, item.bytes.map(<[u8]>::to_vec)));
                Ok(())
            };
            lines_of(body.as_bytes(), max_bytes, keep).unwrap();
            prop_assert_eq!(lines, of_memory);
            let (opening, layout) = if is_delivery { ("{", Layout::Records) } else { ("[", Layout::Array) };
            let body = format!("{opening}{}", parts.concat());
            prop_assert_eq!(
                elements(body.as_bytes(), layout, max_bytes),
                elements(Dripping(body.as_bytes()), layout, max_bytes)
            );
        }
    }

    #[test]
    fn finds_records_among_other_members() {
        let body = r#"{"requestId":"id-1","x":[[1],{"records":[0]}],"timestamp":1,"records":[{"data":"YQ=="},{"data":"Yg=="}]}"#;
        let records = |body: &str| {
            let mut found = Vec::new();
            let id = Splitter::new(body.as_bytes(), 100).records(|item| {
                found.push(String::from_utf8(item.bytes.unwrap().to_vec()).unwrap());
                Ok(())
            })?;
            Ok::<_, io::Error>((id, found))
        };
        let (id, found) = records(body).unwrap();
        assert_eq!(id.as_deref(), Some("id-1"));
        assert!(found.ends_with(&[r#"{"data":"YQ=="}"#.to_owned(), r#"{"data":"Yg=="}"#.to_owned()]), "{found:?}");
        for bad in ["[]", "{", r#"{"records":[{"data":"#, "", "x"] {
            assert!(records(bad).is_err(), "{bad:?}");
        }
    }
}
