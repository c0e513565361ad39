//! A screen's period, domain and filters, parsed from its address and added to its links.

use crate::api::Parameters;
use crate::failure::Failure;
use crate::labels::FETCH_OUTCOMES;
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, TimeDelta, Utc};
use serde::Deserialize;

/// Periods to choose from.
pub(crate) const CHOICES: [(&str, &str); 9] = [
    ("today", "Today"),
    ("yesterday", "Yesterday"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("month", "This month"),
    ("last-month", "Last month"),
    ("quarter", "This quarter"),
    ("year", "This year"),
];
/// Comparisons to choose from.
pub(crate) const COMPARISONS: [(&str, &str); 3] = [("", "Previous period"), ("year", "Previous year"), ("off", "Off")];
/// Default period.
const USUAL: &str = "30d";
/// Maximum number of days with hourly charts. Longer periods have daily charts.
const HOURLY_DAYS: i64 = 2;

/// Query parameters of screens with a period.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PeriodParameters {
    period: String,
    since: String,
    until: String,
    domain: String,
    pub(crate) offset: u64,
    pub(crate) after: String,
    pub(crate) by: String,
    pub(crate) split: String,
    pub(crate) sort: String,
    pub(crate) finding: String,
    pub(crate) event_type: String,
    pub(crate) outcome: String,
    operator: String,
    agent_or_bot: String,
    bot: String,
    agent_id: String,
    platform_id: String,
    purpose: String,
    verified: String,
    evidence: String,
    signature: String,
    status: String,
    source_role: String,
    path: String,
    compare: String,
    seen_by: String,
}

impl PeriodParameters {
    /// Returns an event list's API filters. Empty values mean all.
    pub(crate) fn narrowing(&self) -> [(&'static str, &str); 2] {
        let kind = self.kind();
        let is_outcome = FETCH_OUTCOMES.iter().any(|(outcome, _)| *outcome == kind);
        let (event_type, outcome) = if is_outcome { ("", kind) } else { (kind, "") };
        [("event_type", event_type), ("outcome", outcome)]
    }

    /// Returns the filters that have a value, by their names in the API.
    fn filters(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("operator", &self.operator),
            ("agent_or_bot", &self.agent_or_bot),
            ("bot", &self.bot),
            ("agent_id", &self.agent_id),
            ("platform_id", &self.platform_id),
            ("purpose", &self.purpose),
            ("verified", &self.verified),
            ("evidence", &self.evidence),
            ("signature", &self.signature),
            ("status", &self.status),
            ("source_role", &self.source_role),
            ("path", &self.path),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect()
    }

    /// Returns the chosen type of events, which may be an outcome.
    pub(crate) fn kind(&self) -> &str {
        if self.outcome.is_empty() { &self.event_type } else { &self.outcome }
    }
}

/// Why a page's dates were not used.
pub(crate) struct DateProblem {
    pub(crate) detail: String,
    pub(crate) is_of_since: bool,
    pub(crate) is_of_until: bool,
}

/// Whole UTC days, both inclusive, and optionally a domain and filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: NaiveDate,
    pub(crate) until: NaiveDate,
    /// One of [`CHOICES`], or `None` if both days were given.
    pub(crate) period: Option<&'static str>,
    pub(crate) domain: String,
    /// Partner whose view is shown; empty for the owner's own view.
    pub(crate) seen_by: String,
    /// Filters by their names in the API.
    pub(crate) filters: Vec<(&'static str, String)>,
    /// One of [`COMPARISONS`].
    pub(crate) compare: &'static str,
}

impl Window {
    /// Parses the parameters.
    pub(crate) fn new(asked: &PeriodParameters, now: DateTime<Utc>) -> Result<Self, Failure> {
        let compare = COMPARISONS.iter().map(|(name, _)| *name).find(|name| *name == asked.compare).unwrap_or_default();
        let whole = Self {
            domain: asked.domain.clone(),
            seen_by: asked.seen_by.clone(),
            filters: asked.filters(),
            compare,
            ..Self::default()
        };
        if asked.period.is_empty() && !(asked.since.is_empty() && asked.until.is_empty()) {
            let (since, until) = (day(&asked.since, "from")?, day(&asked.until, "to")?);
            return (since <= until)
                .then_some(Self { since, until, ..whole })
                .ok_or_else(|| Failure::Unreadable("The start date is after the end date.".to_owned()));
        }
        let wanted = if asked.period.is_empty() { USUAL } else { &asked.period };
        let unknown = || Failure::Unreadable(format!("period must be one of: {}.", CHOICES.map(|(name, _)| name).join(", ")));
        let (period, since, until) = days_of(wanted, now.date_naive()).ok_or_else(unknown)?;
        Ok(Self { since, until, period: Some(period), ..whole })
    }

