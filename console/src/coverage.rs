//! Coverage: hours with and without server data, as a strip, a sentence and a table.

use crate::numbers::{Time, grouped};
use askama::filters::HtmlSafe;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use std::fmt::{Display, Formatter, Result};

const WIDTH: i64 = 960;
/// Maximum number of rows in the table, because there may be thousands of spans.
const SHOWN: usize = 40;
/// Maximum number of spans in a strip. More are shown as columns.
const MAX_SPANS: usize = 240;
const COLUMNS: i64 = 240;
const HEIGHT: i64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) covered: bool,
}

/// Consecutive spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Coverage {
    pub(crate) spans: Vec<Span>,
}

/// `GET /content-owners/coverage`
#[derive(Deserialize)]
pub(crate) struct CoverageResponse {
    pub(crate) coverage: Coverage,
}

impl Span {
    pub(crate) fn hours(&self) -> u64 {
        u64::try_from((self.end.0 - self.start.0).num_hours()).unwrap_or_default()
    }
}

impl Coverage {
    /// Creates spans from consecutive hours and whether each is covered.
    pub(crate) fn of_hours(hours: impl Iterator<Item = (DateTime<Utc>, bool)>) -> Self {
        let mut spans: Vec<Span> = Vec::new();
        for (start, covered) in hours {
            let end = Time(start + TimeDelta::hours(1));
            match spans.last_mut().filter(|last| last.covered == covered && last.end.0 == start) {
                Some(last) => last.end = end,
                None => spans.push(Span { start: Time(start), end, covered }),
            }
        }
        Self { spans }
    }

    /// Removes hours that start after `now`.
    pub(crate) fn until(self, now: DateTime<Utc>) -> Self {
        let begun = self.spans.into_iter().filter(|span| span.start.0 <= now);
        let spans = begun.map(|span| {
            let since = (now - span.start.0).num_hours() + 1;
            Span { end: Time(span.end.0.min(span.start.0 + TimeDelta::hours(since))), ..span }
        });
        Self { spans: spans.collect() }
    }

    /// Returns whether none of the hours between two times has data. Times before the first span are not unknown, because a read returns
    /// only the latest spans.
    pub(crate) fn is_unknown(&self, start: DateTime<Utc>, end: DateTime<Utc>) -> bool {
        let mut touched = self.spans.iter().filter(|span| span.start.0 < end && start < span.end.0).peekable();
        self.spans.first().is_some_and(|first| first.start.0 <= start)
            && touched.peek().is_some()
            && touched.all(|span| !span.covered)
    }

    pub(crate) fn covered(&self) -> u64 {
        self.spans.iter().filter(|span| span.covered).map(Span::hours).sum()
    }

    pub(crate) fn uncovered(&self) -> u64 {
        self.spans.iter().filter(|span| !span.covered).map(Span::hours).sum()
    }

    pub(crate) fn describe(&self) -> String {
        match (self.covered(), self.uncovered()) {
            (0, 0) => "This period hasn\u{2019}t started yet.".to_owned(),
            (0, _) => "No server logs cover this period. What crawlers fetched is unknown, not zero.".to_owned(),
            (1, 0) => "Server logs cover the whole hour.".to_owned(),
            (covered, 0) => format!("Server logs cover all {} hours.", grouped(covered)),
            (covered, uncovered) => {
                let whole = covered + uncovered;
                let percent = ((covered * 200 + whole) / (whole * 2)).clamp(1, 99);
                let (covered, whole) = (grouped(covered), grouped(whole));
                let rest = match uncovered {
                    1 => "One hour has no data and isn\u{2019}t counted as zero.".to_owned(),
                    more => format!("{} hours have no data and aren\u{2019}t counted as zero.", grouped(more)),
                };
                format!("Server logs cover {covered} of {whole} hours ({percent}\u{202f}%). {rest}")
            }
        }
    }

    /// Returns the spans shown in the table.
    pub(crate) fn latest(&self) -> &[Span] {
        &self.spans[self.spans.len().saturating_sub(SHOWN)..]
    }

