//! Formats numbers, shares, changes and times, with the exact value for programs.
//!
//! The output of these types is valid HTML and doesn't need escaping.

use askama::filters::HtmlSafe;
use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::Number;
use std::fmt::{Display, Formatter, Result};

/// A count: `<data value="1234">1,234</data>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(crate) struct Count(pub(crate) u64);

/// A whole number of any length, stored as digits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Digits(pub(crate) Number);

/// A share in percent; a dash if the whole is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) part: u64,
    pub(crate) whole: u64,
}

/// Minimum earlier count for a percentage, and minimum whole for comparing shares: +19 is clearer than +1,900 % of 1.
pub(crate) const MIN_BASE: u64 = 10;
/// Maximum percentage of a change, in tenths of a percent.
const MAX_PERMILLE: u64 = 10_000;

/// Change in a count since the previous period: in percent, as a number below [`MIN_BASE`] or above 1,000 %, or `new` after 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) now: u64,
    pub(crate) before: u64,
}

/// Change in a share in percentage points; a dash if either whole is below [`MIN_BASE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareChange {
    pub(crate) now: Share,
    pub(crate) before: Share,
}

/// A time in UTC to the second, like the buckets of charts, so that a page has one time zone. A script shows the reader's own on hover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Time(pub(crate) DateTime<Utc>);

/// A size: `<data value="1234">1.2 kB</data>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Bytes(pub(crate) u64);

/// A duration in a suitable unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Millis(pub(crate) u64);

/// A ratio of two counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio(f64);

impl Ratio {
    #[expect(clippy::cast_precision_loss, reason = "a ratio is shown with a tenth, beside its two numbers")]
    pub(crate) fn new(whole: Count, part: Count) -> Self {
        Self(whole.0 as f64 / part.0 as f64)
    }
}

impl HtmlSafe for Ratio {}
impl HtmlSafe for Bytes {}
impl HtmlSafe for Millis {}
impl HtmlSafe for Count {}
impl HtmlSafe for Share {}
impl HtmlSafe for Change {}
impl HtmlSafe for ShareChange {}
impl HtmlSafe for Time {}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "<data value=\"{}\">{}</data>", self.0, grouped(self.0))
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "<data value=\"{}\">", self.0)?;
        let units = [("kB", 1_000_u64), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)];
        match units.iter().rev().find(|(_, size)| self.0 >= *size) {
            Some((unit, size)) => write!(f, "{}&nbsp;{unit}</data>", with_tenth(self.0 / size, self.0 % size / (size / 10))),
            None => write!(f, "{}&nbsp;B</data>", self.0),
        }
    }
}

impl Display for Ratio {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let tenths = (self.0 * 10.0).round() as u64;
        write!(f, "<data value=\"{}\">{}</data>", self.0, with_tenth(tenths / 10, tenths % 10))
    }
}

impl Display for Millis {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let seconds = self.0 / 1_000;
        write!(f, "<data value=\"{}\">", self.0)?;
        match seconds {
            0 => write!(f, "{}&nbsp;ms</data>", self.0),
            1..120 => write!(f, "{}&nbsp;s</data>", with_tenth(seconds, self.0 % 1_000 / 100)),
            120..7_200 => write!(f, "{}&nbsp;min</data>", seconds / 60),
            _ => write!(f, "{}&nbsp;h</data>", grouped(seconds / 3_600)),
        }
    }
}

impl Share {
    pub(crate) fn new(part: Count, whole: Count) -> Self {
        Self { part: part.0, whole: whole.0 }
    }

    /// Tenths of a percent, rounded half up. `None` if the whole is zero.
    fn permille(self) -> Option<u64> {
        let (part, whole) = (u128::from(self.part), u128::from(self.whole));
        (whole > 0).then(|| u64::try_from((part * 2_000 + whole) / (whole * 2)).unwrap_or(u64::MAX))
    }
}

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.permille() {
            Some(permille) => {
                write!(
                    f,
                    "<data value=\"{}/{}\">{}&thinsp;%</data>",
                    self.part,
                    self.whole,
                    with_tenth(permille / 10, permille % 10)
                )
            }
            None => f.write_str("<span class=\"none\" title=\"no data\">\u{2013}</span>"),
        }
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (now, before) = (self.now, self.before);
        let Some((kind, sign)) = direction(now, before) else { return f.write_str(NO_CHANGE) };
        if before == 0 {
            return f.write_str(NEW);
        }
        let difference = now.abs_diff(before);
        write!(f, "<span class=\"change {kind}\" title=\"previously {}\">{sign}", grouped(before))?;
        let permille = Share { part: difference, whole: before }.permille().unwrap_or_default();
        match permille {
            _ if before < MIN_BASE || permille > MAX_PERMILLE => f.write_str(&grouped(difference))?,
            ..1_000 => write!(f, "{}&thinsp;%", with_tenth(permille / 10, permille % 10))?,
            _ => write!(f, "{}&thinsp;%", grouped((permille + 5) / 10))?,
        }
        f.write_str("</span>")
    }
}

