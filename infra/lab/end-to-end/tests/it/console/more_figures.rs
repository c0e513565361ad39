//! U1, cell by cell: the tables behind charts, sentences, changes, shares and lists are made of the API's figures for the same view,
//! whatever the period, the domain and the partner as whom somebody looks. How many views: `TEST_ROUNDS`.

use super::Reader;
use super::reader::{Page, unescaped};
use crate::demo::{Demo, answer};
use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, TimeDelta, Utc, Weekday};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{eventually, random_seed, size};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Types and their labels, in the order of the chart.
const STEPS: [(&str, &str); 5] = [
    ("content_retrieved", "Fetches"),
    ("content_grounded", "Groundings"),
    ("content_cited", "Citations"),
    ("content_presented", "Presentations"),
    ("content_engaged", "Engagements"),
];
/// The same in a list of events.
const EVENTS: [(&str, &str); 6] = [
    ("content_retrieved", "Fetch"),
    ("content_grounded", "Grounding"),
    ("content_cited", "Citation"),
    ("content_presented", "Presentation"),
    ("content_engaged", "Engagement"),
    ("checkout_completed", "Purchase"),
];
/// Plural labels of the types that only agents see.
const PURCHASES: (&str, &str) = ("checkout_completed", "Purchases");
/// Changes from fewer events, and of shares of fewer claims, are not compared in percent.
const MIN_BASE: u64 = 10;
const OF_AGENTS: usize = 120;
const OF_EDGE: usize = 20;
/// Lines that a chart tells apart.
const LINES: usize = 5;
/// Claims of twenty days, and of the twenty days before.
const CLAIMS: usize = 40;
const UNKNOWN: &str = "Unknown";
const NO_AGENT: &str = "Unknown or undeclared";
const UNDECLARED: &str = "Crawlers (undeclared)";

