//! Logs with a `#Fields` line: W3C extended logs by IIS, and standard logs by `CloudFront`.

use super::super::line_fields::{Field, Fields, Reason};
use super::{FormatId, firehose};
use std::borrow::Cow;

/// State of the directives at the beginning of a body.
#[derive(Default)]
pub(in super::super) enum DirectiveState {
    #[default]
    Unread,
    /// The body doesn't begin with directives, so later lines aren't directives either.
    Absent,
    /// The columns in the latest `#Fields` line.
    Directives(Option<Columns>),
}

pub(in super::super) struct Columns(Vec<Option<(Field, u8)>>);

impl DirectiveState {
    /// Reads a directive. Returns false if the line isn't one. Visitors can't write directives: the body begins with a directive, and rows
    /// begin with a date. In a text log that begins with the host, which visitors choose, every line contains a quote.
    pub(in super::super) fn takes(&mut self, line: &[u8]) -> bool {
        let is_directive = line.first() == Some(&b'#') && memchr::memchr(b'"', line).is_none();
        match self {
            Self::Unread if is_directive => *self = Self::Directives(None),
            Self::Unread => *self = Self::Absent,
            Self::Absent | Self::Directives(_) => {}
        }
        let Self::Directives(columns) = self else { return false };
        if let Some(names) = line.strip_prefix(b"#Fields:").and_then(|names| std::str::from_utf8(names).ok()) {
            *columns = Some(Columns(names.split_ascii_whitespace().map(firehose::column).collect()));
        }
        is_directive
    }
}

impl Columns {
    /// Returns a row's fields. Rejects rows with another number of columns.
    pub(super) fn read<'a>(&self, row: &'a str) -> Result<Fields<'a>, Reason> {
        // The server writes the first column. Visitors can write either separator into later ones.
        let (separator, format) = match row.find(['\t', ' ']) {
            Some(at) if row[at..].starts_with('\t') => ('\t', FormatId::CloudFrontStandard),
            _ => (' ', FormatId::W3c),
        };
        let mut fields = Fields::new(format);
        let mut values = row.trim_end_matches(separator).split(separator);
        for column in &self.0 {
            let value = values.next().ok_or("wrong_columns")?;
            if let Some((field, rank)) = *column {
                fields.put_ranked(field, rank, Cow::Borrowed(value));
            }
        }
        if values.next().is_some() {
            return Err("wrong_columns");
        }
        if format == FormatId::CloudFrontStandard {
            return Ok(firehose::finished(fields));
        }
        fields.rewrite(Field::UserAgent, |text| text.contains('+').then(|| without_pluses(text)));
        if fields.get(Field::Port) == Some("80") {
            fields.put(Field::Scheme, Cow::Borrowed("http"));
        }
        Ok(fields)
    }
}

/// Replaces the pluses that IIS writes for spaces. The second of two is the plus before the link to the bot's page.
fn without_pluses(text: &str) -> String {
    let mut is_after_plus = false;
    let read = |character| {
        let is_space = character == '+' && !is_after_plus;
        is_after_plus = is_space;
        if is_space { ' ' } else { character }
    };
    text.chars().map(read).collect()
}