    /// Parses a page's parameters. If a date is invalid, returns the default period and the problem, so the page keeps its filters.
    pub(crate) fn read(asked: &PeriodParameters, now: DateTime<Utc>) -> Result<(Self, Option<DateProblem>), Failure> {
        let failure = match Self::new(asked, now) {
            Ok(window) => return Ok((window, None)),
            Err(failure) => failure,
        };
        let Failure::Unreadable(detail) = failure else { return Err(failure) };
        if !asked.period.is_empty() {
            return Err(Failure::Unreadable(detail));
        }
        let usual = PeriodParameters { since: String::new(), until: String::new(), ..asked.clone() };
        let window = Self::new(&usual, now)?;
        let is_reversed = day(&asked.since, "").is_ok() && day(&asked.until, "").is_ok();
        Ok((
            window.clone(),
            Some(DateProblem {
                detail: format!("{detail} Showing the last {} days instead.", window.days()),
                is_of_since: is_reversed || day(&asked.since, "").is_err(),
                is_of_until: is_reversed || day(&asked.until, "").is_err(),
            }),
        ))
    }

    /// Returns the window for one of its days.
    pub(crate) fn on(&self, day: NaiveDate) -> Self {
        Self { since: day, until: day, period: None, ..self.clone() }
    }

    /// Returns the period that this window is compared with at a given time; `None` without a comparison.
    pub(crate) fn comparison(&self, now: DateTime<Utc>) -> Option<Comparison> {
        let before = |months: u32| {
            let since = self.since.checked_sub_months(Months::new(months))?;
            let next = self.until.succ_opt()?.checked_sub_months(Months::new(months))?;
            Some((since, next.pred_opt()?))
        };
        let until = self.since.pred_opt().unwrap_or(self.since);
        let previous = || Some((until - TimeDelta::days(self.days() - 1), until));
        let (days, named) = match (self.compare, self.period) {
            ("off", _) => return None,
            ("year", _) => (before(12), Some("same period last year")),
            (_, Some("month" | "last-month")) => (before(1), Some("previous month")),
            (_, Some("quarter")) => (before(3), Some("previous quarter")),
            (_, Some("year")) => (before(12), Some("previous year")),
            _ => (previous(), None),
        };
        let (since, until) = days.or_else(previous)?;
        let whole = Self { since, until, period: None, ..self.clone() };
        let elapsed = now - midnight(self.since);
        let part = match now.date_naive() {
            today if today < self.since || today > self.until => Part::Whole,
            today if today == self.until && named.is_none() => Part::ToSameHour,
            _ => Part::Elapsed,
        };
        let end = (part != Part::Whole).then(|| (midnight(whole.since) + elapsed).min(midnight(self.since)));
        Some(Comparison { whole, end, part, named })
    }

    /// Returns the period for the name of a file.
    pub(crate) fn days_named(&self) -> String {
        format!("{} to {}", self.since, self.until)
    }

    pub(crate) fn days(&self) -> i64 {
        (self.until - self.since).num_days() + 1
    }

    /// Returns the bucket size of the window's series.
    pub(crate) fn bucket(&self) -> &'static str {
        if self.days() <= HOURLY_DAYS { "hour" } else { "day" }
    }