    /// Returns whether the strip shows columns instead of spans.
    pub(crate) fn is_in_columns(&self) -> bool {
        self.spans.len() > MAX_SPANS
    }

    /// Returns each column's covered share.
    fn heights(&self) -> Vec<i64> {
        let (Some(first), Some(last)) = (self.spans.first(), self.spans.last()) else { return Vec::new() };
        let minutes = |time: Time| (time.0 - first.start.0).num_minutes();
        let whole = minutes(last.end).max(1);
        let begin = |column: i64| column * whole / COLUMNS;
        let mut covered = [0; COLUMNS as usize];
        for span in self.spans.iter().filter(|span| span.covered) {
            let (start, end) = (minutes(span.start), minutes(span.end));
            for column in start * COLUMNS / whole..=(end * COLUMNS / whole).min(COLUMNS - 1) {
                covered[column as usize] += (end.min(begin(column + 1)) - start.max(begin(column))).max(0);
            }
        }
        let height = |covered: i64, all: i64| match covered {
            0 => 0,
            whole if whole == all => HEIGHT,
            part => (part * HEIGHT / all.max(1)).clamp(1, HEIGHT - 1),
        };
        (0..COLUMNS).map(|column| height(covered[column as usize], begin(column + 1) - begin(column))).collect()
    }

    pub(crate) fn strip(&self) -> Strip<'_> {
        Strip(self)
    }
}

/// Adjacent spans, hatched where hours have no data, or columns as high as their covered share.
pub(crate) struct Strip<'a>(&'a Coverage);

impl HtmlSafe for Strip<'_> {}

impl Display for Strip<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let spans = &self.0.spans;
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Ok(()) };
        write!(
            f,
            "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 16\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
             <defs><pattern id=\"unknown\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
             <path d=\"M0 8L8 0\"/></pattern></defs>",
            self.0.describe()
        )?;
        let whole = (last.end.0 - first.start.0).num_minutes().max(1);
        let at = |time: Time| (time.0 - first.start.0).num_minutes() * WIDTH / whole;
        if self.0.uncovered() > 0 {
            write!(f, "<rect class=\"uncovered\" fill=\"url(#unknown)\" width=\"{WIDTH}\" height=\"16\"/>")?;
        }
        f.write_str("<path class=\"covered\" d=\"")?;
        if self.0.is_in_columns() {
            self.write_columns(f)?;
        } else {
            for span in spans.iter().filter(|span| span.covered) {
                let (left, width) = (at(span.start), at(span.end) - at(span.start));
                write!(f, "M{left} 0h{width}v16h-{width}z")?;
            }
        }
        f.write_str("\"/></svg>")
    }
}

