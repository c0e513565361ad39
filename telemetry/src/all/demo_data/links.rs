//! Links in agent sessions that a person followed. They depend only on the session, so they are the same each time.

use super::day::{Day, instant};
use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use uuid::Uuid;

/// Percentage of presented sources with a followed link.
const FOLLOWED: u32 = 20;
/// Percentage of visits that end with a purchase.
const PAID: u32 = 9;

/// A link that an agent showed and a person followed.
#[derive(Debug, PartialEq)]
pub(super) struct Link {
    pub(super) session: String,
    pub(super) url: String,
    visit: Vec<Value>,
}

impl Link {
    /// Returns the reports of the visit with the link's token.
    pub(super) fn visit_reports(&self, token: &str) -> impl Iterator<Item = Value> {
        self.visit.iter().cloned().map(move |mut event| {
            event["ctx_token"] = token.into();
            event
        })
    }

    pub(super) fn len(&self) -> usize {
        self.visit.len()
    }
}

/// Returns the links of a day that were followed before `now`.
pub(super) fn followed_on(day: &Day, now: DateTime<Utc>) -> Vec<Link> {
    day.sessions.iter().flat_map(|session| followed_in_session(session, now)).collect()
}

fn followed_in_session(session: &Value, now: DateTime<Utc>) -> Vec<Link> {
    let id = session["session_id"].as_str().unwrap_or_default();
    let seed = Uuid::try_parse(id).unwrap_or_default().as_u64_pair().1;
    let mut random = StdRng::seed_from_u64(seed);
    let shown = session["events"].as_array().into_iter().flatten().filter(|event| event["type"] == "content_presented");
    let links = shown.filter_map(|shown| {
        let (is_followed, waited) = (random.random_range(0..100) < FOLLOWED, random.random_range(2_000..240_000));
        let id = |random: &mut StdRng| Uuid::from_u128(random.random()).to_string();
        let (visit, order, paid) = (id(&mut random), id(&mut random), random.random_range(0..100) < PAID);
        let (shown_at, url) = (shown["timestamp"].as_str()?.parse::<DateTime<Utc>>().ok()?, shown["content_url"].as_str()?);
        let at = shown_at + TimeDelta::milliseconds(waited);
        let bought_at = at + TimeDelta::minutes(4);
        if !is_followed || at > now {
            return None;
        }
        let mut reports = vec![json!({
            "id": visit, "type": "content_engaged", "timestamp": instant(at), "content_url": url,
            "data": {"engagement_type": "link_click"},
        })];
        if paid && bought_at <= now {
            reports.push(json!({
                "id": order, "type": "checkout_completed", "timestamp": instant(bought_at), "source_role": "index",
                "content_url": url, "data": {"value_amount": random.random_range(4..60) * 100 - 1, "currency": "EUR"},
            }));
        }
        Some(Link { session: session["session_id"].as_str()?.to_owned(), url: url.to_owned(), visit: reports })
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDate;

    #[test]
    fn links_are_deterministic_and_follow_a_presentation() {
        let date = NaiveDate::from_ymd_opt(2026, 11, 2).unwrap();
        let (day, end) =
            (super::super::day::generate(date), date.and_hms_opt(23, 59, 59).unwrap().and_utc() + TimeDelta::days(1));
        let links = followed_on(&day, end);
        assert_eq!(links, followed_on(&day, end));
        let sources = day.sessions.iter().flat_map(|session| session["events"].as_array().unwrap());
        let shown: Vec<&Value> = sources.filter(|event| event["type"] == "content_presented").collect();
        assert!((3..shown.len() / 2).contains(&links.len()), "{} of {}", links.len(), shown.len());
        for link in &links {
            let visit: Vec<Value> = link.visit_reports("ctx_token").collect();
            assert_eq!(visit.len(), link.len());
            let at = visit[0]["timestamp"].as_str().unwrap();
            let is_its = |shown: &&&Value| shown["content_url"] == link.url.as_str() && shown["timestamp"].as_str().unwrap() < at;
            assert!(shown.iter().find(is_its).is_some() && visit[0]["ctx_token"] == "ctx_token", "{link:?}");
        }
        let noon = date.and_hms_opt(12, 0, 0).unwrap().and_utc();
        let until_noon = followed_on(&day, noon);
        assert!(!until_noon.is_empty() && until_noon.len() < links.len());
        for link in until_noon {
            assert!(link.visit_reports("").all(|event| event["timestamp"].as_str().unwrap() <= "2026-11-02T12:00:00.000Z"));
        }
    }
}
