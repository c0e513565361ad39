//! Reads a body's lines in order. Directives apply to later lines, and JSON objects don't require line breaks.

use super::container_lines::{ContainerLines, Joined};
use super::format_table::FormatId;
use super::formats::{DirectiveState, is_of_traefik, records_in};
use super::line_processor::{LineOutcome, LineProcessor, ProcessedLine, bad};
use super::split::{Item, MAX_LINE_BYTES, Nesting};
use schemas::identity::{DrainBody, DrainProvider};
use std::collections::VecDeque;
use std::io;

/// Maximum number of lines in one JSON object.
const MAX_OBJECT_LINES: usize = 4_096;
/// Maximum length of the lines that a visitor can write before the end of a line: Go's limit for a request's headers.
const MAX_FORGED_BYTES: usize = 1024 * 1024;

/// Callback for each line.
type LineCallback<'t> = &'t mut dyn FnMut(Item<'_>, ProcessedLine) -> io::Result<()>;

pub(super) struct LineReader<'a> {
    judge: &'a LineProcessor,
    heading: DirectiveState,
    /// Lines that may begin one JSON object, each with its number.
    pending: Vec<(u64, Vec<u8>)>,
    pending_bytes: usize,
    nesting: Nesting,
    containers: ContainerLines,
    /// Lines that wait for later ones, each with its number.
    held: VecDeque<(u64, Option<Vec<u8>>, ProcessedLine)>,
    held_bytes: usize,
    /// Whether the body contains a line of Traefik's text format.
    has_traefik: bool,
}

impl<'a> LineReader<'a> {
    pub(super) fn new(judge: &'a LineProcessor) -> Self {
        Self {
            judge,
            heading: DirectiveState::default(),
            pending: Vec::new(),
            pending_bytes: 0,
            nesting: Nesting::default(),
            containers: ContainerLines::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            has_traefik: false,
        }
    }

    /// Reads the next line, and passes on completed ones.
    pub(super) fn line(&mut self, item: Item<'_>, take: LineCallback<'_>) -> io::Result<()> {
        let judge = self.judge;
        match judge.provider.facts().batches_records {
            true => self.read(item, &mut |item, judged| take_records(judge, item, judged, take)),
            false => self.read(item, take),
        }
    }

    fn read(&mut self, item: Item<'_>, take: LineCallback<'_>) -> io::Result<()> {
        let Some(line) = item.bytes else {
            self.flush_pending(take)?;
            return self.finish(item, bad("too_long"), take);
        };
        if self.is_unescaped() && line.starts_with(b"{") {
            self.flush_pending(take)?;
        }
        if !self.pending.is_empty() {
            return self.continue_object(item.number, line, take);
        }
        if self.judge.provider.facts().body != DrainBody::Json && self.heading.takes(line) {
            return Ok(());
        }
        let line = if self.is_unescaped() { without_array(line) } else { line };
        if line.is_empty() {
            return Ok(());
        }
        let judged = self.judge.process(line, &self.heading);
        if line.first() == Some(&b'{') && matches!(judged.outcome, LineOutcome::Bad("not_json")) {
            return self.values_of(item.number, line, judged, take);
        }
        self.finish(item, judged, take)
    }

    /// Returns whether visitors can end a log's objects and arrays, because Fastly's default format doesn't escape every value. If so, an
    /// object must end its line, and a multi-line object ends before the next one begins.
    fn is_unescaped(&self) -> bool {
        self.judge.provider == DrainProvider::Fastly
    }

    /// Processes the rest of the body.
    pub(super) fn end(&mut self, take: LineCallback<'_>) -> io::Result<()> {
        self.flush_pending(take)?;
        for number in self.containers.end() {
            self.hold(Item { number, bytes: None }, bad("not_combined"), take)?;
        }
        self.release(0, take)
    }

