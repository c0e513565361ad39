//! U1: every number on a page equals the API's, for random events and random filters (`TEST_ROUNDS`).

use super::Reader;
use super::click_token::TokenSession;
use super::reader::Page;
use crate::demo::{Demo, DemoApp};
use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{eventually, random_seed, size};

const TYPES: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
const BOTS: [&str; 4] = ["GPTBot/1.2", "ClaudeBot/1.0", "PerplexityBot/1.0", "Mozilla/5.0"];
const DAYS: i64 = 40;
/// Number of reports from agents, from the edge, and from others with a click token.
const REPORTED: [usize; 3] = [160, 60, 20];

/// A table on a page, and the API list that it shows: the table's columns and the corresponding JSON members.
struct TableSource {
    screen: &'static str,
    table: &'static str,
    api: &'static str,
    list: &'static str,
    columns: &'static [(usize, &'static str)],
    /// The columns by which the API can sort the list.
    sorts: &'static [&'static str],
}

const fn shown(
    [screen, table, api, list]: [&'static str; 4],
    columns: &'static [(usize, &'static str)],
    sorts: &'static [&'static str],
) -> TableSource {
    TableSource { screen, table, api, list, columns, sorts }
}

const STEPS: [&str; 6] = ["fetched", "grounded", "cited", "presented", "engagements", "visits"];
const FUNNEL: &[(usize, &str)] = &[(1, STEPS[0]), (2, STEPS[1]), (3, STEPS[2]), (4, STEPS[3]), (5, STEPS[4]), (6, STEPS[5])];
const URLS: &[(usize, &str)] = &[
    (0, "content_url"),
    (1, "fetched"),
    (2, "failed"),
    (3, "revalidated"),
    (4, "cited"),
    (5, "presented"),
    (6, "engagements"),
    (7, "visits"),
    (8, "unique_sessions"),
    (9, "last_seen"),
];
const PARTS: [&str; 5] = ["retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only", "seen_by_neither"];
const CLAIMS: &[(usize, &str)] = &[(0, "day"), (2, PARTS[0]), (4, PARTS[1]), (5, PARTS[2]), (6, PARTS[3]), (7, PARTS[4])];
const OPERATOR: &[(usize, &str)] =
    &[(0, "operator"), (1, "retrievals"), (2, "claimed"), (3, "confirmed"), (4, "cited"), (5, "clicks")];
const OF_OWNER: [TableSource; 8] = [
    shown(["overview", "Agents", "/content-owners/funnel?by=agent&limit=10&", "/items"], FUNNEL, &STEPS),
    shown(
        ["pages", "Pages", "/content-owners/urls?limit=50&", "/items"],
        URLS,
        &["fetched", "failed", "visits", "unique_sessions", "content_url"],
    ),
    shown(
        ["pages?by=page,agent&", "Pages", "/content-owners/urls?by=page,agent&limit=50&", "/items"],
        &[(2, "fetched"), (3, "failed"), (5, "cited"), (10, "last_seen")],
        &["fetched", "last_seen"],
    ),
    shown(["corroboration", "Confirmed claims", "/content-owners/corroboration?limit=50&", "/items"], CLAIMS, &PARTS),
    shown(["funnel?by=url&", "Funnel", "/content-owners/funnel?by=url&limit=50&", "/items"], FUNNEL, &STEPS),
    shown(["funnel?by=day&", "Funnel", "/content-owners/funnel?by=day&limit=50&", "/items"], FUNNEL, &STEPS),
    shown(["assistants", "Operators", "/content-owners/crawlers?limit=1000&", "/operators"], OPERATOR, &[]),
    shown(["events", "Events", "/content-owners/events?limit=50&", "/items"], &[(0, "event_timestamp")], &[]),
];
const OF_AGENT: [TableSource; 3] = [
    shown(["reported", "Your agents", "/agent/summary?", "/agents"], &[(1, "event_count"), (2, "session_count")], &[]),
    shown(["reports", "Events", "/agent/events?limit=50&", "/items"], &[(0, "event_timestamp")], &[]),
    shown(
        ["clicks", "Click token events", "/agent/events?limit=50&reported_by=other&", "/items"],
        &[(0, "event_timestamp")],
        &[],
    ),
];

