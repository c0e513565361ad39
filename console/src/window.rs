//! The period and the domain of a screen, parsed from its address and added to its links.

use crate::api::Parameters;
use crate::failure::Failure;
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use serde::Deserialize;

/// Periods to choose from, with their number of days.
pub(crate) const CHOICES: [(&str, &str, i64); 4] =
    [("today", "Today", 1), ("7d", "7 days", 7), ("30d", "30 days", 30), ("90d", "90 days", 90)];
/// Default period.
const USUAL: &str = "30d";
/// Charts are hourly up to this number of days, and daily above.
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
    pub(crate) event_type: String,
    pub(crate) agent_id: String,
    pub(crate) platform_id: String,
    pub(crate) path: String,
    pub(crate) outcome: String,
    seen_by: String,
}

/// Outcomes of requests, which the list of events offers as types.
pub(crate) const OUTCOMES: [(&str, &str); 3] = [("fetch", "Fetch"), ("failed", "Failed fetch"), ("revalidation", "Revalidation")];

impl PeriodParameters {
    /// Returns the API filters of a list of pages; empty values mean all pages, by URL.
    pub(crate) fn of_pages(&self) -> [(&'static str, &str); 2] {
        [("by", &self.by), ("path", &self.path)]
    }

    /// Returns the API filters of a list of events; empty values mean all.
    pub(crate) fn narrowing(&self) -> [(&'static str, &str); 4] {
        let kind = self.kind();
        let is_outcome = OUTCOMES.iter().any(|(outcome, _)| *outcome == kind);
        let (event_type, outcome) = if is_outcome { ("", kind) } else { (kind, "") };
        [("event_type", event_type), ("outcome", outcome), ("agent_id", &self.agent_id), ("platform_id", &self.platform_id)]
    }

    /// Returns the chosen type of events, which may be an outcome.
    pub(crate) fn kind(&self) -> &str {
        if self.outcome.is_empty() { &self.event_type } else { &self.outcome }
    }
}

/// Why dates of a page were not used.
pub(crate) struct DateProblem {
    pub(crate) detail: String,
    pub(crate) is_of_since: bool,
    pub(crate) is_of_until: bool,
}

/// Whole UTC days, both inclusive, and optionally a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: NaiveDate,
    pub(crate) until: NaiveDate,
    /// One of [`CHOICES`], or `None` if both days were given.
    pub(crate) period: Option<&'static str>,
    pub(crate) domain: String,
    /// Partner whose view is shown; empty for the owner's own.
    pub(crate) seen_by: String,
}

impl Window {
    /// Parses the parameters.
    pub(crate) fn of(asked: &PeriodParameters, now: DateTime<Utc>) -> Result<Self, Failure> {
        let (domain, seen_by) = (asked.domain.clone(), asked.seen_by.clone());
        if asked.period.is_empty() && !(asked.since.is_empty() && asked.until.is_empty()) {
            let (since, until) = (day(&asked.since, "from")?, day(&asked.until, "to")?);
            let is_ordered = since <= until;
            let window = Self { since, until, period: None, domain, seen_by };
            return is_ordered
                .then_some(window)
                .ok_or_else(|| Failure::Unreadable("The start date is after the end date.".to_owned()));
        }
        let wanted = if asked.period.is_empty() { USUAL } else { &asked.period };
        let unknown = || Failure::Unreadable("period must be one of: today, 7d, 30d, 90d.".to_owned());
        let (period, _, days) = CHOICES.into_iter().find(|(name, ..)| *name == wanted).ok_or_else(unknown)?;
        let until = now.date_naive();
        Ok(Self { since: until - TimeDelta::days(days - 1), until, period: Some(period), domain, seen_by })
    }

    /// Parses the parameters of a page. If a date is invalid, returns the default period and the problem, so that the page keeps its
    /// filters.
    pub(crate) fn read(asked: &PeriodParameters, now: DateTime<Utc>) -> Result<(Self, Option<DateProblem>), Failure> {
        let failure = match Self::of(asked, now) {
            Ok(window) => return Ok((window, None)),
            Err(failure) => failure,
        };
        let Failure::Unreadable(detail) = failure else { return Err(failure) };
        if !asked.period.is_empty() {
            return Err(Failure::Unreadable(detail));
        }
        let usual = PeriodParameters { since: String::new(), until: String::new(), ..asked.clone() };
        let window = Self::of(&usual, now)?;
        let is_reversed = day(&asked.since, "").is_ok() && day(&asked.until, "").is_ok();
        Ok((
            window.clone(),
            Some(DateProblem {
                detail: format!("{detail} Showing data {} instead.", window.told()),
                is_of_since: is_reversed || day(&asked.since, "").is_err(),
                is_of_until: is_reversed || day(&asked.until, "").is_err(),
            }),
        ))
    }

