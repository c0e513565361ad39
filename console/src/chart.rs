//! Line charts as SVG, with the same figures as a table and a sentence for screen readers.
//!
//! Charts use classes from `console.css`, because the content security policy blocks inline styles and scripts. Text is HTML, so that it
//! keeps its size on every screen.

use crate::coverage::Coverage;
use crate::labels::UNKNOWN;
use crate::numbers::{Count, grouped, short_day, short_hour};
use crate::responses::SeriesItem;
use askama::filters::HtmlSafe;
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, TimeDelta, Utc, Weekday};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};
use std::iter::successors;

const WIDTH: usize = 960;
const HEIGHT: usize = 240;
/// Maximum number of lines. The rest are summed in one more line.
const MAX_LINES: usize = 5;
/// Maximum number of daily points. Longer periods are grouped by week.
const MAX_DAYS: usize = 92;
/// Maximum number of weekly or monthly points. Longer periods are grouped by month or year.
const MAX_LONG: usize = 104;

/// Length of a point. Weeks start on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bucket {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Bucket {
    /// Returns the end of the bucket that begins at `start`.
    fn end(self, start: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::Hour => start.checked_add_signed(TimeDelta::hours(1)),
            Self::Day => start.checked_add_signed(TimeDelta::days(1)),
            Self::Week => start.checked_add_signed(TimeDelta::days(7)),
            Self::Month => start.checked_add_months(Months::new(1)),
            Self::Year => start.checked_add_months(Months::new(12)),
        }
    }

    /// Returns the first day of the bucket that contains a day.
    fn begin_of(self, day: NaiveDate) -> NaiveDate {
        match self {
            Self::Hour | Self::Day => day,
            Self::Week => day - since_monday(day.weekday()),
            Self::Month => day.with_day(1).unwrap_or(day),
            Self::Year => day.with_ordinal(1).unwrap_or(day),
        }
    }

    /// Longer buckets, each with its maximum number of points.
    const LONG: [(Self, usize); 3] = [(Self::Week, MAX_LONG), (Self::Month, MAX_LONG), (Self::Year, usize::MAX)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Hour => "Hour",
            Self::Day => "Day",
            Self::Week => "Week",
            Self::Month => "Month",
            Self::Year => "Year",
        }
    }

    pub(crate) fn is_hour(self) -> bool {
        self == Self::Hour
    }

    pub(crate) fn is_week(self) -> bool {
        self == Self::Week
    }

    /// Returns whether a point is the sum of several days.
    pub(crate) fn is_long(self) -> bool {
        Self::LONG.iter().any(|(bucket, _)| *bucket == self)
    }
}

/// Lines over the same buckets.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Title of the table, also read by screen readers.
    pub(crate) title: String,
    pub(crate) starts: Vec<DateTime<Utc>>,
    pub(crate) lines: Vec<Line>,
    pub(crate) bucket: Bucket,
    /// Whether the last bucket is not over yet.
    pub(crate) is_open: bool,
    /// For each bucket, whether none of its hours has server data. Zero in such a bucket means unknown.
    pub(crate) gaps: Vec<bool>,
    /// Links of lines whose value can be added to the filters, by line name.
    addresses: BTreeMap<String, String>,
}

/// One line, with a figure per bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) figures: Vec<u64>,
}

impl Line {
    pub(crate) fn total(&self) -> Count {
        Count(self.figures.iter().sum())
    }
}