/// Events of eight agents, one of them without a name, and of the owner's edge; some of an hour that has not come.
async fn report(demo: &Demo, random: &mut StdRng, now: DateTime<Utc>) {
    let at = |number: usize, random: &mut StdRng| match number % 20 {
        0 => (now + TimeDelta::minutes(50)).to_rfc3339(),
        1..8 => (now - TimeDelta::minutes(random.random_range(0..2 * 24 * 60))).to_rfc3339(),
        _ => (now - TimeDelta::minutes(random.random_range(0..40 * 24 * 60))).to_rfc3339(),
    };
    for agent in 0..8 {
        let event = |number: usize| {
            let (kind, _) = *STEPS.choose(random).unwrap();
            let kind = if number == 14 { "checkout_completed" } else { kind };
            let host = ["www.example.com", "example.com"][random.random_range(0..2)];
            json!({"type": kind, "timestamp": at(number, random), "source_role": "agent",
                "content_url": format!("https://{host}/<{}>", random.random_range(0..7))})
        };
        let events: Vec<Value> = (0..OF_AGENTS / 8).map(event).collect();
        let name = if agent == 0 { Value::Null } else { json!(format!("agent <{agent}>")) };
        let session = format!("00000000-0000-4000-8000-{agent:012x}");
        let sent = demo.post(demo.env("AGENT_KEY"), &json!({"session_id": session, "agent_id": name, "events": events})).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    let seen = |number: usize| {
        json!({"type": "content_retrieved", "timestamp": at(number, random), "source_role": "edge",
            "content_url": format!("https://www.example.com/of-edge/{number}"), "data": {"user_agent": "GPTBot/1.2"}})
    };
    let seen: Vec<Value> = (0..OF_EDGE).map(seen).collect();
    assert_eq!(demo.post(demo.env("OWNER_KEY"), &json!({"events": seen})).await.status, 201);
    demo.counts((OF_AGENTS + OF_EDGE) as u64).await;
    claim(demo, now).await;
}

/// Fetches that an agent claims: the edge saw three quarters of those of the last twenty days, and a quarter of those before.
async fn claim(demo: &Demo, now: DateTime<Utc>) {
    let fetch = |role: &str, number: usize| {
        let days = if number.is_multiple_of(2) { 5 } else { 25 };
        json!({"type": "content_retrieved", "timestamp": (now - TimeDelta::days(days)).to_rfc3339(), "source_role": role,
            "content_telemetry_id": format!("claim-{number}"), "content_url": format!("https://www.example.com/claimed/{number}")})
    };
    let claims: Vec<Value> = (0..2 * CLAIMS).map(|number| fetch("agent", number)).collect();
    let body = json!({"session_id": "00000000-0000-4000-8000-0000000000ff", "agent_id": "claiming", "events": claims});
    assert_eq!(demo.post(demo.env("AGENT_KEY"), &body).await.status, 201);
    demo.counts((OF_AGENTS + OF_EDGE + 2 * CLAIMS) as u64).await;
    let seen = (0..2 * CLAIMS).filter(|number| number / 2 % 4 < if number.is_multiple_of(2) { 3 } else { 1 });
    let seen: Vec<Value> = seen.map(|number| fetch("edge", number)).collect();
    assert_eq!(demo.post(demo.env("OWNER_KEY"), &json!({"events": seen})).await.status, 201);
    eventually("the claims are confirmed", || async {
        let days = demo.get(demo.env("OWNER_KEY"), "/content-owners/corroboration?by=day&limit=1000").await.body;
        (claims_of(&days).0 == CLAIMS as u64).then_some(())
    })
    .await;
}

/// What a page and the API are asked for.
#[derive(Clone, Debug)]
struct View {
    since: NaiveDate,
    until: NaiveDate,
    shown: String,
    /// Beside the days, in the API's.
    rest: String,
    /// Of a list of pages, in both.
    pages: String,
}

impl View {
    fn random(demo: &Demo, random: &mut StdRng, today: NaiveDate) -> Self {
        let chosen = [("today", 1), ("7d", 7), ("30d", 30), ("90d", 90)].choose(random).filter(|_| random.random()).copied();
        let (since, until, shown) = if let Some((period, days)) = chosen {
            (today - TimeDelta::days(days - 1), today, format!("period={period}"))
        } else {
            let since = today - TimeDelta::days(random.random_range(0..45));
            let since = since - TimeDelta::days([0, 0, 90, 250][random.random_range(0..4)]);
            let until = since + TimeDelta::days([0, 1, 2, 9, 50, 91, 92, 300][random.random_range(0..8)]);
            (since, until, format!("since={since}&until={until}"))
        };
        let domain = ["", "", "&domain=example.com", "&domain=www.example.com"][random.random_range(0..4)];
        let seen_by =
            if random.random_range(0..4) == 0 { format!("&seen_by={}", demo.env("NETWORK_ORG_ID")) } else { String::new() };
        let rest = format!("{domain}{seen_by}");
        let path = ["", "", "/of-edge/*", "/*", "/%3C*", "/%3C3%3E", "/of-edge/1", "/of-*", "/_f-edge/*"].choose(random).unwrap();
        let by = ["", "section", "url"].choose(random).unwrap();
        let pages = [("path", path), ("by", by)].into_iter().filter(|(_, value)| !value.is_empty());
        let pages = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pages).finish();
        let pages = if pages.is_empty() { pages } else { format!("&{pages}") };
        Self { since, until, shown: format!("{shown}{rest}"), rest, pages }
    }

    /// The same of a year.
    fn of_a_year(self, today: NaiveDate) -> Self {
        let (since, until) = (today - TimeDelta::days(364), today);
        Self { since, until, shown: format!("since={since}&until={until}{}", self.rest), ..self }
    }

    fn api(&self) -> String {
        format!("since={}&until={}{}", self.since, self.until, self.rest)
    }

    /// What the API is asked for the same days before, up to the same hour if the last day is not over.
    fn before(&self, now: DateTime<Utc>) -> String {
        let days = self.until - self.since + TimeDelta::days(1);
        let (since, until) = (self.since - days, self.until - days);
        if now.date_naive() < self.since || now.date_naive() > self.until {
            return format!("since={since}&until={until}{}", self.rest);
        }
        let end = (now - days).to_rfc3339_opts(SecondsFormat::Millis, true);
        format!("since={since}&until={end}{}", self.rest)
    }

    /// The period that is compared.
    fn previous(&self) -> String {
        let days = (self.until - self.since).num_days() + 1;
        if days == 1 { "previous day".to_owned() } else { format!("previous {days} days") }
    }

    /// The beginning of the note that only a part of that period is counted.
    fn note(&self, today: NaiveDate) -> Option<&'static str> {
        match today {
            today if today == self.until => Some("Today isn\u{2019}t over yet"),
            today if today >= self.since && today < self.until => Some("This period isn\u{2019}t over yet"),
            _ => None,
        }
    }

    /// Whether a chart of it goes by week.
    fn is_weekly(&self) -> bool {
        self.until - self.since >= TimeDelta::days(92)
    }

    fn bucket(&self) -> &'static str {
        if self.until - self.since < TimeDelta::days(2) { "hour" } else { "day" }
    }
}