    /// Returns the window of one of its days.
    pub(crate) fn on(&self, day: NaiveDate) -> Self {
        Self { since: day, until: day, period: None, ..self.clone() }
    }

    /// Returns the period that this window is compared with at a time.
    pub(crate) fn comparison(&self, now: DateTime<Utc>) -> Comparison {
        let until = self.since.pred_opt().unwrap_or(self.since);
        let whole = Self { since: until - TimeDelta::days(self.days() - 1), until, period: None, ..self.clone() };
        let elapsed = now - midnight(self.since);
        let part = match now.date_naive() {
            today if today < self.since || today > self.until => Part::Whole,
            today if today == self.until => Part::ToSameHour,
            _ => Part::Elapsed,
        };
        let end = (part != Part::Whole).then(|| midnight(whole.since) + elapsed);
        Comparison { whole, end, part }
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
    pub(crate) fn told(&self) -> String {
        match self.period {
            Some("today") => "today".to_owned(),
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

    /// Returns the API parameters of domain and partner.
    fn view(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("domain", self.domain.as_str()), ("seen_by", &self.seen_by)].into_iter().filter(|(_, value)| !value.is_empty())
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
        query.extend_pairs(self.view());
        query.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    /// Returns the query string with another of [`CHOICES`].
    pub(crate) fn query_of(&self, period: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("period", period).extend_pairs(self.view()).finish()
    }

    /// Returns whether this choice is selected.
    pub(crate) fn is(&self, period: &str) -> bool {
        self.period == Some(period)
    }
}

/// The period that a window is compared with: the same number of days right before it. If the window is not over, only the same
/// elapsed part, so that equal durations are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    whole: Window,
    /// End within the last day; `None` if the day is complete.
    end: Option<DateTime<Utc>>,
    part: Part,
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

    /// Returns which part of the previous period is compared; `None` for all of it.
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
        match self.whole.days() {
            1 => "previous day".to_owned(),
            days => format!("previous {days} days"),
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
        Window::of(&asked, at("2026-03-01T23:59:59Z")).ok()
    }

    #[test]
    fn period_ends_today() {
        let week = window("7d", "", "").unwrap();
        assert_eq!((week.since.to_string(), week.until.to_string()), ("2026-02-23".into(), "2026-03-01".into()));
        assert_eq!(window("", "", ""), window("30d", "", ""));
        assert_eq!((window("today", "", "").unwrap().bucket(), week.bucket()), ("hour", "day"));
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
    fn longest_window_can_be_compared() {
        let all = window("", "0000-01-01", "9999-12-31").unwrap();
        assert_eq!(all.comparison(at("2026-03-01T00:00:00Z")).whole.days(), all.days());
    }

    /// Returns since, until, label and note.
    fn compared(since: &str, until: &str, now: &str) -> [String; 4] {
        let comparison = window("", since, until).unwrap().comparison(at(now));
        let parameters = comparison.parameters();
        [parameters[0].1.clone(), parameters[1].1.clone(), comparison.label(), comparison.note().unwrap_or_default()]
    }

    #[test]
    fn past_window_is_compared_with_whole_days() {
        let after = "2026-03-02T00:00:00Z";
        let expected = ["2026-02-28", "2026-02-28", "vs previous day", ""];
        assert_eq!(compared("2026-03-01", "2026-03-01", after), expected);
        let expected = ["2026-02-16", "2026-02-22", "vs previous 7 days", ""];
        assert_eq!(compared("2026-02-23", "2026-03-01", after), expected);
    }

    #[test]
    fn today_is_compared_up_to_the_same_hour() {
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
    fn unfinished_window_is_compared_by_elapsed_part() {
        let note = "This period isn\u{2019}t over yet, so only the same part of the previous 10 days is counted.";
        let expected = ["2026-02-17", "2026-02-19T12:00:00.000Z", "vs previous 10 days", note];
        assert_eq!(compared("2026-02-27", "2026-03-08", "2026-03-01T12:00:00Z"), expected);
        assert_eq!(compared("2026-03-02", "2026-03-03", "2026-03-01T12:00:00Z")[..2], ["2026-02-28", "2026-03-01"]);
    }

    #[test]
    fn comparison_keeps_domain_and_partner() {
        let window = Window { domain: "a.example".into(), seen_by: "x".into(), ..window("today", "", "").unwrap() };
        let parameters = window.comparison(at("2026-03-01T12:00:00Z")).parameters();
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