impl Strip<'_> {
    fn write_columns(&self, f: &mut Formatter<'_>) -> Result {
        let (heights, mut left) = (self.0.heights(), 0);
        for alike in heights.chunk_by(|one, next| one == next) {
            let (height, width) = (alike[0], alike.len() as i64 * WIDTH / COLUMNS);
            if height > 0 {
                write!(f, "M{left} {HEIGHT}v-{height}h{width}v{height}z")?;
            }
            left += width;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn hours(from: &str, covered: &[bool]) -> Coverage {
        let start = at(from);
        Coverage::of_hours(covered.iter().zip(0..).map(|(covered, hour)| (start + TimeDelta::hours(hour), *covered)))
    }

    #[test]
    fn merges_adjacent_equal_hours() {
        let coverage = hours("2026-03-01T00:00:00Z", &[true, true, false, true]);
        assert_eq!(
            coverage.spans.iter().map(|span| (span.hours(), span.covered)).collect::<Vec<_>>(),
            [(2, true), (1, false), (1, true)]
        );
        assert_eq!((coverage.covered(), coverage.uncovered()), (3, 1));
    }

    #[test]
    fn does_not_count_future_hours() {
        let day = hours("2026-03-01T00:00:00Z", &[[true].as_slice(), &[false; 23]].concat());
        for (now, uncovered) in [("2026-03-01T00:30:00Z", 0), ("2026-03-01T01:00:00Z", 1), ("2026-03-01T05:59:59Z", 5)] {
            assert_eq!(day.clone().until(at(now)).uncovered(), uncovered, "{now}");
        }
        assert_eq!(day.clone().until(at("2026-03-02T12:00:00Z")), day);
        assert_eq!(day.until(at("2026-02-28T00:00:00Z")).spans, []);
    }

    #[test]
    fn shows_only_the_latest_of_thousands_of_spans() {
        let all: Vec<bool> = (0..1_000).map(|hour| hour % 2 == 0).collect();
        let coverage = hours("2026-03-01T00:00:00Z", &all);
        assert_eq!(
            (coverage.spans.len(), coverage.latest().len(), coverage.latest().last()),
            (1_000, SHOWN, coverage.spans.last())
        );
        let years: Vec<bool> = (0..100_000_u64).map(|hour| hour * hour % 7 < 3).collect();
        for coverage in [&coverage, &hours("2016-03-01T00:00:00Z", &years)] {
            assert!(coverage.strip().to_string().len() < 6_500, "{}", coverage.strip().to_string().len());
        }
        assert_eq!(hours("2026-03-01T00:00:00Z", &all[..3]).latest().len(), 3);
    }

    #[test]
    fn column_height_equals_the_covered_share() {
        // Columns of ten hours, of which 10, 0, 5, 1 and 9 are covered.
        let column = |covered: usize| (0..10).map(|hour| hour < covered).collect::<Vec<_>>();
        let parts = [10, 0, 5, 1, 9];
        let all: Vec<bool> = (0..240).flat_map(|at| column(parts[at % 5])).collect();
        let coverage = hours("2026-03-01T00:00:00Z", &all);
        assert!(coverage.is_in_columns(), "{}", coverage.spans.len());
        assert_eq!(coverage.heights()[..10], [16, 0, 8, 1, 14, 16, 0, 8, 1, 14]);
        let strip = coverage.strip().to_string();
        assert!(strip.contains("d=\"M0 16v-16h4v16zM8 16v-8h4v8zM12 16v-1h4v1zM16 16v-14h4v14z"), "{strip}");
        assert!(strip.contains("class=\"uncovered\""), "uncovered hours must be hatched: {strip}");
        // A nearly full column isn't drawn as full, nor a nearly empty one as empty.
        let mut nearly = vec![true; 240 * 100];
        (0..240).for_each(|at| nearly[at * 100] = false);
        assert!(hours("2026-03-01T00:00:00Z", &nearly).heights().iter().all(|height| *height == 15));
        let hardly: Vec<bool> = nearly.iter().map(|covered| !covered).collect();
        assert!(hours("2026-03-01T00:00:00Z", &hardly).heights().iter().all(|height| *height == 1));
    }

    #[test]
    fn hatches_and_counts_hours_without_data() {
        let coverage = hours("2026-03-01T00:00:00Z", &[true, false]);
        let strip = coverage.strip().to_string();
        let parts = "<rect class=\"uncovered\" fill=\"url(#unknown)\" width=\"960\" height=\"16\"/><path class=\"covered\" d=\"M0 0h480v16h-480z\"/>";
        assert!(strip.contains(parts), "{strip}");
        let told = |covered: &[bool]| hours("2026-03-01T00:00:00Z", covered).describe();
        let half = "Server logs cover 1 of 2 hours (50\u{202f}%). One hour has no data and isn\u{2019}t counted as zero.";
        assert_eq!(coverage.describe(), half);
        let nearly = [&[true; 299][..], &[false]].concat();
        assert!(told(&nearly).contains("299 of 300 hours (99\u{202f}%)"), "{}", told(&nearly));
        let most = [&[true; 681][..], &[false; 29]].concat();
        let rest = "hours (96\u{202f}%). 29 hours have no data and aren\u{2019}t counted as zero.";
        assert_eq!(told(&most), format!("Server logs cover 681 of 710 {rest}"));
        assert_eq!(told(&[true; 2]), "Server logs cover all 2 hours.");
        assert!(told(&[false; 2]).contains("unknown, not zero"), "{}", told(&[false; 2]));
        assert_eq!(Coverage::default().strip().to_string(), "");
    }
}