/// The cells of the table of this name, a figure or a time by its exact value, of a text what one reads.
fn table(page: &Page, name: &str) -> Vec<Vec<String>> {
    let body = page.between(&format!("aria-label=\"{name}\"><table"), "</table>").and_then(|table| table.split_once("<tbody>"));
    let Some((_, body)) = body else { return Vec::new() };
    let body = body.split_once("</tbody>").map_or(body, |(body, _)| body);
    let cell = |cell: &str| {
        let inside = cell.split_once('>').map_or("", |(_, inside)| inside);
        let exact = ["<data value=\"", "<time datetime=\""].iter().find_map(|before| inside.split_once(before));
        exact.and_then(|(_, rest)| rest.split_once('"')).map_or_else(|| read(inside), |(value, _)| unescaped(value))
    };
    let row = |row: &str| row.replace("<th", "<td").split("<td").skip(1).map(cell).collect();
    body.split("<tr").skip(1).map(row).collect()
}

/// A text without its tags.
fn read(html: &str) -> String {
    let html = html.split("</td>").next().unwrap_or_default().split("</th>").next().unwrap_or_default();
    let parts = html.split('<').enumerate().map(|(at, part)| match part.split_once('>') {
        Some((_, text)) if at > 0 => text,
        _ => part,
    });
    unescaped(&parts.collect::<String>()).trim().to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no figure"))
}

/// These members of a list's items.
fn told(list: &Value, names: &[&str]) -> Vec<Vec<String>> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| names.iter().map(|name| text(&item[*name])).collect()).collect()
}

fn share(part: &Value, whole: &Value) -> String {
    if whole == 0 { "\u{2013}".to_owned() } else { format!("{part}/{whole}") }
}

/// The label of a role.
fn reporter(role: &str) -> &str {
    match role {
        "agent" => "AI agent",
        "edge" => "CDN",
        "origin" => "Your server",
        "index" => "Marketplace",
        other => panic!("{other} is not a role"),
    }
}

/// The figure of an answer's counts by type.
fn of_type(counts: &Value, event_type: &str) -> u64 {
    counts.as_array().unwrap().iter().find(|count| count["event_type"] == event_type).map_or(0, |count| number(&count["count"]))
}

