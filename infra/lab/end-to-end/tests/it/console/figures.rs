//! U1: every figure on a page is the API's for the same question, for random events and random periods.

use super::Reader;
use super::reader::{Page, unescaped};
use crate::demo::Demo;
use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{random_seed, size};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const TYPES: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
const EVENTS: usize = 120;
/// What the chart of steps names the types.
const LABELS: [&str; 5] = ["Fetches", "Groundings", "Citations", "Presentations", "Engagements"];
/// A sixth type, of which there is more than of any step.
const NO_STEP: &str = "checkout_completed";
const STEPS: [&str; 5] = ["retrieved", "grounded", "cited", "presented", "engaged"];
const PARTS: [&str; 5] = ["retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only", "seen_by_neither"];

fn events(random: &mut StdRng, now: DateTime<Utc>) -> Vec<Value> {
    let event = |_| {
        let at = now - TimeDelta::minutes(random.random_range(0..40 * 24 * 60));
        json!({
            "type": TYPES.get(random.random_range(0..2 * TYPES.len())).unwrap_or(&NO_STEP), "timestamp": at.to_rfc3339(), "source_role": "agent",
            "session_id": format!("00000000-0000-4000-8000-{:012x}", random.random_range(0..9)),
            "content_url": format!("https://www.example.com/{}", random.random_range(0..7)),
        })
    };
    (0..EVENTS).map(event).collect()
}