const NO_CHANGE: &str = "<span class=\"change\">no change</span>";
const NEW: &str = "<span class=\"change up\">new</span>";
/// A first share is neutral, because it may be 0 %.
const NEW_SHARE: &str = "<span class=\"change\">new</span>";
const TOO_FEW: &str = "<span class=\"none\" title=\"too few to compare\">\u{2013}</span>";

/// Returns the class and the sign of a change, or `None` without one.
fn direction(now: u64, before: u64) -> Option<(&'static str, &'static str)> {
    match now.cmp(&before) {
        std::cmp::Ordering::Greater => Some(("up", "+")),
        std::cmp::Ordering::Less => Some(("down", "\u{2212}")),
        std::cmp::Ordering::Equal => None,
    }
}

impl Display for ShareChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (now, before) = match (self.now.permille(), self.before.permille()) {
            (None, _) => return f.write_str("<span class=\"none\" title=\"nothing to compare\">\u{2013}</span>"),
            (_, None) => return f.write_str(NEW_SHARE),
            _ if self.now.whole.min(self.before.whole) < MIN_BASE => return f.write_str(TOO_FEW),
            (Some(now), Some(before)) => (now, before),
        };
        // Subtract the rounded shares, so that the difference matches the shares shown.
        let Some((kind, sign)) = direction(now, before) else { return f.write_str(NO_CHANGE) };
        let points = now.abs_diff(before);
        let unit = if points == 10 { "point" } else { "points" };
        write!(
            f,
            "<span class=\"change {kind}\" title=\"percentage points; previously {}&thinsp;%\">{sign}{}&nbsp;{unit}</span>",
            with_tenth(before / 10, before % 10),
            with_tenth(points / 10, points % 10)
        )
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let exact = self.0.to_rfc3339_opts(SecondsFormat::Millis, true);
        write!(f, "<time datetime=\"{exact}\">{} UTC</time>", self.0.format("%-d %b %Y, %H:%M:%S"))
    }
}

/// Number of decimals for currencies that don't have two (ISO 4217).
const MINOR_DIGITS: [(usize, &[&str]); 3] = [
    (0, &["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"]),
    (3, &["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"]),
    (4, &["CLF", "UYW"]),
];

/// Formats an amount in minor units, such as `12.34 EUR` for 1234. An amount that isn't a whole number stays unchanged.
pub(crate) fn money(minor: &str, currency: &str) -> String {
    let (sign, digits) = minor.strip_prefix('-').map_or(("", minor), |digits| ("\u{2212}", digits));
    if currency.is_empty() || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("{minor} {currency}").trim().to_owned();
    }
    let places = MINOR_DIGITS.iter().find(|(_, of)| of.contains(&currency)).map_or(2, |(places, _)| *places);
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{part} {currency}", grouped_digits(whole))
}

/// Formats a number with a comma between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    grouped_digits(&number.to_string())
}

/// Groups digits. Returns other text unchanged.
fn grouped_digits(digits: &str) -> String {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.to_owned();
    }
    let mut shown = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Formats a number with one decimal.
fn with_tenth(whole: u64, tenth: u64) -> String {
    format!("{}.{tenth}", grouped(whole))
}

/// Formats a day for a chart's axis.
pub(crate) fn short_day(start: DateTime<Utc>) -> String {
    format!("{} {}", start.format("%b"), start.day())
}