/// The table of a chart: names of its lines, and a row for each bucket that has begun at a moment or holds something.
fn charted(
    items: &Value,
    named: impl Fn(&Value) -> Option<String>,
    (is_in_steps, is_weekly): (bool, bool),
    now: DateTime<Utc>,
) -> (Vec<String>, Vec<Vec<String>>) {
    let mut figures = BTreeMap::<String, BTreeMap<String, u64>>::new();
    let mut totals = BTreeMap::<String, u64>::new();
    for item in items.as_array().unwrap() {
        let Some(name) = named(item) else { continue };
        let count = number(&item["total_events"]);
        *totals.entry(name.clone()).or_default() += count;
        let start = if is_weekly { monday(&text(&item["start"])) } else { text(&item["start"]) };
        *figures.entry(start).or_default().entry(name).or_default() += count;
    }
    let mut names: Vec<String> = totals.keys().cloned().collect();
    names.sort_by_key(|name| (Reverse(totals[name]), name.clone()));
    let mut lines: Vec<(String, Vec<String>)> = names.iter().map(|name| (name.clone(), vec![name.clone()])).collect();
    if is_in_steps {
        lines = STEPS.iter().map(|(_, step)| ((*step).to_owned(), vec![(*step).to_owned()])).collect();
    } else if names.len() > LINES {
        let others = names.split_off(LINES - 1);
        lines.truncate(LINES - 1);
        lines.push((format!("{} others", others.len()), others));
    }
    let row = |start: &String, of: &BTreeMap<String, u64>| {
        let figure =
            |(_, names): &(String, Vec<String>)| names.iter().map(|name| of.get(name).copied().unwrap_or_default()).sum::<u64>();
        (start.clone(), lines.iter().map(figure).collect::<Vec<_>>())
    };
    let mut rows: Vec<(String, Vec<u64>)> = figures.iter().map(|(start, of)| row(start, of)).collect();
    while rows
        .pop_if(|(start, figures)| start.parse::<DateTime<Utc>>().unwrap() > now && figures.iter().all(|figure| *figure == 0))
        .is_some()
    {}
    let rows = rows
        .into_iter()
        .map(|(start, figures)| [start].into_iter().chain(figures.into_iter().map(|figure| figure.to_string())).collect());
    (lines.into_iter().map(|(name, _)| name).collect(), rows.collect())
}

/// When the week of a day began.
fn monday(start: &str) -> String {
    let day: NaiveDate = start[..10].parse().unwrap();
    let monday = (0..7).map(|days| day - TimeDelta::days(days)).find(|day| day.weekday() == Weekday::Mon);
    format!("{}T00:00:00.000Z", monday.unwrap())
}

/// The same as the page has it; a bucket by when it begins.
fn drawn(page: &Page, title: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let names = page.between(&format!("<caption class=\"hidden\">{title}</caption>"), "</thead>").unwrap_or_default();
    let names = names.split("<th scope=\"col\" class=\"number\">").skip(1).map(read).collect();
    let mut rows = table(page, &format!("{title}, as a table"));
    for row in &mut rows {
        row[0] = match row[0].strip_prefix("week of ") {
            Some(monday) => format!("{}T00:00:00.000Z", NaiveDate::parse_from_str(monday, "%d %b %Y").unwrap()),
            None => {
                row[0].split_once(' ').map_or(format!("{}T00:00:00.000Z", row[0]), |(day, hour)| format!("{day}T{hour}:00.000Z"))
            }
        };
    }
    (names, rows)
}

/// Somebody at the pages, and at the API.
struct Compared<'a> {
    demo: &'a Demo,
    reader: Reader,
    home: String,
    key: &'static str,
    trace: String,
}