    /// Joins lines that a container runtime split, and passes on the others.
    fn finish(&mut self, item: Item<'_>, judged: ProcessedLine, take: LineCallback<'_>) -> io::Result<()> {
        let provider = self.judge.provider;
        let has_columns = matches!(self.heading, DirectiveState::Directives(_));
        if has_columns || !matches!(provider, DrainProvider::Combined | DrainProvider::Ndjson) {
            return take(item, judged);
        }
        let Some(line) = item.bytes else { return self.hold(item, judged, take) };
        let is_parsed = provider == DrainProvider::Ndjson && !matches!(judged.format, None | Some(FormatId::Vector));
        match self.containers.next(provider, (item.number, line), is_parsed) {
            Joined::Whole => self.hold(item, judged, take),
            Joined::Parsed => {
                let judged = self.without_address(line, judged);
                self.hold(item, judged, take)
            }
            Joined::Part => Ok(()),
            Joined::Rest => self.hold(item, bad("not_combined"), take),
            Joined::Line { number, text } => self.hold_text(number, text.as_deref(), take),
            Joined::WholeAfter(lines) => {
                lines.into_iter().try_for_each(|(number, text)| self.hold_text(number, text.as_deref(), take))?;
                self.hold(item, judged, take)
            }
        }
    }

    /// Passes on a container's line; `None` if it is too long.
    fn hold_text(&mut self, number: u64, text: Option<&[u8]>, take: LineCallback<'_>) -> io::Result<()> {
        let judged = text.map_or_else(|| bad("too_long"), |text| self.judge.process_as(text, &self.heading, false));
        self.hold(Item { number, bytes: text }, judged, take)
    }

    /// Passes on a line. Lines with a verified agent, and those after them, wait until no line from Traefik follows closely: Traefik
    /// doesn't escape line breaks, so visitors can write whole lines before the end of its own.
    fn hold(&mut self, item: Item<'_>, judged: ProcessedLine, take: LineCallback<'_>) -> io::Result<()> {
        let line = item.bytes.unwrap_or_default();
        if !self.has_traefik && is_of_traefik(self.judge.provider, line) {
            self.has_traefik = true;
            self.release(0, take)?;
        }
        if self.has_traefik {
            let judged = self.without_address(line, judged);
            return take(item, judged);
        }
        if self.held.is_empty() && !judged.is_verified() {
            return take(item, judged);
        }
        self.held_bytes += line.len();
        self.held.push_back((item.number, item.bytes.map(<[u8]>::to_vec), judged));
        self.release(MAX_FORGED_BYTES, take)
    }

    /// Passes on the first held lines, until the others have at most this length.
    fn release(&mut self, most: usize, take: LineCallback<'_>) -> io::Result<()> {
        while self.held_bytes > most || most == 0 {
            let Some((number, line, judged)) = self.held.pop_front() else { break };
            let bytes = line.as_deref();
            self.held_bytes -= bytes.map_or(0, <[u8]>::len);
            let judged = if self.has_traefik { self.without_address(bytes.unwrap_or_default(), judged) } else { judged };
            take(Item { number, bytes }, judged)?;
        }
        Ok(())
    }

    /// Processes a line again if its agent's address was compared.
    fn without_address(&self, line: &[u8], judged: ProcessedLine) -> ProcessedLine {
        if judged.has_compared_address() { self.judge.process_as(line, &self.heading, false) } else { judged }
    }