impl Chart {
    /// Creates a chart from an API series. `name_of` returns an item's line. Buckets without items are zero. The line [`UNKNOWN`] comes
    /// last and is never summed with others.
    pub(crate) fn new(title: &str, items: &[SeriesItem], is_hourly: bool, name_of: impl Fn(&SeriesItem) -> String) -> Self {
        let mut by_start = BTreeMap::<DateTime<Utc>, BTreeMap<String, u64>>::new();
        let mut totals = BTreeMap::<String, u64>::new();
        for item in items {
            let name = name_of(item);
            *totals.entry(name.clone()).or_default() += item.total_events;
            *by_start.entry(item.start).or_default().entry(name).or_default() += item.total_events;
        }
        // The API omits zeros from long series, so add the missing buckets.
        let bucket = if is_hourly { Bucket::Hour } else { Bucket::Day };
        let last = by_start.keys().next_back().copied();
        for start in
            successors(by_start.keys().next().copied(), |start| bucket.end(*start)).take_while(|start| Some(*start) < last)
        {
            by_start.entry(start).or_default();
        }
        let is_long = bucket == Bucket::Day && by_start.len() > MAX_DAYS;
        let (bucket, by_start) = if is_long { added_up(&by_start) } else { (bucket, by_start) };
        let mut names: Vec<String> = totals.keys().cloned().collect();
        names.sort_by_key(|name| (name == UNKNOWN, std::cmp::Reverse(totals[name]), name.clone()));
        let figure = |name: &String| by_start.values().map(|bucket| bucket.get(name).copied().unwrap_or_default()).collect();
        let all: Vec<Line> = names.iter().map(|name| Line { name: name.clone(), figures: figure(name) }).collect();
        Self {
            title: title.to_owned(),
            gaps: vec![false; by_start.len()],
            starts: by_start.keys().copied().collect(),
            lines: at_most(all, MAX_LINES),
            bucket,
            is_open: false,
            addresses: BTreeMap::new(),
        }
    }

    /// Adds the links that `address_of` returns for line names.
    pub(crate) fn linked(mut self, address_of: impl Fn(&str) -> Option<String>) -> Self {
        let links = self.lines.iter().filter_map(|line| Some((line.name.clone(), address_of(&line.name)?)));
        self.addresses = links.collect();
        self
    }

    pub(crate) fn address(&self, line: &Line) -> Option<&str> {
        self.addresses.get(&line.name).map(String::as_str)
    }

    /// Reorders and renames the lines. Missing ones are zero.
    pub(crate) fn ordered(self, names: &[(&str, &str)]) -> Self {
        let line = |(name, label): &(&str, &str)| {
            let found = self.lines.iter().find(|line| line.name == *name).map(|line| line.figures.clone());
            Line { name: (*label).to_owned(), figures: found.unwrap_or_else(|| vec![0; self.starts.len()]) }
        };
        Self { lines: names.iter().map(line).collect(), ..self }
    }

    /// Marks the buckets without server data. Without `coverage`, no bucket is marked.
    pub(crate) fn with_gaps(mut self, coverage: Option<&Coverage>) -> Self {
        if let Some(coverage) = coverage {
            let is_gap = |start: &DateTime<Utc>| self.bucket.end(*start).is_some_and(|end| coverage.is_unknown(*start, end));
            self.gaps = self.starts.iter().map(is_gap).collect();
        }
        self
    }

    /// Returns a line's figure in a bucket; `None` if it is unknown.
    fn figure(&self, line: &Line, at: usize) -> Option<u64> {
        Some(line.figures[at]).filter(|figure| *figure > 0 || !self.gaps[at])
    }

    /// Returns the number of buckets with an unknown figure.
    pub(crate) fn unknown(&self) -> usize {
        let is_unknown = |at: &usize| self.lines.iter().any(|line| self.figure(line, *at).is_none());
        (0..self.starts.len()).filter(is_unknown).count()
    }

    /// Removes empty buckets at the end that start after `now`, because the future isn't zero.
    pub(crate) fn until(mut self, now: DateTime<Utc>) -> Self {
        let holds = |at: usize| self.lines.iter().any(|line| line.figures[at] > 0);
        let last = (0..self.starts.len()).rev().find(|at| self.starts[*at] <= now || holds(*at));
        let count = last.map_or(0, |last| last + 1);
        self.starts.truncate(count);
        self.gaps.truncate(count);
        self.is_open = self.starts.last().is_some_and(|last| self.bucket.end(*last).is_none_or(|end| now < end));
        self.lines.iter_mut().for_each(|line| line.figures.truncate(count));
        self
    }

    fn peak(&self) -> u64 {
        self.lines.iter().flat_map(|line| &line.figures).copied().max().unwrap_or_default()
    }

    /// Highest tick of the axis.
    fn top(&self) -> u64 {
        round_up(self.peak())
    }

    /// Labels of the ticks, from the top.
    pub(crate) fn ticks(&self) -> Vec<String> {
        let top = self.top();
        (0..=4).rev().map(|quarter| grouped(top / 4 * quarter)).collect()
    }