async fn report(demo: &DemoApp, random: &mut StdRng, now: DateTime<Utc>) {
    let at = |random: &mut StdRng| (now - TimeDelta::minutes(random.random_range(0..DAYS * 24 * 60))).to_rfc3339();
    let mut of_agents = Vec::new();
    for number in 0..REPORTED[0] {
        let host = ["www.example.com", "example.com"][random.random_range(0..2)];
        let session = format!("00000000-0000-4000-8000-{:012x}", random.random_range(0..9));
        of_agents.push(json!({"type": TYPES.choose(random).unwrap(), "timestamp": at(random), "source_role": "agent", "session_id": session,
            "content_url": format!("https://{host}/blog/{}", random.random_range(0..7)), "content_telemetry_id": format!("claim-{number}")}));
    }
    let mut seen = Vec::new();
    for (number, claim) in of_agents.iter().take(REPORTED[1]).enumerate() {
        // An agent also claims a third of them.
        let agent = random.random_range(0..BOTS.len());
        let status = [200, 206, 304, 404][random.random_range(0..4)];
        let is_claimed = number.is_multiple_of(3) && claim["type"] == TYPES[0];
        let (at, url) = if is_claimed {
            (claim["timestamp"].clone(), claim["content_url"].clone())
        } else {
            (json!(at(random)), json!(format!("https://www.example.com/seen/{number}")))
        };
        let id = if is_claimed { claim["content_telemetry_id"].clone() } else { json!(format!("seen-{number}")) };
        seen.push(
            json!({"type": TYPES[0], "timestamp": at, "source_role": "edge", "content_url": url, "content_telemetry_id": id,
            "data": {"user_agent": BOTS[agent], "response_status": status, "response_bytes": random.random_range(0..99_999)}}),
        );
    }
    let link = TokenSession::create(demo, Some("answer-engine")).await;
    let clicks: Vec<Value> = (0..REPORTED[2])
        .map(|_| link.click(now - TimeDelta::minutes(random.random_range(0..12 * 24 * 60)), "https://www.example.com/link"))
        .collect();
    for (key, events) in [("AGENT_KEY", of_agents), ("OWNER_KEY", seen), ("NETWORK_KEY", clicks)] {
        let sent = demo.report(demo.env(key), &json!({"events": events})).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    eventually("all reports are counted", || async {
        let own = demo.get(demo.env("AGENT_KEY"), "/agent/summary").await.body;
        let by = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body["events_by_source"].clone();
        let is_whole = |role: &str, count: usize| {
            by.as_array()
                .is_some_and(|by| by.iter().any(|one| one["source_role"] == role && one["count"].as_u64() >= Some(count as u64)))
        };
        (own["clicks"]["total_events"] == REPORTED[2] && is_whole("agent", REPORTED[0]) && by[0]["count"].as_u64()? > 0)
            .then_some(())
    })
    .await;
}

/// Returns a random filter with a window, a domain and a partner.
fn view(demo: &DemoApp, random: &mut StdRng, now: DateTime<Utc>) -> String {
    let since = now.date_naive() - TimeDelta::days(random.random_range(0..DAYS));
    let until = since + TimeDelta::days([0, 1, 9, 50, 120, 365][random.random_range(0..6)]);
    let domain = ["", "", "&domain=example.com", "&domain=www.example.com"][random.random_range(0..4)];
    let seen_by = if random.random_range(0..4) == 0 { format!("&seen_by={}", demo.env("NETWORK_ORG_ID")) } else { String::new() };
    format!("since={since}&until={until}{domain}{seen_by}")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks that a table shows the items that the API returns.
async fn assert_table(demo: &DemoApp, (page, key): (&Page, &str), shown: &TableSource, asked: &str, trace: &str) {
    let path = format!("{}{asked}", shown.api);
    let told = demo.get(demo.env(key), &path).await;
    assert_eq!(told.status, 200, "{trace}: {path}: {}", told.body);
    let items =
        told.body.pointer(shown.list).and_then(Value::as_array).unwrap_or_else(|| panic!("{trace}: {path}: {}", told.body));
    let expected: Vec<Vec<String>> =
        items.iter().map(|item| shown.columns.iter().map(|(_, member)| text(&item[*member])).collect()).collect();
    let table = page.tables().into_iter().find(|table| table.name == shown.table);
    let rows = table.map(|table| table.rows).unwrap_or_default();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| shown.columns.iter().map(|(column, _)| row[*column].clone()).collect()).collect();
    assert_eq!(rows, expected, "{trace}: {} of {}", shown.table, page.address);
}

/// Checks the numbers above the tables.
async fn assert_figures(demo: &DemoApp, page: &Page, asked: &str, trace: &str) {
    let summary = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/summary?{asked}")).await.body;
    if summary["total_events"] == 0 {
        assert!(page.html.contains("No events "), "{trace}: {}", page.html);
        return;
    }
    let counted = |kind: &str| {
        summary["events_by_type"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["event_type"] == kind)
            .map_or(0, |one| one["count"].as_u64().unwrap())
    };
    let crawlers = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/crawlers?limit=1&{asked}")).await.body;
    let operators = crawlers["operators"].as_array().unwrap().iter().chain([&crawlers["unattributed"]]);
    let visits: u64 = operators.map(|operator| operator["clicks"].as_u64().unwrap()).sum();
    let fetches = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/summary?outcome=fetch&{asked}")).await.body;
    let fetches = fetches["total_events"].as_u64().unwrap();
    for (figure, count) in [
        ("retrieved", fetches),
        ("cited", counted(TYPES[2])),
        ("presented", counted(TYPES[3])),
        ("engaged", counted(TYPES[4]) - visits),
        ("visited", visits),
    ] {
        assert_eq!(page.figure(figure), count.to_string(), "{trace}: {figure}");
    }
    let days = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/corroboration?by=day&limit=1000&{asked}")).await.body;
    let sum = |part: &str| days["items"].as_array().unwrap().iter().map(|day| day[part].as_u64().unwrap()).sum::<u64>();
    let (both, claimed) = (sum(PARTS[1]), sum(PARTS[1]) + sum(PARTS[2]));
    let share = if claimed == 0 { "none".to_owned() } else { format!("{both}/{claimed}") };
    assert_eq!(page.figure("corroborated"), share, "{trace}");
    let series = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/series?by=day&split=type&{asked}")).await.body;
    let sum = |kind: &str| {
        let of_type = series["items"].as_array().unwrap().iter().filter(|item| item["event_type"] == kind);
        of_type.map(|item| item["total_events"].as_u64().unwrap()).sum::<u64>()
    };
    for (label, sum) in [("Fetches", fetches), ("Citations", sum(TYPES[2])), ("Presentations", sum(TYPES[3]))] {
        let legend = format!("</svg>{label} <strong><data value=\"{sum}\">");
        assert!(page.html.contains(&legend), "{trace}: {legend} in {}", page.html);
    }
}

#[tokio::test]
async fn u1_pages_show_the_numbers_from_the_api() {
    let demo = Demo::start().await;
    let seed = random_seed();
    let (mut random, now) = (StdRng::seed_from_u64(seed), Clock::System.now());
    report(&demo, &mut random, now).await;
    let grant = json!({"grantee_org_id": demo.env("NETWORK_ORG_ID")});
    assert_eq!(demo.post(demo.env("OWNER_KEY"), "/api/v1/identity/delegations", &grant).await.status, 201);
    let (mut owner, mut agent) = (Reader::signed_in(&demo, "OWNER_SESSION"), Reader::signed_in(&demo, "AGENT_SESSION"));
    for round in 0..size("TEST_ROUNDS", 3) {
        let view = view(&demo, &mut random, now);
        let window = view.split("&domain").next().unwrap().split("&seen_by").next().unwrap().to_owned();
        let trace = format!("seed {seed}, round {round}, {view}");
        for (tables, asked, reader, key, home) in [
            (&OF_OWNER[..], &view, &mut owner, "OWNER_KEY", demo.env("OWNER_ORG_ID")),
            (&OF_AGENT, &window, &mut agent, "AGENT_KEY", demo.env("AGENT_ORG_ID")),
        ] {
            for shown in tables {
                let sort = shown.sorts.choose(&mut random).map(|sort| format!("&sort={}{sort}", ["", "-"][round % 2]));
                let asked = format!("{asked}{}", sort.unwrap_or_default());
                let sign = if shown.screen.contains('?') { "" } else { "?" };
                let page = reader.open(&format!("/console/o/{home}/{}{sign}{asked}", shown.screen)).await;
                assert_eq!(page.status, 200, "{trace}: {}", page.html);
                assert_table(&demo, (&page, key), shown, &asked, &trace).await;
                if shown.screen == "overview" {
                    assert_figures(&demo, &page, &view, &trace).await;
                }
            }
        }
    }
}