impl Compared<'_> {
    async fn api(&self, path: &str) -> Value {
        let answer = self.demo.get(self.demo.env(self.key), path).await;
        assert_eq!(answer.status, 200, "{}: {path}: {}", self.trace, answer.body);
        answer.body
    }

    async fn page(&mut self, path: &str) -> Page {
        let page = self.reader.open(&format!("{}/{path}", self.home)).await;
        assert_eq!(page.status, 200, "{}: {path}: {}", self.trace, page.html);
        page
    }

    /// A chart of a page against a series. An hour may begin while the page is made.
    async fn chart(
        &mut self,
        view: &View,
        (path, series): (&str, &str),
        title: &str,
        named: impl Fn(&Value) -> Option<String> + Copy,
    ) -> Page {
        let before = Clock::System.now();
        let page = self.page(path).await;
        let after = Clock::System.now();
        let items = self.api(&format!("{series}?{}&by={}&split={}", view.api(), view.bucket(), split_of(path))).await;
        let is_in_steps = title == "Events";
        let expected = [before, after].map(|now| charted(&items["items"], named, (is_in_steps, view.is_weekly()), now));
        let shown = drawn(&page, title);
        assert!(expected.contains(&shown), "{}: {path}: {shown:?} is not {:?}", self.trace, expected[0]);
        for (at, name) in shown.0.iter().enumerate() {
            let sum: u64 = shown.1.iter().map(|row| row[at + 1].parse::<u64>().unwrap()).sum();
            let legend = format!("</span>{} <strong><data value=\"{sum}\">", name.replace('<', "&#60;").replace('>', "&#62;"));
            assert!(page.html.contains(&legend), "{}: {path}: {legend} in {}", self.trace, page.html);
        }
        page
    }

    async fn overview(&mut self, view: &View, split: &str) -> Page {
        let now = self.api(&format!("/content-owners/summary?{}", view.api())).await;
        let path = format!("overview?{}&split={split}", view.shown);
        if now["total_events"] == 0 {
            let page = self.page(&path).await;
            assert!(page.html.contains("No events "), "{}", self.trace);
            return page;
        }
        let title = [("agent", "Events by agent"), ("role", "Events by reporter"), ("type", "Events")]
            .into_iter()
            .find(|(known, _)| *known == split)
            .unwrap()
            .1;
        let named = |item: &Value| match split {
            "agent" => Some(text(&item["agent_id"])).map(|name| if name.is_empty() { NO_AGENT.to_owned() } else { name }),
            "role" => Some(reporter(&text(&item["source_role"])).to_owned()),
            _ => STEPS.iter().find(|(kind, _)| item["event_type"] == *kind).map(|(_, step)| (*step).to_owned()),
        };
        let opened = Clock::System.now();
        let page = self.chart(view, (&path, "/content-owners/series"), title, named).await;
        self.compared(view, &page, opened, &now["events_by_type"]).await;
        for source in now["events_by_source"].as_array().unwrap() {
            let role = text(&source["source_role"]);
            let shown = format!("<span class=\"badge {role}\">{}</span> <data value=\"{}\">", reporter(&role), source["count"]);
            assert!(page.html.contains(&shown), "{}: {shown}", self.trace);
        }

        let funnel = self.api(&format!("/content-owners/funnel?{}&by=agent&limit=10", view.api())).await;
        let expected: Vec<Vec<String>> = funnel["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let name = match (text(&item["agent_id"]), text(&item["platform_id"])) {
                    (name, _) if !name.is_empty() => name,
                    (_, platform) if platform.is_empty() => UNDECLARED.to_owned(),
                    _ => UNKNOWN.to_owned(),
                };
                let steps = ["retrieved", "grounded", "cited", "presented", "engaged"].map(|step| text(&item[step]));
                [name].into_iter().chain(steps).chain([share(&item["cited"], &item["retrieved"])]).collect()
            })
            .collect();
        assert_eq!(table(&page, "Agents"), expected, "{}", self.trace);
        page
    }

    /// The figures and the sentence of the overview, and how they differ from the period before.
    async fn compared(&self, view: &View, page: &Page, opened: DateTime<Utc>, counts: &Value) {
        // The page compares with a moment between these two.
        let (mut earlier, mut earlier_claims) = (Vec::new(), Vec::new());
        for moment in [opened, Clock::System.now()] {
            let summary = self.api(&format!("/content-owners/summary?{}", view.before(moment))).await;
            earlier.push(summary["events_by_type"].clone());
            earlier_claims.push(self.claims(&view.before(moment)).await);
        }
        let previous = view.previous();
        assert_eq!(page.html.matches(&format!("<span>vs {previous}</span>")).count(), 5, "{}: {previous}", self.trace);
        let note = view.note(opened.date_naive());
        for known in ["Today isn\u{2019}t over yet", "This period isn\u{2019}t over yet"] {
            assert_eq!(page.html.contains(known), note == Some(known), "{}: {known}: {}", self.trace, page.html);
        }
        for (figure, kind) in
            [("retrieved", STEPS[0].0), ("cited", STEPS[2].0), ("presented", STEPS[3].0), ("clicked", STEPS[4].0)]
        {
            let count = of_type(counts, kind);
            assert_eq!(page.figure(figure), count.to_string(), "{}: {figure}", self.trace);
            let tile = page.between(&format!("data-figure=\"{figure}\""), "</svg>").unwrap();
            let changes: Vec<String> = earlier.iter().map(|earlier| change(count, of_type(earlier, kind))).collect();
            assert!(changes.iter().any(|change| tile.contains(change)), "{}: {figure} {changes:?}: {tile}", self.trace);
        }
        let now = self.claims(&view.api()).await;
        let share = if now.1 == 0 { "none".to_owned() } else { format!("{}/{}", now.0, now.1) };
        assert_eq!(page.figure("corroborated"), share, "{}", self.trace);
        let tile = page.between("data-figure=\"corroborated\"", "</svg>").unwrap();
        let changes: Vec<String> = earlier_claims.iter().map(|before| change_of_share(now, *before)).collect();
        assert!(changes.iter().any(|change| tile.contains(change)), "{}: {changes:?}: {tile}", self.trace);
        let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let engagements = of_type(counts, STEPS[4].0);
        let engagements = if engagements == 1 { "one engagement".to_owned() } else { format!("{engagements} engagements") };
        let sentence = format!("It was cited {} and led to {engagements}.", times(of_type(counts, STEPS[2].0)));
        let fetched = format!("Your content was fetched {} ", times(of_type(counts, STEPS[0].0)));
        assert!(
            page.html.contains(&sentence) && page.html.contains(&fetched),
            "{}: {fetched} {sentence}: {}",
            self.trace,
            page.html
        );
        let before = |earlier: &Value| match of_type(earlier, STEPS[0].0) {
            0 => format!(" ({previous}: none). "),
            more => format!(" ({previous}: {more}). "),
        };
        assert!(earlier.iter().any(|earlier| page.html.contains(&before(earlier))), "{}: {}", self.trace, page.html);
    }

    /// Confirmed claims, and all of them.
    async fn claims(&self, period: &str) -> (u64, u64) {
        claims_of(&self.api(&format!("/content-owners/corroboration?{period}&by=day&limit=1000")).await)
    }

    async fn lists(&mut self, view: &View) {
        let summary = self.api(&format!("/content-owners/summary?{}", view.api())).await;
        let page = self.page(&format!("agents?{}", view.shown)).await;
        let expected: Vec<Vec<String>> = summary["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| {
                let name = Some(text(&agent["agent_id"])).filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned());
                let share = share(&agent["event_count"], &summary["total_events"]);
                vec![name, text(&agent["platform_id"]), text(&agent["event_count"]), share, text(&agent["session_count"])]
            })
            .collect();
        assert_eq!(table(&page, "Agents"), expected, "{}: agents", self.trace);

        let urls = self.api(&format!("/content-owners/urls?{}{}&limit=50", view.api(), view.pages)).await;
        let page = self.page(&format!("pages?{}{}", view.shown, view.pages)).await;
        let expected: Vec<Vec<String>> = urls["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|url| {
                let steps = [0, 2, 3, 4].map(|step| of_type(&url["event_types"], STEPS[step].0).to_string());
                let ends = [text(&url["content_url"]), text(&url["total_events"])];
                ends.into_iter().chain(steps).chain([text(&url["unique_sessions"]), text(&url["last_seen"])]).collect()
            })
            .collect();
        assert_eq!(table(&page, "Pages"), expected, "{}: pages", self.trace);
        self.files(view, &page).await;

        let events = self.api(&format!("/content-owners/events?{}&limit=50", view.api())).await;
        let page = self.page(&format!("events?{}", view.shown)).await;
        let shown: Vec<Vec<String>> = table(&page, "Events").into_iter().map(|row| row[..3].to_vec()).collect();
        let expected: Vec<Vec<String>> = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| {
                let kind = text(&event["event_type"]);
                let (_, step) = EVENTS.iter().find(|(known, _)| *known == kind).unwrap();
                let agent = Some(text(&event["agent_id"])).filter(|name| !name.is_empty()).unwrap_or_else(|| UNKNOWN.to_owned());
                vec![text(&event["event_timestamp"]), format!("{step}: all reports"), agent]
            })
            .collect();
        assert_eq!(shown, expected, "{}: events", self.trace);
        let urls: Vec<String> = page.all_between("<td class=\"url\"><details><summary>", "</summary>").map(unescaped).collect();
        assert_eq!(urls, told(&events["items"], &["content_url"]).concat(), "{}: pages of events", self.trace);
        if number(&events["total"]) > 50 {
            assert!(page.html.contains(&format!("{} total", events["total"])), "{}: {}", self.trace, page.html);
        }

        let seen = self.api(&format!("/content-owners/corroboration?{}&limit=50", view.api())).await;
        let page = self.page(&format!("corroboration?{}", view.shown)).await;
        let shown: Vec<[String; 2]> =
            table(&page, "Confirmed claims").into_iter().map(|row| [row[0].clone(), row[8].clone()]).collect();
        let expected = seen["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| [text(&row["day"]), share(&row["seen_by_both"], &row["retrievals"])]);
        assert_eq!(shown, expected.collect::<Vec<_>>(), "{}: corroboration", self.trace);
    }

    /// The file of the pages that are shown has what the API lists; where none are, the page says so and leads back to all.
    async fn files(&mut self, view: &View, page: &Page) {
        let listed = self.api(&format!("/content-owners/urls?{}{}&limit=1000", view.api(), view.pages)).await;
        if listed["total"] == 0 {
            let said = if view.pages.contains("path=") { "No activity on" } else { "No page activity" };
            assert!(page.html.contains(said) && page.html.contains(">Show 90 days</a>"), "{}: {}", self.trace, page.html);
            assert_eq!(page.html.contains(">Show all pages</a>"), view.pages.contains("path="), "{}", self.trace);
            return;
        }
        let call = unescaped(page.between("<pre tabindex=\"0\"><code>", "</code>").unwrap_or_default());
        assert!(view.pages.split('&').all(|said| call.contains(said)), "{}: {call}", self.trace);
        let files: Vec<String> =
            page.all_between("<a href=\"", "\"").map(unescaped).filter(|to| to.contains("/export/pages.")).collect();
        assert_eq!(files.len(), 2, "{}: {}", self.trace, page.html);
        for file in files {
            let told = self.reader.open(&file).await;
            assert_eq!(told.status, 200, "{}: {file}", self.trace);
            let urls: Vec<String> = if file.contains(".csv") {
                csv::Reader::from_reader(told.html.as_bytes()).into_records().map(|line| line.unwrap()[0].to_owned()).collect()
            } else {
                let line = |line: &str| text(&serde_json::from_str::<Value>(line).unwrap()["content_url"]);
                told.html.lines().map(line).collect()
            };
            assert_eq!(urls, told_of(&listed), "{}: {file}", self.trace);
        }
    }

    async fn reported(&mut self, view: &View) {
        let summary = self.api(&format!("/agent/summary?{}", view.api())).await;
        let path = format!("reported?{}", view.shown);
        if summary["total_events"] == 0 {
            assert!(self.page(&path).await.html.contains("No events reported"), "{}", self.trace);
            return;
        }
        let page = self
            .chart(view, (&path, "/agent/series"), "Events by type", |item| Some(of_agents(&text(&item["event_type"]))))
            .await;
        for (figure, told) in [("events", &summary["total_events"]), ("sessions", &summary["total_sessions"])] {
            assert_eq!(page.figure(figure), told.to_string(), "{}: {figure}", self.trace);
        }
        let mut agents = told(&summary["agents"], &["agent_id", "event_count", "session_count"]);
        agents.iter_mut().filter(|agent| agent[0].is_empty()).for_each(|agent| agent[0] = UNKNOWN.to_owned());
        assert_eq!(table(&page, "Your agents"), agents, "{}", self.trace);
        let mut types = told(&summary["events_by_type"], &["event_type", "count"]);
        types.iter_mut().for_each(|counted| counted[0] = of_agents(&counted[0]));
        assert_eq!(table(&page, "Events by type"), types, "{}", self.trace);
    }
}