    /// Labels of some buckets on the time axis.
    pub(crate) fn marks(&self) -> Vec<String> {
        let last = self.starts.len().saturating_sub(1);
        let count = last.min(4);
        (0..=count)
            .filter_map(|at| self.starts.get((last * at).checked_div(count).unwrap_or_default()))
            .map(|start| self.mark(*start))
            .collect()
    }

    fn mark(&self, start: DateTime<Utc>) -> String {
        match self.bucket {
            Bucket::Hour => short_hour(start),
            Bucket::Day => short_day(start),
            Bucket::Week => start.format("%-d %b").to_string(),
            Bucket::Month => start.format("%b %Y").to_string(),
            Bucket::Year => start.format("%Y").to_string(),
        }
    }

    /// Returns the first day of the point that contains a day.
    pub(crate) fn begin_of(&self, day: NaiveDate) -> NaiveDate {
        self.bucket.begin_of(day)
    }

    /// Rows of the table: the bucket, and one figure per line; `None` if it is unknown.
    pub(crate) fn rows(&self) -> Vec<(String, Vec<Option<Count>>)> {
        let format = match self.bucket {
            Bucket::Hour => "%Y-%m-%d %H:00",
            Bucket::Day => "%Y-%m-%d",
            Bucket::Week => "week of %-d %b %Y",
            Bucket::Month => "%B %Y",
            Bucket::Year => "%Y",
        };
        let row = |(at, start): (usize, &DateTime<Utc>)| {
            (start.format(format).to_string(), self.lines.iter().map(|line| self.figure(line, at).map(Count)).collect())
        };
        self.starts.iter().enumerate().map(row).collect()
    }

    /// Summary for screen readers.
    pub(crate) fn describe(&self) -> String {
        let totals: Vec<String> = self.lines.iter().map(|line| format!("{}: {}", line.name, grouped(line.total().0))).collect();
        if totals.is_empty() {
            return format!("{}. No data.", self.title);
        }
        let unknown = match self.unknown() {
            0 => String::new(),
            1 => format!(" One {} has no data.", self.bucket.name()),
            more => format!(" {more} {}s have no data.", self.bucket.name()),
        };
        format!("{}. {}. Highest value: {}.{unknown}", self.title, totals.join(", "), grouped(self.peak()))
    }

    pub(crate) fn picture(&self) -> ChartSvg<'_> {
        ChartSvg(self)
    }
}

pub(crate) struct ChartSvg<'a>(&'a Chart);

impl HtmlSafe for ChartSvg<'_> {}

impl Display for ChartSvg<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let chart = self.0;
        write!(
            f,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">"
        )?;
        for quarter in 0..=4 {
            let y = HEIGHT * quarter / 4;
            write!(f, "<line class=\"grid\" x1=\"0\" y1=\"{y}\" x2=\"{WIDTH}\" y2=\"{y}\"/>")?;
        }
        self.write_gaps(f)?;
        let top = chart.top();
        for (at, line) in chart.lines.iter().enumerate().rev() {
            let figures = (0..line.figures.len()).map(|bucket| chart.figure(line, bucket)).collect::<Vec<_>>();
            write_line(f, at, &drawn(&figures, top, (WIDTH, HEIGHT)), (HEIGHT, chart.is_open))?;
        }
        for (at, start) in chart.starts.iter().enumerate() {
            let (left, right) = bounds(at, chart.starts.len());
            let told = |line: &Line| chart.figure(line, at).map_or_else(|| "no data".to_owned(), grouped);
            let figures: Vec<_> = chart.lines.iter().map(|line| format!("{} {}", escaped(&line.name), told(line))).collect();
            let of = if chart.bucket.is_week() { "week of " } else { "" };
            let label = format!("{of}{}: {}", chart.mark(*start), figures.join(", "));
            write!(
                f,
                "<rect class=\"bucket\" x=\"{left}\" y=\"0\" width=\"{}\" height=\"{HEIGHT}\"><title>{label}</title></rect>",
                right - left
            )?;
        }
        f.write_str("</svg>")
    }
}