/// The rows of a page's first table: the texts of its cells, of a figure its exact value.
fn rows(page: &Page) -> Vec<Vec<String>> {
    let body = page.between("<tbody>", "</table>").unwrap_or_default();
    let cell = |cell: &str| {
        let inside = cell.split_once('>').map_or("", |(_, inside)| inside);
        let inside = inside.split("</t").next().unwrap_or_default();
        let exact = inside.split_once("value=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(value, _)| value.to_owned());
        exact.unwrap_or_else(|| unescaped(inside.split('<').next().unwrap_or_default()))
    };
    let cells = |row: &str| row.replace("<th", "<td").split("<td").skip(1).map(cell).collect();
    body.split("<tr").skip(1).map(cells).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// These columns of a page's table.
fn shown(page: &Page, columns: &[usize]) -> Vec<Vec<String>> {
    rows(page).iter().map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

/// These members of an answer's items.
fn told(answer: &Value, names: &[&str]) -> Vec<Vec<String>> {
    let items = answer["items"].as_array().unwrap().iter();
    items.map(|item| names.iter().map(|name| text(&item[*name])).collect()).collect()
}

/// The end of an address that sorts by one of these, in either order, or the usual one.
fn order(random: &mut StdRng, columns: &[&str]) -> String {
    let column = columns[random.random_range(0..columns.len())];
    match random.random_range(0..3) {
        0 => String::new(),
        1 => format!("&sort={column}"),
        _ => format!("&sort=-{column}"),
    }
}

#[tokio::test]
async fn u1_every_figure_on_a_page_is_the_apis() {
    let demo = Demo::start().await;
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let now = Clock::System.now();
    for part in events(&mut random, now).chunks(40) {
        let sent = demo.post(demo.env("AGENT_KEY"), &json!({"events": part})).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    demo.counts(EVENTS as u64).await;
    let mut reader = Reader::signed_in(&demo, "OWNER_SESSION");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    for _ in 0..size("TEST_ROUNDS", 2) {
        let since = now.date_naive() - TimeDelta::days(random.random_range(0..45));
        let until = since + TimeDelta::days(random.random_range(0..45));
        let window = format!("since={since}&until={until}");
        let api = async |path: &str| {
            let answer = demo.get(demo.env("OWNER_KEY"), path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            answer.body
        };
        let context = format!("seed {seed}, {window}");

        let summary = api(&format!("/content-owners/summary?{window}")).await;
        let overview = reader.open(&format!("{home}/overview?{window}")).await;
        assert_eq!(overview.status, 200, "{context}: {}", overview.html);
        if summary["total_events"] == 0 {
            assert!(overview.html.contains("No events "), "{context}");
            continue;
        }
        for (figure, event_type) in [("retrieved", TYPES[0]), ("cited", TYPES[2]), ("presented", TYPES[3]), ("clicked", TYPES[4])]
        {
            let counted =
                summary["events_by_type"].as_array().unwrap().iter().find(|counted| counted["event_type"] == event_type);
            let counted = counted.map_or_else(|| "0".to_owned(), |counted| text(&counted["count"]));
            assert_eq!(overview.figure(figure), counted, "{context}: {figure}");
        }
        let series = api(&format!("/content-owners/series?{window}&by=day&split=type")).await;
        let items = series["items"].as_array().unwrap();
        for (label, event_type) in LABELS.into_iter().zip(TYPES) {
            let of_type = items.iter().filter(|item| item["event_type"] == event_type);
            let sum: u64 = of_type.map(|item| item["total_events"].as_u64().unwrap()).sum();
            let legend = format!("</span>{label} <strong><data value=\"{sum}\">");
            assert!(overview.html.contains(&legend), "{context}: {legend} in {}", overview.html);
        }

        for pages in ["", "&path=/3", "&path=/*", "&path=/nothing/*"] {
            let sort = order(&mut random, &["total_events", "unique_sessions", "content_url", "content_retrieved"]);
            let pages = format!("{pages}{sort}");
            let urls = api(&format!("/content-owners/urls?{window}{pages}&limit=50")).await;
            let page = reader.open(&format!("{home}/pages?{window}{pages}")).await;
            let expected = told(&urls, &["content_url", "total_events", "unique_sessions"]);
            assert_eq!(shown(&page, &[0, 1, 6]), expected, "{context}{pages}");
        }

        for by in ["url", "day", "agent"] {
            let sort = order(&mut random, &STEPS);
            let funnel = api(&format!("/content-owners/funnel?{window}&by={by}{sort}&limit=50")).await;
            let page = reader.open(&format!("{home}/funnel?{window}&by={by}{sort}")).await;
            assert_eq!(shown(&page, &[1, 2, 3, 4, 5]), told(&funnel, &STEPS), "{context}: funnel by {by}");
        }

        let sort = order(&mut random, &PARTS);
        let seen = api(&format!("/content-owners/corroboration?{window}{sort}&limit=50")).await;
        let page = reader.open(&format!("{home}/corroboration?{window}{sort}")).await;
        assert_eq!(shown(&page, &[2, 4, 5, 6, 7]), told(&seen, &PARTS), "{context}: corroboration");
        let all = api(&format!("/content-owners/corroboration?{window}&limit=1000")).await;
        let sum = |part: &str| all["items"].as_array().unwrap().iter().map(|item| item[part].as_u64().unwrap()).sum::<u64>();
        let (both, claimed) = (sum("seen_by_both"), sum("claimed_by_agent_only"));
        if claimed + both > 0 {
            let share = format!("value=\"{both}/{}\"", both + claimed);
            assert!(page.html.contains(&share), "{context}: {share} in {}", page.html);
            assert!(overview.html.contains(&share), "{context}: {share} in {}", overview.html);
        }

        let events = api(&format!("/content-owners/events?{window}&limit=1")).await;
        let file = reader.open(&format!("{home}/export/events.csv?{window}")).await;
        let lines = csv::Reader::from_reader(file.html.as_bytes()).into_records().count();
        assert_eq!(lines.to_string(), text(&events["total"]), "{context}: the file has every event");
    }
}

/// What an answer tells of operators, as the page's columns have it: the operator's counts, and the bytes of its bots; and all together.
fn operators(answer: &Value) -> Vec<Vec<String>> {
    let names = ["retrievals", "claimed", "cited", "presented", "clicks"];
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let bytes = |operator: Option<&str>| {
        let bots = answer["items"].as_array().unwrap().iter();
        bots.filter(|bot| operator.is_none_or(|operator| bot["operator"] == operator))
            .map(|bot| number(bot, "bytes"))
            .sum::<u64>()
    };
    let told = answer["operators"].as_array().unwrap();
    let row = |name: &str, sums: [u64; 5], bytes: u64| -> Vec<String> {
        [name.to_owned()].into_iter().chain(sums.map(|sum| sum.to_string())).chain([bytes.to_string()]).collect()
    };
    let of_operator = |of: &Value| {
        let name = of["operator"].as_str().unwrap();
        row(name, names.map(|count| number(of, count)), bytes(Some(name)))
    };
    let all = names.map(|name| told.iter().chain([&answer["unattributed"]]).map(|of| number(of, name)).sum());
    told.iter().map(of_operator).chain([row("All", all, bytes(None))]).collect()
}

/// The sentence of the bot that fetched the most.
fn most(answer: &Value) -> String {
    let mut bots = BTreeMap::<[&str; 2], u64>::new();
    for item in answer["items"].as_array().unwrap() {
        let bot = ["operator", "bot"].map(|name| item[name].as_str().unwrap());
        *bots.entry(bot).or_default() += item["retrievals"].as_u64().unwrap();
    }
    let ([operator, bot], most) = bots.into_iter().min_by_key(|(_, retrievals)| Reverse(*retrievals)).unwrap();
    format!("<strong>{bot}</strong> ({operator}) made the most fetches: <span data-figure=\"most\"><data value=\"{most}\">")
}

/// Retrievals as a server saw them, of several bots, sizes and answers.
fn fetches(random: &mut StdRng, now: DateTime<Utc>) -> Vec<Value> {
    let event = |number: usize| {
        let at = now - TimeDelta::minutes(random.random_range(0..3 * 24 * 60));
        let bot = ["GPTBot/1.2", "ClaudeBot/1.0", "PerplexityBot/1.0", "ChatGPT-User/1.0"][random.random_range(0..4)];
        let status = [200, 206][random.random_range(0..2)];
        json!({
            "type": "content_retrieved", "timestamp": at.to_rfc3339(), "source_role": "edge",
            "content_url": format!("https://www.example.com/{number}"),
            "data": {"user_agent": bot, "response_status": status, "response_bytes": random.random_range(0..99_999)},
        })
    };
    (0..30).map(event).collect()
}

/// What agents say of the same days: of an operator that fetched, of one that nobody saw, and of none.
fn claims(random: &mut StdRng, now: DateTime<Utc>) -> [Value; 3] {
    let mut session = 0;
    ["ClaudeBot", "Bytespider", "answer-engine"].map(|agent| {
        session += 1;
        let event = |number: usize| {
            let at = now - TimeDelta::minutes(random.random_range(0..3 * 24 * 60));
            // One citation lies in the window, whatever the seed.
            let (at, event_type) = match number {
                0 => (now - TimeDelta::days(2), TYPES[2]),
                _ => (at, TYPES[[0, 2, 2, 3][random.random_range(0..4)]]),
            };
            json!({"type": event_type, "timestamp": at.to_rfc3339(), "content_url": format!("https://www.example.com/{number}")})
        };
        json!({"session_id": format!("00000000-0000-4000-8000-{session:012x}"), "agent_id": agent, "events": (0..12).map(event).collect::<Vec<_>>()})
    })
}

/// The first table is what the API tells of operators and of other agents, and one of them nobody saw.
fn assert_operators(page: &Page, told_of: &Value, seed: u64) {
    let shown = shown(page, &[0, 1, 2, 3, 4, 5, 8]);
    let told = told_of["operators"].as_array().unwrap();
    assert_eq!(shown.len(), told.len() + 2, "seed {seed}: {}", page.html);
    for operator in operators(told_of) {
        assert!(shown.contains(&operator), "seed {seed}: {operator:?} in {}", page.html);
    }
    let others = shown.iter().find(|row| row[0] == "Other agents").unwrap();
    let unattributed = ["claimed", "cited", "presented", "clicks"].map(|name| text(&told_of["unattributed"][name]));
    assert_eq!(others[2..6], unattributed, "seed {seed}: {}", page.html);
    assert!(told.iter().any(|of| of["retrievals"] == 0 && of["cited"] != 0), "seed {seed}: {told_of}");
}

#[tokio::test]
async fn u1_every_figure_of_a_crawler_is_the_apis_and_hours_that_nobody_told_of_are_no_zeroes() {
    let demo = Demo::start().await;
    let seed = random_seed();
    let now = Clock::System.now();
    let mut random = StdRng::seed_from_u64(seed);
    let (events, claims) = (fetches(&mut random, now), claims(&mut random, now));
    for (key, told) in
        [("OWNER_KEY", &json!({"events": events}))].into_iter().chain(claims.iter().map(|told| ("AGENT_KEY", told)))
    {
        let sent = demo.post(demo.env(key), told).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    demo.counts(events.len() as u64 + 36).await;
    let mut reader = Reader::signed_in(&demo, "OWNER_SESSION");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let window = format!("since={}&until={}", now.date_naive() - TimeDelta::days(4), now.date_naive() - TimeDelta::days(1));

    let told_of = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/crawlers?{window}")).await.body;
    let mut page = reader.open(&format!("{home}/crawlers?{window}")).await;
    let most = most(&told_of);
    assert!(page.html.contains(&most), "seed {seed}: {most} in {}", page.html);
    page.html = page.html.split_off(page.html.find("<h2>Operators").unwrap());
    assert_operators(&page, &told_of, seed);
    page.html = page.html.split_off(page.html.find("<h2>Bots").unwrap());
    let names = ["bot", "operator", "retrievals", "bytes"];
    assert_eq!(shown(&page, &[0, 1, 4, 5]), told(&told_of, &names), "seed {seed}: {}", page.html);
    for item in told_of["items"].as_array().unwrap() {
        let share = format!("value=\"{}/{}\"", item["corroborated"], item["retrievals"]);
        assert!(page.html.contains(&share), "seed {seed}: {share}");
    }
    for split in ["operator", "status"] {
        let series = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/series?{window}&by=day&split={split}")).await.body;
        let mut sums = BTreeMap::<String, u64>::new();
        for item in series["items"].as_array().unwrap() {
            *sums.entry(text(&item[split])).or_default() += item["total_events"].as_u64().unwrap();
        }
        let page = reader.open(&format!("{home}/crawlers?{window}&split={split}")).await;
        // What no server says anything of is no crawler's.
        for (name, sum) in sums.into_iter().filter(|(name, _)| !["", "0"].contains(&name.as_str())) {
            let legend = format!("</span>{name} <strong><data value=\"{sum}\">");
            assert!(page.html.contains(&legend), "seed {seed}: {legend} in {}", page.html);
        }
    }
    for (heading, sort) in [("Bytes", "bytes"), ("Bytes", "-bytes"), ("Bot", "bot")] {
        let mut page = reader.open(&format!("{home}/crawlers?{window}&sort={sort}")).await;
        page.html = page.html.split_off(page.html.find("<h2>Bots").unwrap());
        let order = if sort.starts_with('-') { "descending" } else { "ascending" };
        let is_marked =
            |head: &&str| head.contains(&format!("aria-sort=\"{order}\"")) && head.contains(&format!(">{heading}</a>"));
        assert_eq!(page.html.split("<th ").filter(is_marked).count(), 1, "seed {seed}, {sort}: {}", page.html);
        let mut expected = told(&told_of, &["bot", "operator", "retrievals", "bytes"]);
        expected.sort_by_key(|row| {
            if sort == "bot" { (0, row[0].to_lowercase()) } else { (row[3].parse::<u64>().unwrap(), String::new()) }
        });
        let mut shown = shown(&page, &[0, 1, 4, 5]);
        if order == "descending" {
            shown.reverse();
        }
        let keys =
            |rows: &[Vec<String>]| rows.iter().map(|row| row[if sort == "bot" { 0 } else { 3 }].clone()).collect::<Vec<_>>();
        assert_eq!(keys(&shown), keys(&expected), "seed {seed}, {sort}");
    }
    let file = reader.open(&format!("{home}/export/crawlers.csv?{window}")).await;
    let lines = csv::Reader::from_reader(file.html.as_bytes()).into_records().count();
    assert_eq!(lines.to_string(), text(&told_of["total"]), "seed {seed}");

    let (covered, uncovered) = (&told_of["coverage"]["hours_covered"], &told_of["coverage"]["hours_uncovered"]);
    for screen in ["crawlers", "overview"] {
        let page = reader.open(&format!("{home}/{screen}?{window}")).await;
        for part in [format!("Server logs cover {covered} of "), format!("{uncovered} hours have no data")] {
            assert!(page.html.contains(&part), "seed {seed}, {screen}: {part}");
        }
        assert!(page.html.contains("class=\"uncovered\""), "seed {seed}, {screen}");
    }
}
