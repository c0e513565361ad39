//! Which time and which domain a screen is about: read from its address, and written into the addresses it links to.
//!
//! Must not know a screen.

use crate::api::Parameters;
use crate::failure::Failure;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::Deserialize;

/// The choices that a screen offers, with the days each of them covers.
pub(crate) const CHOICES: [(&str, &str, i64); 4] =
    [("today", "Today", 1), ("7d", "7 days", 7), ("30d", "30 days", 30), ("90d", "90 days", 90)];
/// What is shown when nothing was chosen.
const USUAL: &str = "30d";
/// Longer windows are charted by the day, shorter ones by the hour.
const HOURLY_DAYS: i64 = 2;

/// The parameters of every screen that shows a period.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PeriodParameters {
    #[serde(default)]
    period: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    domain: String,
    #[serde(default)]
    pub(crate) offset: u64,
    #[serde(default)]
    pub(crate) after: String,
    #[serde(default)]
    pub(crate) by: String,
    #[serde(default)]
    pub(crate) split: String,
    #[serde(default)]
    pub(crate) sort: String,
    #[serde(default)]
    pub(crate) event_type: String,
    #[serde(default)]
    pub(crate) agent_id: String,
    #[serde(default)]
    pub(crate) platform_id: String,
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    seen_by: String,
}

impl PeriodParameters {
    /// Which pages a list of them has, and by what, as the API names it; empty: all of them, by URL.
    pub(crate) fn of_pages(&self) -> [(&'static str, &str); 2] {
        [("by", &self.by), ("path", &self.path)]
    }

    /// What narrows a list of events, as the API names it; empty: not narrowed.
    pub(crate) fn narrowing(&self) -> [(&'static str, &str); 3] {
        [("event_type", &self.event_type), ("agent_id", &self.agent_id), ("platform_id", &self.platform_id)]
    }
}

/// Whole days of UTC, both ends included, and a domain or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) since: NaiveDate,
    pub(crate) until: NaiveDate,
    /// One of [`CHOICES`], or none when both days were named.
    pub(crate) period: Option<&'static str>,
    pub(crate) domain: String,
    /// The partner as whom an owner looks; empty: as oneself.
    pub(crate) seen_by: String,
}

impl Window {
    /// Reads what was asked, at a moment.
    pub(crate) fn of(asked: &PeriodParameters, now: DateTime<Utc>) -> Result<Self, Failure> {
        let (domain, seen_by) = (asked.domain.clone(), asked.seen_by.clone());
        if asked.period.is_empty() && !(asked.since.is_empty() && asked.until.is_empty()) {
            let (since, until) = (day(&asked.since, "from")?, day(&asked.until, "to")?);
            let is_ordered = since <= until;
            let window = Self { since, until, period: None, domain, seen_by };
            return is_ordered
                .then_some(window)
                .ok_or_else(|| Failure::Unreadable("The first day is after the last one.".to_owned()));
        }
        let wanted = if asked.period.is_empty() { USUAL } else { &asked.period };
        let unknown = || Failure::Unreadable("There is no such period.".to_owned());
        let (period, _, days) = CHOICES.into_iter().find(|(name, ..)| *name == wanted).ok_or_else(unknown)?;
        let until = now.date_naive();
        Ok(Self { since: until - TimeDelta::days(days - 1), until, period: Some(period), domain, seen_by })
    }

    /// One of its days.
    pub(crate) fn on(&self, day: NaiveDate) -> Self {
        Self { since: day, until: day, period: None, ..self.clone() }
    }

    /// As many days, right before.
    pub(crate) fn before(&self) -> Self {
        let until = self.since.pred_opt().unwrap_or(self.since);
        Self { since: until - TimeDelta::days(self.days() - 1), until, period: None, ..self.clone() }
    }

    pub(crate) fn days(&self) -> i64 {
        (self.until - self.since).num_days() + 1
    }

    /// What a series of this window is by.
    pub(crate) fn bucket(&self) -> &'static str {
        if self.days() <= HOURLY_DAYS { "hour" } else { "day" }
    }