impl ChartSvg<'_> {
    /// Hatches the buckets with an unknown figure.
    fn write_gaps(&self, f: &mut Formatter<'_>) -> Result {
        let (chart, count) = (self.0, self.0.starts.len());
        if chart.unknown() == 0 {
            return Ok(());
        }
        f.write_str(
            "<defs><pattern id=\"no-data\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 8L8 0\"/></pattern></defs>",
        )?;
        let mut at = 0;
        let is_gap = |at: usize| chart.gaps[at] && chart.lines.iter().any(|line| line.figures[at] == 0);
        while at < count {
            let end = (at..count).find(|at| !is_gap(*at)).unwrap_or(count);
            if end > at {
                let (left, right) = (bounds(at, count).0, bounds(end - 1, count).1);
                write!(
                    f,
                    "<rect class=\"gap\" fill=\"url(#no-data)\" x=\"{left}\" width=\"{}\" height=\"{HEIGHT}\"/>",
                    right - left
                )?;
            }
            at = end + 1;
        }
        Ok(())
    }
}

/// A small line without axes, next to a figure with the same number.
#[derive(Clone, Debug)]
pub(crate) struct Sparkline {
    /// `None` where the figure is unknown.
    pub(crate) figures: Vec<Option<u64>>,
    pub(crate) is_open: bool,
}

impl Sparkline {
    /// Returns a chart's line; empty if the chart doesn't have it.
    pub(crate) fn new(chart: &Chart, line: usize) -> Self {
        let figures = chart.lines.get(line).map(|line| (0..line.figures.len()).map(|at| chart.figure(line, at)).collect());
        Self { figures: figures.unwrap_or_default(), is_open: chart.is_open }
    }
}

impl HtmlSafe for Sparkline {}

impl Display for Sparkline {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (width, height) = (160, 40);
        let top = self.figures.iter().copied().flatten().max().unwrap_or_default().max(1);
        write!(
            f,
            "<svg class=\"spark\" viewBox=\"0 -2 {width} {height}\" preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">"
        )?;
        write_line(f, 0, &drawn(&self.figures, top, (width, height - 4)), (height - 2, self.is_open))?;
        f.write_str("</svg>")
    }
}

/// Writes a line, broken where figures are unknown, and the area below the first one. The segment to an unfinished bucket is a separate
/// line.
fn write_line(f: &mut Formatter<'_>, at: usize, points: &[Option<Point>], (bottom, is_open): (usize, bool)) -> Result {
    let joined = |points: &[Option<Point>]| points.iter().flatten().map(Point::to_string).collect::<Vec<_>>().join(" ");
    let last = points.len().saturating_sub(1);
    let known: Vec<&[Option<Point>]> = points.split(Option::is_none).filter(|part| !part.is_empty()).collect();
    for part in known.iter().filter(|_| at == 0) {
        if let (Some(Some(first)), Some(Some(end))) = (part.first(), part.last()) {
            write!(f, "<polygon class=\"area line-0\" points=\"{},{bottom} {} {},{bottom}\"/>", first.x, joined(part), end.x)?;
        }
    }
    let mut write = |points: &[Option<Point>], class: &str| match points {
        // A line with one point is a dot.
        [Some(only)] => write!(f, "<polyline class=\"line line-{at}{class}\" points=\"{only} {only}\"/>"),
        _ => write!(f, "<polyline class=\"line line-{at}{class}\" points=\"{}\"/>", joined(points)),
    };
    for part in &known {
        let is_last = is_open && part.last().is_some_and(|end| end.as_ref().is_some_and(|end| end.at == last));
        match part {
            [over @ .., _] if is_last && !over.is_empty() => {
                write(over, "")?;
                write(&part[over.len() - 1..], " open")?;
            }
            _ => write(part, "")?,
        }
    }
    Ok(())
}

/// A point of a line.
struct Point {
    /// Its bucket's number.
    at: usize,
    x: usize,
    /// Vertical position, in tenths.
    y: u128,
}

impl Display for Point {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{},{}.{}", self.x, self.y / 10, self.y % 10)
    }
}

fn drawn(figures: &[Option<u64>], top: u64, (width, height): (usize, usize)) -> Vec<Option<Point>> {
    let point = |(at, figure): (usize, &Option<u64>)| {
        let x = if figures.len() < 2 { width / 2 } else { width * at / (figures.len() - 1) };
        let tenths = u128::from((*figure)?) * (height as u128) * 10 / u128::from(top.max(1));
        Some(Point { at, x, y: (height as u128 * 10).saturating_sub(tenths) })
    };
    figures.iter().enumerate().map(point).collect()
}