    /// Returns the period as part of a sentence.
    pub(crate) fn describe(&self) -> String {
        match self.period {
            Some(day @ ("today" | "yesterday")) => day.to_owned(),
            Some("last-month") => "last month".to_owned(),
            Some(unit @ ("month" | "quarter" | "year")) => format!("this {unit}"),
            Some(_) => format!("in the last {} days", self.days()),
            None if self.since == self.until => format!("on {}", self.since),
            None => format!("from {} to {}", self.since, self.until),
        }
    }

    /// Returns the API parameters.
    pub(crate) fn parameters(&self) -> Parameters {
        let mut all = vec![("since", self.since.to_string()), ("until", self.until.to_string())];
        all.extend(self.view().map(|(name, value)| (name, value.to_owned())));
        all
    }

    /// Returns the API parameters of domain, partner and filters.
    fn view(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let own = [("domain", self.domain.as_str()), ("seen_by", &self.seen_by)];
        let filters = self.filters.iter().map(|(name, value)| (*name, value.as_str()));
        own.into_iter().filter(|(_, value)| !value.is_empty()).chain(filters)
    }

    /// Returns a filter's value; empty without one.
    pub(crate) fn filter(&self, name: &str) -> &str {
        self.filters.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Returns the window with this filter instead of others with the same name. An empty value removes the filter.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut window = self.clone();
        window.filters.retain(|(known, _)| *known != name);
        window.filters.extend((!value.is_empty()).then(|| (name, value.to_owned())));
        window
    }

    /// Returns the window without filters.
    pub(crate) fn unfiltered(&self) -> Self {
        Self { filters: Vec::new(), ..self.clone() }
    }

    /// Returns the window with another domain.
    pub(crate) fn on_domain(&self, domain: &str) -> Self {
        Self { domain: domain.to_owned(), ..self.clone() }
    }

    /// Returns the window without a partner.
    pub(crate) fn own(&self) -> Self {
        Self { seen_by: String::new(), ..self.clone() }
    }

    /// Returns the API parameters with others added.
    pub(crate) fn parameters_and(&self, more: &[(&'static str, &str)]) -> Parameters {
        let more = more.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (*name, (*value).to_owned()));
        self.parameters().into_iter().chain(more).collect()
    }

    /// Returns the query string for links that keep period, domain and partner.
    pub(crate) fn query(&self) -> String {
        self.query_and(&[])
    }

    /// Returns the query string with others added.
    pub(crate) fn query_and(&self, more: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        match self.period {
            Some(period) => drop(query.append_pair("period", period)),
            None => drop(query.append_pair("since", &self.since.to_string()).append_pair("until", &self.until.to_string())),
        }
        query.extend_pairs(self.view()).extend_pairs(self.compared());
        query.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    /// Returns the query string with another choice from [`CHOICES`].
    pub(crate) fn query_of(&self, period: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("period", period).extend_pairs(self.view()).extend_pairs(self.compared()).finish()
    }

    fn compared(&self) -> Option<(&'static str, &'static str)> {
        (!self.compare.is_empty()).then_some(("compare", self.compare))
    }

    /// Returns whether this choice is selected.
    pub(crate) fn is(&self, period: &str) -> bool {
        self.period == Some(period)
    }
}

/// Returns the name and the days of one of [`CHOICES`].
fn days_of(period: &str, today: NaiveDate) -> Option<(&'static str, NaiveDate, NaiveDate)> {
    let (name, _) = CHOICES.into_iter().find(|(name, _)| *name == period)?;
    let ago = |days| today - TimeDelta::days(days);
    let month = today.with_day(1)?;
    let (since, until) = match name {
        "yesterday" => (ago(1), ago(1)),
        "month" => (month, today),
        "last-month" => (month - Months::new(1), month - TimeDelta::days(1)),
        "quarter" => (month - Months::new(month.month0() % 3), today),
        "year" => (today.with_ordinal(1)?, today),
        "7d" => (ago(6), today),
        "30d" => (ago(29), today),
        "90d" => (ago(89), today),
        _ => (today, today),
    };
    Some((name, since, until))
}

/// The period that a window is compared with: the same number of days right before it, the previous month, quarter or year, or the same
/// days of the previous year. If the window is not over, only the same elapsed part, so that equal durations are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    whole: Window,
    /// End of the period within the last day; `None` if that day is complete.
    end: Option<DateTime<Utc>>,
    part: Part,
    /// Name of the compared period; `None` for a number of days.
    named: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    ToSameHour,
    /// The window ends after today.
    Elapsed,
}

impl Comparison {
    /// Returns the API parameters.
    pub(crate) fn parameters(&self) -> Parameters {
        let mut parameters = self.whole.parameters();
        if let Some(end) = self.end {
            parameters
                .iter_mut()
                .filter(|(name, _)| *name == "until")
                .for_each(|(_, until)| *until = schemas::instant::text(end));
        }
        parameters
    }