    /// In the words of a sentence.
    pub(crate) fn told(&self) -> String {
        match self.period {
            Some("today") => "today".to_owned(),
            Some(_) => format!("in the last {} days", self.days()),
            None if self.since == self.until => format!("on {}", self.since),
            None => format!("from {} to {}", self.since, self.until),
        }
    }

    /// The parameters of a read.
    pub(crate) fn parameters(&self) -> Parameters {
        let mut all = vec![("since", self.since.to_string()), ("until", self.until.to_string())];
        all.extend(self.view().map(|(name, value)| (name, value.to_owned())));
        all
    }

    /// Where and as whom, as the API names it.
    fn view(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("domain", self.domain.as_str()), ("seen_by", &self.seen_by)].into_iter().filter(|(_, value)| !value.is_empty())
    }

    /// The same on one domain.
    pub(crate) fn on_domain(&self, domain: &str) -> Self {
        Self { domain: domain.to_owned(), ..self.clone() }
    }

    /// The same as oneself.
    pub(crate) fn own(&self) -> Self {
        Self { seen_by: String::new(), ..self.clone() }
    }

    /// The same and more.
    pub(crate) fn parameters_and(&self, more: &[(&'static str, &str)]) -> Parameters {
        let more = more.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (*name, (*value).to_owned()));
        self.parameters().into_iter().chain(more).collect()
    }

    /// The query string of a link that keeps all of it.
    pub(crate) fn query(&self) -> String {
        self.query_and(&[])
    }

    /// The same with more parameters.
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

    /// The same view in another of [`CHOICES`].
    pub(crate) fn query_of(&self, period: &str) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("period", period).extend_pairs(self.view()).finish()
    }

    /// Whether a choice is the one shown.
    pub(crate) fn is(&self, period: &str) -> bool {
        self.period == Some(period)
    }
}

fn day(text: &str, which: &str) -> Result<NaiveDate, Failure> {
    let unreadable = || Failure::Unreadable(format!("The day \u{201c}{which}\u{201d} is none; write it as in 2026-01-31."));
    // A year may have a sign and more digits: such days are as far away as a calendar goes, and have none before them.
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
    fn a_period_ends_today_and_the_one_before_it_touches_it() {
        let week = window("7d", "", "").unwrap();
        assert_eq!((week.since.to_string(), week.until.to_string()), ("2026-02-23".into(), "2026-03-01".into()));
        let before = week.before();
        assert_eq!((before.since.to_string(), before.until.to_string()), ("2026-02-16".into(), "2026-02-22".into()));
        assert_eq!(window("", "", ""), window("30d", "", ""));
        assert_eq!((window("today", "", "").unwrap().bucket(), week.bucket()), ("hour", "day"));
    }

    #[test]
    fn days_that_are_none_and_days_in_the_wrong_order_are_refused() {
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
    fn the_first_and_the_last_day_that_can_be_written_have_a_window_before_them() {
        let all = window("", "0000-01-01", "9999-12-31").unwrap();
        assert_eq!(all.before().days(), all.days());
    }

    #[test]
    fn what_a_link_keeps_is_read_back() {
        let window = Window { domain: "a&b.example".into(), ..window("", "2026-01-01", "2026-01-31").unwrap() };
        let seen = Window { seen_by: "x&y".into(), ..window.clone() };
        assert_eq!(seen.before().query_of("7d"), "period=7d&domain=a%26b.example&seen_by=x%26y");
        assert_eq!((seen.parameters()[3].clone(), seen.own()), (("seen_by", "x&y".to_owned()), window.clone()));
        assert_eq!(window.query(), "since=2026-01-01&until=2026-01-31&domain=a%26b.example");
        assert_eq!(window.query_of("7d"), "period=7d&domain=a%26b.example");
        assert_eq!(
            window.query_and(&[("by", "url"), ("after", "")]),
            "since=2026-01-01&until=2026-01-31&domain=a%26b.example&by=url"
        );
    }
}