/// Figures by bucket start and name.
type ByStart = BTreeMap<DateTime<Utc>, BTreeMap<String, u64>>;

/// Groups days by week, or by the first longer bucket that has few enough points.
fn added_up(by_day: &ByStart) -> (Bucket, ByStart) {
    let by = |bucket: Bucket| {
        let mut sums = ByStart::new();
        for (day, figures) in by_day {
            let begin = bucket.begin_of(day.date_naive()).and_time(NaiveTime::MIN).and_utc();
            let sum = sums.entry(begin).or_default();
            for (name, figure) in figures {
                *sum.entry(name.clone()).or_default() += figure;
            }
        }
        sums
    };
    let (mut bucket, mut sums) = (Bucket::Day, ByStart::new());
    for (longer, most) in Bucket::LONG {
        (bucket, sums) = (longer, by(longer));
        if sums.len() <= most {
            break;
        }
    }
    (bucket, sums)
}

/// Returns the time since Monday.
fn since_monday(today: Weekday) -> TimeDelta {
    TimeDelta::days(today.num_days_from_monday().into())
}

/// Returns a bucket's hover area: around its point, half as wide for the first and last.
fn bounds(at: usize, count: usize) -> (usize, usize) {
    if count < 2 {
        return (0, WIDTH);
    }
    let middle = |between: usize| WIDTH * between / (2 * (count - 1));
    (middle((2 * at).saturating_sub(1)), middle((2 * at + 1).min(2 * (count - 1))))
}

/// Returns the next round number that is divisible by four.
fn round_up(peak: u64) -> u64 {
    let mut unit = 4_u64;
    loop {
        for factor in [1, 2, 3, 5] {
            if let Some(top) = unit.checked_mul(factor).filter(|top| *top >= peak) {
                return top;
            }
        }
        match unit.checked_mul(10) {
            Some(next) => unit = next,
            None => return u64::MAX,
        }
    }
}