    /// Splits a line that has several JSON objects or begins one.
    fn values_of(&mut self, number: u64, line: &[u8], whole: ProcessedLine, take: LineCallback<'_>) -> io::Result<()> {
        let Some(end) = self.nesting.end_of_value(line) else {
            if std::mem::take(&mut self.nesting).is_within_text() {
                return self.finish(Item { number, bytes: Some(line) }, whole, take);
            }
            self.begin(number, line);
            return Ok(());
        };
        let (value, others) = line.split_at(end);
        if others.is_empty() || (self.is_unescaped() && !without_array(others).is_empty()) {
            return self.finish(Item { number, bytes: Some(line) }, whole, take);
        }
        let first = self.judge.process(value, &self.heading);
        if matches!(first.outcome, LineOutcome::Bad("not_json")) {
            return self.finish(Item { number, bytes: Some(line) }, whole, take);
        }
        self.finish(Item { number, bytes: Some(value) }, first, take)?;
        let mut rest = if self.is_unescaped() { without_array(others) } else { without_separators(others) };
        while rest.first() == Some(&b'{')
            && let Some(end) = self.nesting.end_of_value(rest)
        {
            let (value, others) = rest.split_at(end);
            let judged = self.judge.process(value, &self.heading);
            self.finish(Item { number, bytes: Some(value) }, judged, take)?;
            rest = without_separators(others);
        }
        match rest.first() {
            None => Ok(()),
            Some(b'{') if !std::mem::take(&mut self.nesting).is_within_text() => {
                self.begin(number, rest);
                Ok(())
            }
            Some(_) => self.finish(Item { number, bytes: Some(rest) }, bad("not_json"), take),
        }
    }

    fn begin(&mut self, number: u64, line: &[u8]) {
        self.nesting = Nesting::default();
        // Count the line's brackets again.
        self.nesting.end_of_value(line);
        self.pending_bytes = line.len();
        self.pending.push((number, line.to_vec()));
    }

    /// Reads a multi-line object's next line.
    fn continue_object(&mut self, number: u64, line: &[u8], take: LineCallback<'_>) -> io::Result<()> {
        let end = self.nesting.end_of_value(line);
        let is_broken = end.is_none() && self.nesting.is_within_text();
        self.pending_bytes += line.len() + 1;
        if is_broken || self.pending_bytes > MAX_LINE_BYTES || self.pending.len() >= MAX_OBJECT_LINES {
            self.pending.push((number, line.to_vec()));
            return self.flush_pending(take);
        }
        let Some(end) = end else {
            self.pending.push((number, line.to_vec()));
            return Ok(());
        };
        let (last, rest) = line.split_at(end);
        let rest = if self.is_unescaped() { without_array(rest) } else { without_separators(rest) };
        if self.is_unescaped() && !rest.is_empty() {
            self.pending.push((number, line.to_vec()));
            return self.flush_pending(take);
        }
        let first = self.pending.first().map_or(number, |(number, _)| *number);
        let mut value = Vec::with_capacity(self.pending_bytes);
        for (_, part) in &self.pending {
            value.extend_from_slice(part);
            value.push(b'\n');
        }
        value.extend_from_slice(last);
        let judged = self.judge.process(&value, &self.heading);
        if matches!(judged.outcome, LineOutcome::Bad("not_json")) {
            self.pending.push((number, line.to_vec()));
            return self.flush_pending(take);
        }
        self.pending.clear();
        self.finish(Item { number: first, bytes: Some(&value) }, judged, take)?;
        if rest.is_empty() { Ok(()) } else { self.read(Item { number, bytes: Some(rest) }, take) }
    }

    /// Processes the pending lines one by one, because they don't form one object.
    fn flush_pending(&mut self, take: LineCallback<'_>) -> io::Result<()> {
        self.nesting = Nesting::default();
        for (number, line) in std::mem::take(&mut self.pending) {
            let judged = self.judge.process(&line, &self.heading);
            self.finish(Item { number, bytes: Some(&line) }, judged, take)?;
        }
        Ok(())
    }
}

/// Passes on each line of a batch, or the line itself.
fn take_records(judge: &LineProcessor, item: Item<'_>, judged: ProcessedLine, take: LineCallback<'_>) -> io::Result<()> {
    let is_batch = matches!(judged.outcome, LineOutcome::Bad(_));
    let Some(records) = item.bytes.filter(|_| is_batch).and_then(records_in) else { return take(item, judged) };
    for record in records {
        let line = record.get().as_bytes();
        take(Item { number: item.number, bytes: Some(line) }, judge.process(line, &DirectiveState::default()))?;
    }
    Ok(())
}

/// Removes an array's punctuation around one of its objects.
fn without_array(line: &[u8]) -> &[u8] {
    let punctuation = line.iter().take_while(|byte| byte.is_ascii_whitespace() || matches!(byte, b'[' | b',' | b']')).count();
    &line[punctuation..]
}