/// Formats an hour for a chart's axis.
pub(crate) fn short_hour(start: DateTime<Utc>) -> String {
    start.format("%H:00").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands_and_keeps_the_exact_number() {
        let shown = |number| Count(number).to_string();
        assert_eq!(shown(0), "<data value=\"0\">0</data>");
        assert_eq!(shown(999), "<data value=\"999\">999</data>");
        assert_eq!(shown(1_000), "<data value=\"1000\">1,000</data>");
        assert_eq!(shown(u64::MAX), "<data value=\"18446744073709551615\">18,446,744,073,709,551,615</data>");
        let digits = ["184467440737095516150", "-1234", "1.5", "1e400"].map(grouped_digits);
        assert_eq!(digits, ["184,467,440,737,095,516,150", "-1234", "1.5", "1e400"]);
        assert_eq!(Ratio(1_234.56).to_string(), "<data value=\"1234.56\">1,234.6</data>");
    }

    #[test]
    fn formats_money_with_its_currencys_digits() {
        for (minor, currency, shown) in [
            ("1234", "EUR", "12.34 EUR"),
            ("5", "USD", "0.05 USD"),
            ("0", "USD", "0.00 USD"),
            ("-123456", "EUR", "\u{2212}1,234.56 EUR"),
            ("1234", "JPY", "1,234 JPY"),
            ("1234", "KWD", "1.234 KWD"),
            ("123456789012345678901234", "EUR", "1,234,567,890,123,456,789,012.34 EUR"),
            ("4999", "", "4999"),
            ("1.5", "EUR", "1.5 EUR"),
            ("", "EUR", "EUR"),
            ("", "", ""),
        ] {
            assert_eq!(money(minor, currency), shown, "{minor} {currency}");
        }
    }

    #[test]
    fn sizes_and_times_use_a_suitable_unit() {
        let size = |number| Bytes(number).to_string().replace("&nbsp;", " ");
        assert_eq!(size(999), "<data value=\"999\">999 B</data>");
        assert_eq!(size(1_000), "<data value=\"1000\">1.0 kB</data>");
        assert_eq!(size(12_990_000_000), "<data value=\"12990000000\">12.9 GB</data>");
        assert!(size(u64::MAX).ends_with(">18,446,744.0 TB</data>"), "{}", size(u64::MAX));
        let time = |number| Millis(number).to_string().replace("&nbsp;", " ");
        let shown = [0, 999, 1_000, 119_999, 120_000, 7_200_000].map(time);
        let text = shown.each_ref().map(|shown| shown.split(['>', '<']).nth(2).unwrap());
        assert_eq!(text, ["0 ms", "999 ms", "1.0 s", "119.9 s", "2 min", "2 h"]);
    }

    #[test]
    fn rounds_shares_and_shows_a_dash_for_zero_of_zero() {
        let shown = |part, whole| Share { part, whole }.to_string();
        assert_eq!(shown(1, 3), "<data value=\"1/3\">33.3&thinsp;%</data>");
        assert_eq!(shown(2, 3), "<data value=\"2/3\">66.7&thinsp;%</data>");
        assert_eq!(shown(u64::MAX, u64::MAX), format!("<data value=\"{0}/{0}\">100.0&thinsp;%</data>", u64::MAX));
        assert!(shown(0, 0).contains('\u{2013}'));
    }

    #[test]
    fn shows_count_changes_as_percentages() {
        let shown = |now, before| Change { now, before }.to_string();
        assert_eq!(shown(110, 100), "<span class=\"change up\" title=\"previously 100\">+10.0&thinsp;%</span>");
        assert_eq!(shown(1, 1_000), "<span class=\"change down\" title=\"previously 1,000\">\u{2212}99.9&thinsp;%</span>");
        assert_eq!(shown(15, MIN_BASE), "<span class=\"change up\" title=\"previously 10\">+50.0&thinsp;%</span>");
        assert_eq!(shown(100, 100), "<span class=\"change\">no change</span>");
    }

    #[test]
    fn shows_no_percentage_for_changes_from_small_counts() {
        let shown = |now, before| Change { now, before }.to_string();
        assert_eq!(shown(18_791, 1), "<span class=\"change up\" title=\"previously 1\">+18,790</span>");
        assert_eq!(shown(16, MIN_BASE - 1), "<span class=\"change up\" title=\"previously 9\">+7</span>");
        assert_eq!(shown(0, 3), "<span class=\"change down\" title=\"previously 3\">\u{2212}3</span>");
        assert_eq!(shown(5, 0), "<span class=\"change up\">new</span>");
        assert_eq!(shown(0, 0), "<span class=\"change\">no change</span>");
    }

    #[test]
    fn shows_changes_above_1000_percent_as_numbers() {
        let shown = |now, before| Change { now, before }.to_string();
        assert_eq!(shown(110, 10), "<span class=\"change up\" title=\"previously 10\">+1,000&thinsp;%</span>");
        assert_eq!(shown(111, 10), "<span class=\"change up\" title=\"previously 10\">+101</span>");
        assert_eq!(shown(187_910, 10), "<span class=\"change up\" title=\"previously 10\">+187,900</span>");
    }

    fn changed((part, whole): (u64, u64), before: (u64, u64)) -> String {
        ShareChange { now: Share { part, whole }, before: Share { part: before.0, whole: before.1 } }.to_string()
    }

    #[test]
    fn shows_a_dash_for_changes_of_small_shares() {
        for (now, before) in [((1, 2), (1, 1)), ((5, 9), (50, 100)), ((50, 100), (5, 9)), ((0, 1), (0, 9))] {
            assert_eq!(changed(now, before), TOO_FEW, "{now:?} {before:?}");
        }
        assert!(changed((4, 10), (5, 10)).contains("\u{2212}10.0&nbsp;points"));
    }

    #[test]
    fn shows_share_changes_in_percentage_points() {
        let shown = changed;
        let before = "title=\"percentage points; previously 50.0&thinsp;%\"";
        assert_eq!(shown((20, 30), (10, 20)), format!("<span class=\"change up\" {before}>+16.7&nbsp;points</span>"));
        assert_eq!(shown((49, 100), (50, 100)), format!("<span class=\"change down\" {before}>\u{2212}1.0&nbsp;point</span>"));
        assert_eq!(shown((500, 1_000), (10, 20)), NO_CHANGE);
        assert_eq!((shown((1, 2), (0, 0)).as_str(), shown((0, 11), (0, 19)).as_str()), (NEW_SHARE, NO_CHANGE));
        assert!(shown((0, 0), (1, 2)).contains('\u{2013}'));
    }
}