fn at_most(mut lines: Vec<Line>, most: usize) -> Vec<Line> {
    let unknown = lines.pop_if(|last| last.name == UNKNOWN);
    let most = most - usize::from(unknown.is_some());
    if lines.len() > most {
        let rest = lines.split_off(most - 1);
        let count = rest.first().map_or(0, |line| line.figures.len());
        let figures = (0..count).map(|at| rest.iter().map(|line| line.figures[at]).sum()).collect();
        lines.push(Line { name: format!("{} others", rest.len()), figures });
    }
    lines.extend(unknown);
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(day: u32, name: &str, total_events: u64) -> SeriesItem {
        let start = format!("2026-03-{day:02}T00:00:00Z").parse().unwrap();
        SeriesItem { start, event_type: name.to_owned(), total_events, ..SeriesItem::default() }
    }

    fn by_type(items: &[SeriesItem]) -> Chart {
        Chart::new("Events a day", items, false, |item| item.event_type.clone())
    }

    #[test]
    fn chart_svg_matches_the_golden_file() {
        let chart = by_type(&[item(1, "a", 10), item(2, "a", 0), item(3, "a", 35), item(2, "<b>", 7)]);
        let golden = include_str!("../tests/golden/chart.svg");
        assert_eq!(
            chart.picture().to_string(),
            golden.trim_end(),
            "write it to console/tests/golden/chart.svg after looking at it"
        );
        assert_eq!(
            Sparkline { figures: vec![Some(0), Some(5), Some(10)], is_open: false }.to_string(),
            include_str!("../tests/golden/sparkline.svg").trim_end()
        );
    }

    #[test]
    fn fills_missing_buckets_with_zero() {
        let chart = by_type(&[item(1, "a", 3), item(2, "b", 1)]);
        let line = |name: &str, figures: Vec<u64>| Line { name: name.to_owned(), figures };
        assert_eq!(chart.lines, [line("a", vec![3, 0]), line("b", vec![0, 1])]);
        assert_eq!(chart.rows()[1].1, [Some(Count(0)), Some(Count(1))]);
        let ordered = chart.ordered(&[("b", "Bees"), ("c", "Seas")]);
        assert_eq!(ordered.lines, [line("Bees", vec![0, 1]), line("Seas", vec![0, 0])]);
    }

    #[test]
    fn keeps_empty_buckets_between_others() {
        let chart = by_type(&[item(1, "a", 3), item(4, "a", 1)]);
        assert_eq!((chart.starts.len(), &chart.lines[0].figures), (4, &vec![3, 0, 0, 1]));
        let hourly = Chart::new("Events an hour", &[item(1, "a", 3), item(2, "a", 1)], true, |item| item.event_type.clone());
        assert_eq!(hourly.starts.len(), 25);
        assert!(by_type(&[]).starts.is_empty());
    }

    #[test]
    fn groups_more_than_92_days_by_week() {
        let first: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
        let days = |count: i64| -> Vec<SeriesItem> {
            let day = |at| SeriesItem {
                start: first + TimeDelta::days(at),
                event_type: "a".into(),
                total_events: 1,
                ..SeriesItem::default()
            };
            (0..count).map(day).collect()
        };
        assert_eq!((by_type(&days(92)).bucket, by_type(&days(92)).starts.len()), (Bucket::Day, 92));
        let chart = by_type(&days(93));
        assert_eq!((chart.bucket, chart.starts.len(), chart.lines[0].total()), (Bucket::Week, 14, Count(93)));
        assert!(chart.starts.iter().all(|start| start.weekday() == Weekday::Mon), "{:?}", chart.starts);
        // The first week has four days and the last one five.
        assert_eq!((chart.lines[0].figures[0], chart.lines[0].figures[1], chart.lines[0].figures[13]), (4, 7, 5));
        assert_eq!(chart.rows()[0].0, "week of 29 Dec 2025");
        assert!(chart.picture().to_string().contains("<title>week of 29 Dec: a 4</title>"), "{}", chart.picture());
        assert_eq!(chart.begin_of(first.date_naive()).to_string(), "2025-12-29");
        // Weeks between two days are kept, and future weeks are removed.
        let apart = |days_apart| {
            let mut apart = days(2);
            apart[1].start = first + TimeDelta::days(days_apart);
            by_type(&apart)
        };
        assert_eq!(apart(700).starts.len(), 101);
        let (months, years) = (apart(3_000), apart(9_000));
        assert_eq!((months.bucket, months.starts.len(), months.lines[0].total()), (Bucket::Month, 99, Count(2)));
        assert_eq!((months.rows()[0].0.as_str(), months.mark(months.starts[98])), ("January 2026", "Mar 2034".to_owned()));
        assert_eq!((years.bucket, years.starts.len(), years.rows()[24].0.as_str()), (Bucket::Year, 25, "2050"));
        let begun = by_type(&days(365)).until("2026-11-02T00:00:00Z".parse().unwrap());
        assert_eq!(begun.starts.len(), 53, "buckets with events are kept: {begun:?}");
        let zeroes: Vec<SeriesItem> = days(365).into_iter().map(|day| SeriesItem { total_events: 0, ..day }).collect();
        let begun = by_type(&zeroes).until("2026-11-02T00:00:00Z".parse().unwrap());
        assert_eq!((begun.starts.last().unwrap().to_rfc3339().as_str(), begun.is_open), ("2026-11-02T00:00:00+00:00", true));
    }

    #[test]
    fn chart_ends_at_the_current_bucket_or_the_last_event() {
        let chart = by_type(&[item(1, "a", 3), item(2, "a", 0), item(3, "a", 1), item(4, "a", 0), item(5, "a", 0)]);
        for (now, count) in [
            ("2026-03-01T00:00:00Z", 3),
            ("2026-03-03T23:59:59Z", 3),
            ("2026-03-04T00:00:00Z", 4),
            ("2026-03-05T12:00:00Z", 5),
            ("2026-04-01T00:00:00Z", 5),
        ] {
            let ended = chart.clone().until(now.parse().unwrap());
            assert_eq!((ended.starts.len(), ended.lines[0].figures.len()), (count, count), "{now}");
            assert_eq!(ended.lines[0].total(), chart.lines[0].total(), "{now}: the total must not change");
        }
        let nothing = by_type(&[item(2, "a", 0)]).until("2026-03-01T00:00:00Z".parse().unwrap());
        assert!(nothing.starts.is_empty() && nothing.marks().is_empty() && nothing.rows().is_empty(), "{nothing:?}");
        assert!(nothing.picture().to_string().ends_with("</svg>"));
    }

    #[test]
    fn draws_the_open_bucket_as_a_separate_line() {
        let chart = by_type(&[item(1, "a", 8), item(2, "a", 8), item(3, "a", 1)]);
        let at = |now: &str| chart.clone().until(now.parse().unwrap());
        assert!(!at("2026-03-04T00:00:00Z").is_open && !at("2026-03-04T00:00:00Z").picture().to_string().contains(" open"));
        let open = at("2026-03-03T23:59:59Z");
        let lines = "<polyline class=\"line line-0\" points=\"0,0.0 480,0.0\"/><polyline class=\"line line-0 open\" points=\"480,0.0 960,210.0\"/>";
        assert!(open.is_open && open.picture().to_string().contains(lines), "{}", open.picture());
        let alone = by_type(&[item(3, "a", 1)]).until("2026-03-03T12:00:00Z".parse().unwrap());
        assert!(alone.is_open && !alone.picture().to_string().contains(" open"));
    }

    #[test]
    fn draws_unknown_buckets_as_gaps_not_zeros() {
        let items: Vec<_> = [3, 0, 0, 5, 0, 7].iter().zip(1..).map(|(count, day)| item(day, "a", *count)).collect();
        let span = |from: u32, to: u32, covered: bool| json!({"start": format!("2026-03-{from:02}T00:00:00Z"), "end": format!("2026-03-{to:02}T00:00:00Z"), "covered": covered});
        // The days from 2 to 4 have no server data; agents reported something on the fourth.
        let coverage: Coverage =
            serde_json::from_value(json!({"spans": [span(1, 2, true), span(2, 5, false), span(5, 7, true)]})).unwrap();
        let chart = by_type(&items).with_gaps(Some(&coverage));
        assert_eq!(chart.gaps, [false, true, true, true, false, false]);
        let shown: Vec<_> = chart.rows().into_iter().map(|(_, figures)| figures[0].map(|figure| figure.0)).collect();
        assert_eq!(shown, [Some(3), None, None, Some(5), Some(0), Some(7)]);
        let picture = chart.picture().to_string();
        for part in [
            "<rect class=\"gap\" fill=\"url(#no-data)\" x=\"96\" width=\"384\" height=\"240\"/>",
            "<polyline class=\"line line-0\" points=\"0,150.0 0,150.0\"/><polyline class=\"line line-0\" points=\"576,90.0 768,240.0 960,30.0\"/>",
            "<title>Mar 2: a no data</title>",
        ] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        assert!(chart.describe().ends_with("Highest value: 7. 2 days have no data."), "{}", chart.describe());
        assert!(!by_type(&items).with_gaps(None).picture().to_string().contains("gap"));
    }

    #[test]
    fn keeps_the_unknown_line_last() {
        let items: Vec<_> = (0..9).map(|at| item(1, &format!("agent-{at}"), 10 - at)).chain([item(1, UNKNOWN, 1)]).collect();
        let chart = by_type(&items);
        let names: Vec<_> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["agent-0", "agent-1", "agent-2", "6 others", UNKNOWN]);
    }

    #[test]
    fn sums_extra_lines() {
        let items: Vec<_> = (0..9).map(|at| item(1, &format!("agent-{at}"), 10 - at)).collect();
        let chart = by_type(&items);
        assert_eq!(chart.lines.len(), MAX_LINES);
        assert_eq!(chart.lines.last().unwrap().name, "5 others");
        let total: u64 = chart.lines.iter().map(|line| line.total().0).sum();
        assert_eq!(total, items.iter().map(|item| item.total_events).sum::<u64>());
    }

    #[test]
    fn axis_top_exceeds_the_peak_and_divides_by_four() {
        for (peak, top) in [(0, 4), (4, 4), (5, 8), (9, 12), (13, 20), (21, 40), (999, 1_200), (1_201, 2_000)] {
            assert_eq!(round_up(peak), top, "{peak}");
        }
        for shift in 0..64 {
            assert!(round_up(u64::MAX >> shift) >= u64::MAX >> shift);
        }
    }

    #[test]
    fn hover_areas_cover_the_chart_without_overlap() {
        for count in 1..40 {
            let all: Vec<_> = (0..count).map(|at| bounds(at, count)).collect();
            assert_eq!((all[0].0, all[count - 1].1), (0, WIDTH));
            assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].0), "{all:?}");
        }
    }
}