/// The label of a type on an agent's pages.
fn of_agents(event_type: &str) -> String {
    STEPS.iter().chain([&PURCHASES]).find(|(known, _)| *known == event_type).unwrap().1.to_owned()
}

fn told_of(listed: &Value) -> Vec<String> {
    told(&listed["items"], &["content_url"]).concat()
}

/// Confirmed claims of these days, and all of them.
fn claims_of(days: &Value) -> (u64, u64) {
    let items = days["items"].as_array().unwrap();
    let sum = |member: &str| items.iter().map(|day| number(&day[member])).sum::<u64>();
    (sum("seen_by_both"), sum("seen_by_both") + sum("claimed_by_agent_only"))
}

fn sign(now: u64, before: u64) -> &'static str {
    if now > before { "+" } else { "\u{2212}" }
}

/// A part of a whole in tenths of a percent, rounded half up.
fn tenths(part: u64, whole: u64) -> u64 {
    (2_000 * part + whole) / (2 * whole)
}

/// What a tile says of a count.
fn change(now: u64, before: u64) -> String {
    if now == before {
        return ">no change<".to_owned();
    }
    if before == 0 {
        return ">new<".to_owned();
    }
    let difference = now.abs_diff(before);
    let told = match tenths(difference, before) {
        tenths if before < MIN_BASE || tenths > 10_000 => difference.to_string(),
        tenths @ 0..1_000 => format!("{}.{}&thinsp;%", tenths / 10, tenths % 10),
        9_995.. => "1,000&thinsp;%".to_owned(),
        tenths => format!("{}&thinsp;%", (tenths + 5) / 10),
    };
    format!("title=\"previously {before}\">{}{told}</span>", sign(now, before))
}