fn without_separators(bytes: &[u8]) -> &[u8] {
    let separators = bytes.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
    &bytes[separators..]
}

#[cfg(test)]
mod tests {
    use super::super::dry_run::{DrainDryRun, DryLine};
    use super::*;
    use chrono::DateTime;
    use schemas::bots::BotTable;
    use serde_json::{Value, json};

    fn line(path: &str) -> Value {
        json!({"timestamp": "2026-11-01T10:00:00Z", "host": "a.test", "url": path, "method": "GET", "status": 200,
            "user_agent": "GPTBot/1.2", "note": "}{\"[", "list": [{"a": 1}]})
    }

    /// Returns each line's number, with its path or the reason why it is bad.
    fn read(log: &str) -> Vec<(u64, String)> {
        let now = DateTime::from_timestamp(1_793_527_300, 0).unwrap();
        let dry_run =
            DrainDryRun { provider: DrainProvider::Ndjson, host: None, hosts: Vec::new(), bots: BotTable::bundled(), now };
        let mut found = Vec::new();
        let take = |DryLine { number, outcome, .. }: DryLine| {
            found.push((
                number,
                match outcome {
                    LineOutcome::Kept(event) => event.content_url.unwrap().replace("https://a.test", ""),
                    LineOutcome::Bad(reason) => reason.to_owned(),
                    other => format!("{other:?}"),
                },
            ));
            Ok(())
        };
        dry_run.lines(log.as_bytes(), take).unwrap();
        found
    }

    fn numbered(found: &[(u64, &str)]) -> Vec<(u64, String)> {
        found.iter().map(|(number, text)| (*number, (*text).to_owned())).collect()
    }

    #[test]
    fn reads_json_objects_without_line_breaks() {
        let [a, b, c] = ["/a", "/b", "/c"].map(|path| line(path).to_string());
        let pretty = |path| serde_json::to_string_pretty(&line(path)).unwrap();
        let height = pretty("/a").lines().count() as u64;
        assert_eq!(read(&format!("{a}{b}\n{c}")), numbered(&[(1, "/a"), (1, "/b"), (2, "/c")]));
        assert_eq!(read(&format!("{a}, {b} {c}\n")), numbered(&[(1, "/a"), (1, "/b"), (1, "/c")]));
        let log = format!("{}\n{}\n{c}", pretty("/a"), pretty("/b"));
        assert_eq!(read(&log), numbered(&[(1, "/a"), (1 + height, "/b"), (1 + 2 * height, "/c")]));
        assert_eq!(read(&format!("{}{}", pretty("/a"), pretty("/b"))).len(), 2);
    }

    #[test]
    fn objects_without_line_breaks_can_exceed_a_line() {
        let log: String = (0..16_000).map(|n| line(&format!("/{n}")).to_string()).collect();
        assert!(log.len() > 2 * MAX_LINE_BYTES);
        let expected: Vec<(u64, String)> = (0..16_000).map(|n| (1, format!("/{n}"))).collect();
        assert_eq!(read(&log), expected);
    }

    #[test]
    fn broken_objects_do_not_hide_later_ones() {
        let good = line("/a").to_string();
        for broken in [
            "{",
            "{\"a\":",
            "{\"a\":[",
            "{\"a\": {\"b\": 1},",
            "{\"a\": \"b",
            "{]",
            "{}}",
            "x{}{",
            "[1,2]",
            "{\"a\":\n{\"b\":\n[",
        ] {
            let found = read(&format!("x\n{broken}\n{good}\n{good}"));
            let kept = found.iter().filter(|(_, text)| text == "/a").count();
            assert_eq!((kept, found.last().map(|(_, text)| text.as_str())), (2, Some("/a")), "{broken}: {found:?}");
            assert!(found.iter().filter(|(_, text)| text != "/a").count() >= 2, "{broken}: {found:?}");
        }
    }
}
