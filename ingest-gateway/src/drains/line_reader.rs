//! Reads a body's lines in order. Directives apply to later lines, and JSON objects don't require line breaks.

use super::formats::{DirectiveState, records_in};
use super::line_processor::{LineOutcome, LineProcessor, ProcessedLine, bad};
use super::split::{Item, MAX_LINE_BYTES, Nesting};
use schemas::identity::{DrainBody, DrainProvider};
use std::io;

/// Maximum number of lines in one JSON object.
const MAX_OBJECT_LINES: usize = 4_096;

/// Callback for each line.
type LineCallback<'t> = &'t mut dyn FnMut(Item<'_>, ProcessedLine) -> io::Result<()>;

pub(super) struct LineReader<'a> {
    judge: &'a LineProcessor,
    heading: DirectiveState,
    /// Lines that may begin one JSON object, each with its number.
    pending: Vec<(u64, Vec<u8>)>,
    pending_bytes: usize,
    nesting: Nesting,
}

impl<'a> LineReader<'a> {
    pub(super) fn new(judge: &'a LineProcessor) -> Self {
        Self { judge, heading: DirectiveState::default(), pending: Vec::new(), pending_bytes: 0, nesting: Nesting::default() }
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
            return take(item, bad("too_long"));
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
        take(item, judged)
    }

    /// Returns whether visitors can end a log's objects and arrays, because Fastly's default format doesn't escape every text. If so, an
    /// object must end its line, and a multi-line object ends before the next one begins.
    fn is_unescaped(&self) -> bool {
        self.judge.provider == DrainProvider::Fastly
    }

    /// Processes the rest of the body.
    pub(super) fn end(&mut self, take: LineCallback<'_>) -> io::Result<()> {
        self.flush_pending(take)
    }

    /// Splits a line that has several JSON objects or begins one.
    fn values_of(&mut self, number: u64, line: &[u8], whole: ProcessedLine, take: LineCallback<'_>) -> io::Result<()> {
        let Some(end) = self.nesting.end_of_value(line) else {
            if std::mem::take(&mut self.nesting).is_within_text() {
                return take(Item { number, bytes: Some(line) }, whole);
            }
            self.begin(number, line);
            return Ok(());
        };
        let (value, others) = line.split_at(end);
        if others.is_empty() || (self.is_unescaped() && !without_array(others).is_empty()) {
            return take(Item { number, bytes: Some(line) }, whole);
        }
        let first = self.judge.process(value, &self.heading);
        if matches!(first.outcome, LineOutcome::Bad("not_json")) {
            return take(Item { number, bytes: Some(line) }, whole);
        }
        take(Item { number, bytes: Some(value) }, first)?;
        let mut rest = if self.is_unescaped() { without_array(others) } else { without_separators(others) };
        while rest.first() == Some(&b'{')
            && let Some(end) = self.nesting.end_of_value(rest)
        {
            let (value, others) = rest.split_at(end);
            take(Item { number, bytes: Some(value) }, self.judge.process(value, &self.heading))?;
            rest = without_separators(others);
        }
        match rest.first() {
            None => Ok(()),
            Some(b'{') if !std::mem::take(&mut self.nesting).is_within_text() => {
                self.begin(number, rest);
                Ok(())
            }
            Some(_) => take(Item { number, bytes: Some(rest) }, bad("not_json")),
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
        take(Item { number: first, bytes: Some(&value) }, judged)?;
        if rest.is_empty() { Ok(()) } else { self.read(Item { number, bytes: Some(rest) }, take) }
    }

    /// Processes the pending lines one by one, because they don't form one object.
    fn flush_pending(&mut self, take: LineCallback<'_>) -> io::Result<()> {
        self.nesting = Nesting::default();
        for (number, line) in std::mem::take(&mut self.pending) {
            let judged = self.judge.process(&line, &self.heading);
            take(Item { number, bytes: Some(&line) }, judged)?;
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