/// What a tile says of a share.
fn change_of_share(now: (u64, u64), before: (u64, u64)) -> String {
    match (now.1, before.1) {
        (0, _) => return "nothing to compare".to_owned(),
        (_, 0) => return ">new<".to_owned(),
        (now, before) if now < MIN_BASE || before < MIN_BASE => return "too few to compare".to_owned(),
        _ => {}
    }
    let (now, before) = (tenths(now.0, now.1), tenths(before.0, before.1));
    if now == before {
        return ">no change<".to_owned();
    }
    let points = now.abs_diff(before);
    let unit = if points == 10 { "point" } else { "points" };
    let before_told = format!("previously {}.{}&thinsp;%", before / 10, before % 10);
    format!("{before_told}\">{}{}.{}&nbsp;{unit}</span>", sign(now, before), points / 10, points % 10)
}

/// What the API splits a page's chart by.
fn split_of(path: &str) -> &str {
    path.split_once("split=").map_or("type", |(_, split)| split)
}

#[tokio::test]
async fn u1_every_cell_sentence_and_change_on_a_page_is_made_of_the_apis_figures() {
    let demo = Demo::start().await;
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let now = Clock::System.now();
    report(&demo, &mut random, now).await;
    let granted = demo.client.post(demo.url("/api/v1/identity/delegations")).header("x-api-key", demo.env("OWNER_KEY"));
    assert_eq!(answer(granted.json(&json!({"grantee_org_id": demo.env("NETWORK_ORG_ID")}))).await.status, 201);
    let of = |session: &str, organization: &str, key| Compared {
        demo: &demo,
        reader: Reader::signed_in(&demo, session),
        home: format!("/console/o/{}", demo.env(organization)),
        key,
        trace: String::new(),
    };
    let mut owner = of("OWNER_SESSION", "OWNER_ORG_ID", "OWNER_KEY");
    let mut agent = of("AGENT_SESSION", "AGENT_ORG_ID", "AGENT_KEY");
    let today = Clock::System.now().date_naive();
    let (since, rest, pages) = (today - TimeDelta::days(14), String::new(), String::new());
    let fortnight = View { since, until: today, shown: format!("since={since}&until={today}"), rest, pages };
    owner.trace = format!("seed {seed}, {fortnight:?}");
    let page = owner.overview(&fortnight, "type").await;
    assert!(page.html.contains("&nbsp;points</span>"), "the shares differ: {}", page.html);
    for round in 0..size("TEST_ROUNDS", 3) {
        let today = Clock::System.now().date_naive();
        let view = View::random(&demo, &mut random, today);
        let view = if round % 4 == 1 { view.of_a_year(today) } else { view };
        owner.trace = format!("seed {seed}, round {round}, {view:?}");
        agent.trace.clone_from(&owner.trace);
        owner.overview(&view, ["type", "agent", "role"][round % 3]).await;
        owner.lists(&view).await;
        let shown = view.shown.replace(&view.rest, "");
        agent.reported(&View { shown, rest: String::new(), ..view }).await;
        assert_eq!(Clock::System.now().date_naive(), today, "a day ended meanwhile: run it again");
    }
}