    /// Returns the line below a figure.
    pub(crate) fn label(&self) -> String {
        format!("vs {}", self.days())
    }

    /// Returns which part of the previous period is compared; `None` if all of it.
    pub(crate) fn note(&self) -> Option<String> {
        match self.part {
            Part::ToSameHour => {
                let is = if self.whole.days() == 1 { "is" } else { "are" };
                Some(format!("Today isn\u{2019}t over yet, so the {} {is} counted up to the same time of day.", self.days()))
            }
            Part::Elapsed => {
                Some(format!("This period isn\u{2019}t over yet, so only the same part of the {} is counted.", self.days()))
            }
            Part::Whole => None,
        }
    }

    /// Returns the compared period, for example `previous 30 days`.
    pub(crate) fn days(&self) -> String {
        match (self.named, self.whole.days()) {
            (Some(named), _) => named.to_owned(),
            (None, 1) => "previous day".to_owned(),
            (None, days) => format!("previous {days} days"),
        }
    }
}

fn midnight(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

fn day(text: &str, which: &str) -> Result<NaiveDate, Failure> {
    let unreadable = || {
        Failure::Unreadable(format!(
            "The \u{201c}{which}\u{201d} date is invalid. Use the format YYYY-MM-DD, for example 2026-01-31."
        ))
    };
    // Chrono also parses signed years and years with more digits, whose previous period may not exist.
    let is_day = text.len() == 10 && text.starts_with(|first: char| first.is_ascii_digit());
    if is_day { text.parse().map_err(|_| unreadable()) } else { Err(unreadable()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn window(period: &str, since: &str, until: &str) -> Option<Window> {
        let asked =
            PeriodParameters { period: period.into(), since: since.into(), until: until.into(), ..PeriodParameters::default() };
        Window::new(&asked, at("2026-03-01T23:59:59Z")).ok()
    }

    #[test]
    fn period_ends_today() {
        let week = window("7d", "", "").unwrap();
        assert_eq!((week.since.to_string(), week.until.to_string()), ("2026-02-23".into(), "2026-03-01".into()));
        assert_eq!(window("", "", ""), window("30d", "", ""));
        assert_eq!((window("today", "", "").unwrap().bucket(), week.bucket()), ("hour", "day"));
    }

    #[test]
    fn presets_cover_whole_calendar_units() {
        for (period, today, since, until, told) in [
            ("yesterday", "2026-03-01", "2026-02-28", "2026-02-28", "yesterday"),
            ("month", "2026-03-31", "2026-03-01", "2026-03-31", "this month"),
            ("last-month", "2026-03-31", "2026-02-01", "2026-02-28", "last month"),
            ("last-month", "2026-01-01", "2025-12-01", "2025-12-31", "last month"),
            ("quarter", "2026-03-01", "2026-01-01", "2026-03-01", "this quarter"),
            ("quarter", "2026-12-31", "2026-10-01", "2026-12-31", "this quarter"),
            ("year", "2026-01-01", "2026-01-01", "2026-01-01", "this year"),
        ] {
            let asked = PeriodParameters { period: period.into(), ..PeriodParameters::default() };
            let window = Window::new(&asked, at(&format!("{today}T12:00:00Z"))).unwrap_or_else(|_| panic!("{period}"));
            let days = (window.since.to_string(), window.until.to_string(), window.describe());
            assert_eq!(days, (since.to_owned(), until.to_owned(), told.to_owned()), "{period} on {today}");
        }
    }

    #[test]
    fn compares_calendar_periods_with_the_previous_ones() {
        let now = "2026-03-31T12:00:00Z";
        let part = |of: &str| format!("This period isn\u{2019}t over yet, so only the same part of the {of} is counted.");
        for (period, compare, since, until, label, note) in [
            ("month", "", "2026-02-01", "2026-03-01T00:00:00.000Z", "vs previous month", part("previous month")),
            ("last-month", "", "2026-01-01", "2026-01-31", "vs previous month", String::new()),
            ("quarter", "", "2025-10-01", "2025-12-29T12:00:00.000Z", "vs previous quarter", part("previous quarter")),
            ("year", "", "2025-01-01", "2025-03-31T12:00:00.000Z", "vs previous year", part("previous year")),
            ("yesterday", "", "2026-03-29", "2026-03-29", "vs previous day", String::new()),
            ("last-month", "year", "2025-02-01", "2025-02-28", "vs same period last year", String::new()),
            ("7d", "year", "2025-03-25", "2025-03-31T12:00:00.000Z", "vs same period last year", part("same period last year")),
        ] {
            let asked = PeriodParameters { period: period.into(), compare: compare.into(), ..PeriodParameters::default() };
            let window = Window::new(&asked, at(now)).unwrap_or_else(|_| panic!("{period}"));
            assert_eq!(described(&window, now), [since, until, label, &note], "{period} {compare}");
        }
        let off = Window { compare: "off", ..window("7d", "", "").unwrap() };
        assert_eq!((off.comparison(at(now)), off.query()), (None, "period=7d&compare=off".to_owned()));
    }

    #[test]
    fn links_and_reads_include_the_filters() {
        let asked = PeriodParameters {
            period: "7d".into(),
            operator: "A & B".into(),
            path: "/a/*".into(),
            ..PeriodParameters::default()
        };
        let window = Window::new(&asked, at("2026-03-01T12:00:00Z")).unwrap_or_else(|_| panic!());
        assert_eq!(window.query(), "period=7d&operator=A+%26+B&path=%2Fa%2F*");
        assert_eq!(window.parameters()[2..], [("operator", "A & B".to_owned()), ("path", "/a/*".to_owned())]);
        assert_eq!(window.with("operator", "C").with("path", "").query_of("30d"), "period=30d&operator=C");
        assert_eq!(
            (window.filter("operator"), window.filter("bot"), window.unfiltered().query()),
            ("A & B", "", "period=7d".to_owned())
        );
    }

    #[test]
    fn rejects_invalid_and_reversed_dates() {
        assert_eq!(window("", "2026-01-31", "2026-01-31").unwrap().days(), 1);
        for (since, until) in [
            ("2026-02-01", "2026-01-31"),
            ("2026-02-30", "2026-03-01"),
            ("", "2026-03-01"),
            ("1", "2"),
            ("-99999-1-1", "+99999-1-1"),
        ] {
            assert_eq!(window("", since, until), None, "{since} {until}");
        }
        assert_eq!(window("9d", "", ""), None);
    }

    #[test]
    fn can_compare_the_longest_window() {
        let all = window("", "0000-01-01", "9999-12-31").unwrap();
        assert_eq!(all.comparison(at("2026-03-01T00:00:00Z")).unwrap().whole.days(), all.days());
        for (_, window) in COMPARISONS.map(|(compare, _)| (compare, Window { compare, ..all.clone() })) {
            let _ = window.comparison(at("2026-03-01T00:00:00Z"));
        }
    }

    /// Returns since, until, label and note.
    fn compared(since: &str, until: &str, now: &str) -> [String; 4] {
        described(&window("", since, until).unwrap(), now)
    }

    fn described(window: &Window, now: &str) -> [String; 4] {
        let comparison = window.comparison(at(now)).unwrap();
        let parameters = comparison.parameters();
        [parameters[0].1.clone(), parameters[1].1.clone(), comparison.label(), comparison.note().unwrap_or_default()]
    }

    #[test]
    fn compares_past_windows_by_whole_days() {
        let after = "2026-03-02T00:00:00Z";
        let expected = ["2026-02-28", "2026-02-28", "vs previous day", ""];
        assert_eq!(compared("2026-03-01", "2026-03-01", after), expected);
        let expected = ["2026-02-16", "2026-02-22", "vs previous 7 days", ""];
        assert_eq!(compared("2026-02-23", "2026-03-01", after), expected);
    }

    #[test]
    fn compares_today_up_to_the_same_hour() {
        let now = "2026-03-01T14:25:36.500Z";
        let note = "Today isn\u{2019}t over yet, so the previous day is counted up to the same time of day.";
        let expected = ["2026-02-28", "2026-02-28T14:25:36.500Z", "vs previous day", note];
        assert_eq!(compared("2026-03-01", "2026-03-01", now), expected);
        let note = "Today isn\u{2019}t over yet, so the previous 7 days are counted up to the same time of day.";
        let expected = ["2026-02-16", "2026-02-22T14:25:36.500Z", "vs previous 7 days", note];
        assert_eq!(compared("2026-02-23", "2026-03-01", now), expected);
        let begun = compared("2026-03-01", "2026-03-01", "2026-03-01T00:00:00Z");
        assert_eq!(begun[1], "2026-02-28T00:00:00.000Z", "nothing has elapsed, so nothing is compared");
        assert_eq!(compared("2026-03-01", "2026-03-01", "2026-03-01T23:59:59.999Z")[1], "2026-02-28T23:59:59.999Z");
    }

    #[test]
    fn compares_unfinished_windows_by_elapsed_time() {
        let note = "This period isn\u{2019}t over yet, so only the same part of the previous 10 days is counted.";
        let expected = ["2026-02-17", "2026-02-19T12:00:00.000Z", "vs previous 10 days", note];
        assert_eq!(compared("2026-02-27", "2026-03-08", "2026-03-01T12:00:00Z"), expected);
        assert_eq!(compared("2026-03-02", "2026-03-03", "2026-03-01T12:00:00Z")[..2], ["2026-02-28", "2026-03-01"]);
    }

    #[test]
    fn comparison_keeps_domain_and_partner() {
        let window = Window { domain: "a.example".into(), seen_by: "x".into(), ..window("today", "", "").unwrap() };
        let parameters = window.comparison(at("2026-03-01T12:00:00Z")).unwrap().parameters();
        assert_eq!(parameters[2..], [("domain", "a.example".to_owned()), ("seen_by", "x".to_owned())]);
    }

    #[test]
    fn link_keeps_period_domain_and_partner() {
        let window = Window { domain: "a&b.example".into(), ..window("", "2026-01-01", "2026-01-31").unwrap() };
        let seen = Window { seen_by: "x&y".into(), ..window.clone() };
        assert_eq!(seen.query_of("7d"), "period=7d&domain=a%26b.example&seen_by=x%26y");
        assert_eq!((seen.parameters()[3].clone(), seen.own()), (("seen_by", "x&y".to_owned()), window.clone()));
        assert_eq!(window.query(), "since=2026-01-01&until=2026-01-31&domain=a%26b.example");
        assert_eq!(window.query_of("7d"), "period=7d&domain=a%26b.example");
        assert_eq!(
            window.query_and(&[("by", "url"), ("after", "")]),
            "since=2026-01-01&until=2026-01-31&domain=a%26b.example&by=url"
        );
    }
}
