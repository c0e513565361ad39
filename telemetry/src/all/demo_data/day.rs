//! Generates one day of demo data from its date. The same date always produces the same events and ids.

use super::names::{AGENTS, ASSISTANTS, BOTS, Bot, PAGES, SITE, bot_of_agent};
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Utc, Weekday};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use uuid::Uuid;

/// Crawler fetches, demo agent sessions, and other assistants' sessions on an average day.
const CRAWLS: f64 = 260.0;
const SESSIONS: f64 = 22.0;
const ASSISTED: f64 = 7.0;
/// Seed of the random generator, combined with the date.
const SEED: u64 = 0x00c0_ffee;

/// Reports of one day, each list sorted by time.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Day {
    pub(super) seen_by_edge: Vec<Value>,
    pub(super) seen_by_origin: Vec<Value>,
    /// Complete sessions, as the agent uploads them.
    pub(super) sessions: Vec<Value>,
}

impl Day {
    /// Removes reports later than `now`.
    pub(super) fn until(mut self, now: DateTime<Utc>) -> Self {
        let text = instant(now);
        let has_happened = |value: &Value, member: &str| value[member].as_str().is_some_and(|at| at <= text.as_str());
        self.seen_by_edge.retain(|event| has_happened(event, "timestamp"));
        self.seen_by_origin.retain(|event| has_happened(event, "timestamp"));
        self.sessions.retain(|session| has_happened(session, "ended_at"));
        self
    }
}

pub(super) fn generate(date: NaiveDate) -> Day {
    let number = u64::try_from(date.num_days_from_ce()).unwrap_or_default();
    let mut maker = DayGenerator { random: StdRng::seed_from_u64(SEED ^ (number << 32)), date, day: Day::default() };
    let busy = activity(date);
    for _ in 0..maker.around(CRAWLS * busy) {
        maker.crawl();
    }
    for _ in 0..maker.around(SESSIONS * busy) {
        let agent = AGENTS[[0, 0, 0, 1, 1, 2][maker.random.random_range(0..6)]];
        maker.session(agent);
    }
    for _ in 0..maker.around(ASSISTED * busy) {
        let agent = ASSISTANTS[[0, 0, 0, 1, 2, 2][maker.random.random_range(0..6)]].name;
        maker.session(agent);
    }
    let DayGenerator { mut day, .. } = maker;
    let by_time = |list: &mut Vec<Value>, member: &str| list.sort_by(|a, b| a[member].as_str().cmp(&b[member].as_str()));
    by_time(&mut day.seen_by_edge, "timestamp");
    by_time(&mut day.seen_by_origin, "timestamp");
    by_time(&mut day.sessions, "started_at");
    day
}

/// Returns the relative activity: lower at weekends, and rising slightly within the month.
fn activity(date: NaiveDate) -> f64 {
    let weekend = if matches!(date.weekday(), Weekday::Sat | Weekday::Sun) { 0.7 } else { 1.0 };
    weekend * (0.9 + 0.2 * f64::from(date.day0()) / 30.0)
}

pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

struct DayGenerator {
    random: StdRng,
    date: NaiveDate,
    day: Day,
}

impl DayGenerator {
    /// Returns a random number within 15 percent of `number`.
    fn around(&mut self, number: f64) -> u32 {
        (number * self.random.random_range(0.85..1.15)).round() as u32
    }

    fn chance(&mut self, of_hundred: u32) -> bool {
        self.random.random_range(0..100) < of_hundred
    }

    fn id(&mut self) -> String {
        Uuid::from_u128(self.random.random()).to_string()
    }

    /// Returns a random time, most often around noon: the mean of two uniform times.
    fn time(&mut self) -> DateTime<Utc> {
        let of_day = || 0..86_000_000_i64;
        let ms = i64::midpoint(self.random.random_range(of_day()), self.random.random_range(of_day()));
        self.date.and_time(NaiveTime::MIN).and_utc() + TimeDelta::milliseconds(ms)
    }

    /// Returns a page URL; the first pages are the most frequent.
    fn page(&mut self) -> String {
        let place = self.random.random_range(0.0..1.0_f64).powi(2) * f64::from(u8::try_from(PAGES.len()).unwrap_or(u8::MAX));
        let page = PAGES.get(place as usize).unwrap_or(&PAGES[0]);
        format!("{SITE}{page}")
    }

    fn bot(&mut self) -> &'static Bot {
        let mut lot = self.random.random_range(0..BOTS.iter().map(|bot| bot.share).sum());
        let drawn = BOTS.iter().find(|bot| {
            let is_drawn = lot < bot.share;
            lot = lot.saturating_sub(bot.share);
            is_drawn
        });
        drawn.unwrap_or(&BOTS[0])
    }

    /// Adds a crawler fetch, reported by the edge and sometimes also by the origin.
    fn crawl(&mut self) {
        let (at, url, fetch, bot) = (self.time(), self.page(), self.id(), self.bot());
        let seen = self.retrieval(at, &url, &fetch, bot);
        self.day.seen_by_edge.push(seen);
        if self.chance(35) {
            self.origin(at, &url, &fetch);
        }
    }

    /// Returns a fetch as the edge reports it.
    fn retrieval(&mut self, at: DateTime<Utc>, url: &str, fetch: &str, bot: &Bot) -> Value {
        let status = [200, 200, 200, 200, 200, 200, 200, 304, 304, 404][self.random.random_range(0..10)];
        let cache = if self.chance(60) { "hit" } else { "miss" };
        json!({
            "id": self.id(), "type": "content_retrieved", "timestamp": instant(at), "source_role": "edge", "content_url": url,
            "content_telemetry_id": fetch,
            "data": {
                "bot_name": bot.name, "purpose": bot.purpose, "user_agent": bot.user_agent, "verified": bot.is_verified,
                "asn_org": bot.operator, "cache_status": cache, "response_status": status,
                "response_bytes": if status == 200 { self.random.random_range(8_000..90_000) } else { 0 },
            },
        })
    }

    fn origin(&mut self, at: DateTime<Utc>, url: &str, fetch: &str) {
        let event = json!({
            "id": self.id(), "type": "content_retrieved", "timestamp": instant(at + TimeDelta::milliseconds(12)),
            "source_role": "origin", "content_url": url, "content_telemetry_id": fetch,
        });
        self.day.seen_by_origin.push(event);
    }

    /// Adds an agent session with one to four pages. The edge misses some of the fetches.
    fn session(&mut self, agent: &str) {
        let (started, session) = (self.time(), self.id());
        let (mut at, mut events) = (started, Vec::new());
        for _ in 0..self.random.random_range(1..=4) {
            at += TimeDelta::milliseconds(self.random.random_range(200..2_500));
            self.read_page(&mut at, agent, &mut events);
        }
        let ended = at + TimeDelta::seconds(self.random.random_range(2..40));
        let outcome = match self.random.random_range(0..20) {
            0..=4 if agent == "demo-shopping" => {
                json!({"type": "conversion", "value_amount": self.random.random_range(900..30_000), "currency": "EUR"})
            }
            0..=2 => json!({"type": "abandonment"}),
            _ => json!({"type": "browse"}),
        };
        self.day.sessions.push(json!({
            "session_id": session, "agent_id": agent, "started_at": instant(started), "ended_at": instant(ended),
            "events": events, "outcome": outcome,
        }));
    }

    /// Adds the events of one page in a session, from the fetch to a random later step.
    fn read_page(&mut self, at: &mut DateTime<Utc>, agent: &str, events: &mut Vec<Value>) {
        let (url, fetch) = (self.page(), self.id());
        let mut say = |maker: &mut Self, kind: &str, after: i64, more: Value| {
            *at += TimeDelta::milliseconds(after);
            let mut event = json!({"id": maker.id(), "type": kind, "timestamp": instant(*at), "content_url": url});
            if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
                event.extend(more);
            }
            events.push(event);
            *at
        };
        let fetched_at = say(self, "content_retrieved", 0, json!({"source_role": "agent", "content_telemetry_id": fetch}));
        let steps = [
            (82, "content_grounded", 300, json!({"data": {"scope": "turn", "cached": false}})),
            (70, "content_cited", 900, json!({"data": {"citation_type": "paraphrase", "position": "primary"}})),
            (
                85,
                "content_presented",
                150,
                json!({"data": {"presentation_kind": "source_reference", "presentation_type": "card"}}),
            ),
            (
                if agent == "demo-shopping" { 30 } else { 14 },
                "content_engaged",
                6_000,
                json!({"data": {"engagement_type": "click"}}),
            ),
        ];
        for (of_hundred, kind, after, more) in steps {
            if !self.chance(of_hundred) {
                break;
            }
            say(self, kind, after, more);
        }
        if self.chance(84) {
            let seen = self.retrieval(fetched_at + TimeDelta::milliseconds(20), &url, &fetch, bot_of_agent(agent));
            self.day.seen_by_edge.push(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(day: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, day).unwrap()
    }

    #[test]
    fn same_date_produces_same_events() {
        assert_eq!(generate(date(2)), generate(date(2)));
        assert_ne!(generate(date(2)), generate(date(3)));
    }

    #[test]
    fn edge_and_agent_report_overlapping_fetches() {
        let day = generate(date(2));
        let fetches = |list: &[Value]| -> Vec<String> {
            list.iter().filter_map(|event| event["content_telemetry_id"].as_str().map(str::to_owned)).collect()
        };
        let claimed: Vec<Value> = day.sessions.iter().flat_map(|session| session["events"].as_array().unwrap().clone()).collect();
        let (seen, claimed) = (fetches(&day.seen_by_edge), fetches(&claimed));
        let both = claimed.iter().filter(|fetch| seen.contains(fetch)).count();
        assert!(
            both > 10 && both < claimed.len() && claimed.len() < seen.len(),
            "{both} of {} and {}",
            claimed.len(),
            seen.len()
        );
        assert!(fetches(&day.seen_by_origin).iter().all(|fetch| seen.contains(fetch)));
        let unverified = day.seen_by_edge.iter().filter(|event| event["data"]["verified"] == false).count();
        assert!((1..day.seen_by_edge.len() / 5).contains(&unverified), "{unverified}");
    }

    #[test]
    fn until_excludes_later_reports() {
        let whole = generate(date(2));
        let noon = date(2).and_hms_opt(12, 0, 0).unwrap().and_utc();
        let half = generate(date(2)).until(noon);
        assert!(!half.seen_by_edge.is_empty() && half.seen_by_edge.len() < whole.seen_by_edge.len());
        assert!(half.seen_by_edge.iter().all(|event| whole.seen_by_edge.contains(event)));
        assert!(half.sessions.iter().all(|session| session["ended_at"].as_str() <= Some("2026-11-02T12:00:00.000Z")));
        assert_eq!(generate(date(2)).until(noon + TimeDelta::days(1)), whole);
        assert_eq!(generate(date(3)).until(noon), Day::default());
    }
}
