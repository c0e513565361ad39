//! What came of click tokens: what the console shows is what the API counts, and nothing of who reported it.

use super::Reader;
use super::reader::{Page, unescaped};
use crate::demo::{Demo, answer};
use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{eventually, random_seed, size};

const CLICKS: usize = 90;
/// Identifiers that the page shows as labels.
const LABELS: [(&str, &str, &str); 4] = [
    ("content_engaged", "Engagement", "Engagements"),
    ("checkout_completed", "Purchase", "Purchases"),
    ("conversion", "", "Conversion"),
    ("browse", "", "Browsing"),
];
const CURRENCIES: [&str; 2] = ["EUR", "JPY"];

/// A link of the demo's agent: a session, and a click token for it.
pub(super) struct Link {
    pub(super) session: String,
    token: String,
}

async fn tell(demo: &Demo, path: &str, body: Value) -> Value {
    let request = demo.client.post(demo.url(path)).header("x-api-key", demo.env("AGENT_KEY")).json(&body);
    let answer = answer(request).await;
    assert!(matches!(answer.status, 200 | 201), "{path}: {}", answer.body);
    answer.body
}

impl Link {
    pub(super) async fn make(demo: &Demo, agent_id: Option<&str>) -> Self {
        let started = tell(demo, "/sessions/start", json!({"agent_id": agent_id})).await;
        let session = started["session_id"].as_str().unwrap().to_owned();
        let minted = json!({"session_id": session, "content_url": "https://www.example.com/link"});
        let token = tell(demo, "/click-tokens", minted).await["token"].as_str().unwrap().to_owned();
        Self { session, token }
    }

    pub(super) async fn end(&self, demo: &Demo, outcome: Value) {
        tell(demo, "/sessions/end", json!({"session_id": self.session, "outcome": outcome})).await;
    }

    /// A click, as somebody reports it who has the token.
    pub(super) fn click(&self, at: DateTime<Utc>, url: &str) -> Value {
        json!({"type": "content_engaged", "id": uuid::Uuid::new_v4(), "timestamp": at.to_rfc3339(), "content_url": url, "ctx_token": self.token,
            "data": {"engagement_type": "link_click", "order": "order-of-the-network"}})
    }

    /// What was paid after a click.
    fn checkout(&self, at: DateTime<Utc>, amount: u64, currency: &str) -> Value {
        json!({"type": "checkout_completed", "id": uuid::Uuid::new_v4(), "timestamp": at.to_rfc3339(), "ctx_token": self.token,
            "source_role": "index", "data": {"value_amount": amount, "currency": currency}})
    }
}

/// Clicks of the last days, half of them on pages and half of them paid, and as many events of the agent's own.
async fn report(demo: &Demo, random: &mut StdRng, now: DateTime<Utc>) {
    let mut links = Vec::new();
    for number in 0..5 {
        let link = Link::make(demo, [Some("answer-engine"), None][number % 2]).await;
        let kind = ["conversion", "browse"][random.random_range(0..2)];
        let currency = CURRENCIES[random.random_range(0..2)];
        link.end(demo, json!({"type": kind, "value_amount": random.random_range(0..9_999), "currency": currency})).await;
        links.push(link);
    }
    let (mut clicks, mut own) = (Vec::new(), Vec::new());
    for number in 0..CLICKS {
        let (link, at) = (&links[random.random_range(0..5)], now - TimeDelta::minutes(random.random_range(0..12 * 24 * 60)));
        let page = format!("https://www.example.com/<{}>", random.random_range(0..7));
        own.push(json!({"type": "content_cited", "timestamp": at.to_rfc3339(), "session_id": link.session, "content_url": page}));
        clicks.push(match number % 2 {
            0 => link.click(at, &page),
            _ => link.checkout(at, random.random_range(0..9_999), CURRENCIES[random.random_range(0..2)]),
        });
    }
    for (key, events) in [("NETWORK_KEY", clicks), ("AGENT_KEY", own)] {
        let sent = demo.post(demo.env(key), &json!({"events": events})).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    eventually("clicks and own events are counted", || async {
        let told = demo.get(demo.env("AGENT_KEY"), "/agent/events?limit=1").await.body;
        (told["total"] == 2 * CLICKS).then_some(())
    })
    .await;
}

/// Of each row of the list: time, type, page, what was paid, agent, session, role.
fn rows(page: &Page) -> Vec<[String; 7]> {
    let body = page.between("aria-label=\"Click token events\"><table>", "</table>").unwrap_or_default();
    let row = |row: &str| {
        let within = |before: &str, after: &str| {
            let found = row.split_once(before).and_then(|(_, rest)| rest.split_once(after));
            unescaped(found.map_or("", |(text, _)| text)).trim().to_owned()
        };
        let agent = match within("</td><td>", "</td>") {
            none if none.contains("Unknown") => String::new(),
            named => named,
        };
        [
            within("<time datetime=\"", "\""),
            within("<th scope=\"row\">", "<"),
            within("<summary>", "</summary>"),
            within("<td class=\"number\">", "</td>"),
            agent,
            within("/sessions/", "\""),
            within("<span class=\"badge ", "\""),
        ]
    };
    body.split("<tr>").skip(2).map(row).collect()
}

/// The same of the API's items.
fn told(items: &[Value]) -> Vec<[String; 7]> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let item = |item: &Value| {
        let data = &item["event_data"];
        let is_paid = item["event_type"] == "checkout_completed";
        let paid = if is_paid { format!("{} {}", data["value_amount"], text(&data["currency"])) } else { String::new() };
        let [at, event_type, page] = ["event_timestamp", "event_type", "content_url"].map(|name| text(&item[name]));
        let event_type = LABELS.iter().find(|(name, ..)| *name == event_type).unwrap().1.to_owned();
        let [agent, session, role] = ["agent_id", "session_id", "source_role"].map(|name| text(&item[name]));
        [at, event_type, page, paid, agent, session, role]
    };
    items.iter().map(item).collect()
}

/// Every page of the list, by the button that leads on.
async fn walked(reader: &mut Reader, address: &str) -> (Page, Vec<[String; 7]>) {
    let first = reader.open(address).await;
    assert_eq!(first.status, 200, "{address}: {}", first.html);
    let next = |page: &Page| page.between("rel=\"next\" href=\"", "\"").map(unescaped);
    let (mut all, mut following) = (rows(&first), next(&first));
    while let Some(address) = following {
        let page = reader.open(&address).await;
        all.extend(rows(&page));
        following = next(&page);
    }
    (first, all)
}

#[tokio::test]
async fn u1_every_click_and_figure_on_the_page_is_the_apis_and_nobody_is_named_who_reported_it() {
    let demo = Demo::start().await;
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let now = Clock::System.now();
    report(&demo, &mut random, now).await;
    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    let own = format!("/console/o/{}", demo.env("AGENT_ORG_ID"));
    let today = now.date_naive();
    let mut windows = vec![(today - TimeDelta::days(30), today + TimeDelta::days(1))];
    windows.extend((0..size("TEST_ROUNDS", 2)).map(|_| {
        let since = today - TimeDelta::days(random.random_range(0..14));
        (since, since + TimeDelta::days(random.random_range(0..9)))
    }));
    for (since, until) in windows {
        let window = format!("since={since}&until={until}");
        let trace = format!("seed {seed} {window}");
        let summary = demo.get(demo.env("AGENT_KEY"), &format!("/agent/summary?{window}")).await.body;
        let listed = demo.get(demo.env("AGENT_KEY"), &format!("/agent/events?{window}&limit=1000")).await.body;
        let mut items = listed["items"].as_array().unwrap().clone();
        items.retain(|item| item["reported_by"] == "other");
        let (page, shown) = walked(&mut agent, &format!("{own}/clicks?{window}")).await;
        assert_eq!(shown, told(&items), "{trace}");
        assert_eq!(summary["clicks"]["total_events"], items.len(), "{trace}");
        if items.is_empty() {
            assert!(page.html.contains("No click token events "), "{trace}: {}", page.html);
            continue;
        }
        figures(&page, &summary, &trace);
        let file = agent.open(&format!("{own}/export/clicks.csv?{window}")).await;
        let mut records = csv::Reader::from_reader(file.html.as_bytes());
        let place = records.headers().unwrap().iter().position(|name| name == "event_id").unwrap();
        let ids: Vec<String> = records.records().map(|record| record.unwrap()[place].to_owned()).collect();
        let expected: Vec<&str> = items.iter().map(|item| item["event_id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{trace}: the file has every click");
        let link = page.all_between("<a href=\"", "\"").map(unescaped).find(|to| to.contains("/export/clicks.csv"));
        assert_eq!(agent.open(&link.unwrap()).await.html, file.html, "{trace}");
        for hidden in [demo.env("NETWORK_ORG_ID"), "Demo Network", "order-of-the-network"] {
            assert!(!page.html.contains(hidden) && !file.html.contains(hidden), "{hidden}: {trace}");
        }
        assert!(page.html.contains("reported_by=other"), "{trace}: the call behind it");
    }
}

/// The figures above the list.
fn figures(page: &Page, summary: &Value, trace: &str) {
    for (figure, told) in [
        ("clicks", &summary["clicks"]["total_events"]),
        ("sessions", &summary["clicks"]["total_sessions"]),
        ("outcomes", &summary["outcomes"]["total"]),
    ] {
        assert_eq!(page.figure(figure), told.to_string(), "{figure}: {trace}");
    }
    let parts = [(&summary["clicks"]["events_by_type"], "event_type"), (&summary["outcomes"]["by_type"], "outcome_type")];
    for (part, name) in parts.into_iter().flat_map(|(parts, name)| parts.as_array().unwrap().iter().map(move |part| (part, name)))
    {
        let row = format!(
            "<th scope=\"row\">{}</th><td class=\"number\"><data value=\"{}\">",
            LABELS.iter().find(|(known, ..)| part[name] == *known).unwrap().2,
            part["count"]
        );
        assert!(page.html.contains(&row), "{row}: {trace}: {}", page.html);
    }
    for value in summary["outcomes"]["by_currency"].as_array().unwrap() {
        let sum = format!("</data></td><td class=\"number\"><data value=\"{}\">", value["value_amount"]);
        assert!(page.html.contains(&sum), "{sum}: {trace}: {}", page.html);
    }
}

#[tokio::test]
async fn without_clicks_the_page_says_how_they_come_about() {
    let demo = Demo::start().await;
    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    let own = format!("/console/o/{}", demo.env("AGENT_ORG_ID"));
    let page = agent.open(&format!("{own}/clicks")).await;
    assert!(page.html.contains("No click token events in the last 30 days"), "{}", page.html);
    assert!(page.html.contains("POST /click-tokens") && !page.html.contains("Session outcomes"), "{}", page.html);
    let link = Link::make(&demo, Some("answer-engine")).await;
    link.end(&demo, json!({"type": "browse"})).await;
    let page = agent.open(&format!("{own}/clicks")).await;
    assert!(page.html.contains("POST /click-tokens") && page.html.contains("Session outcomes"), "{}", page.html);
    for bad in ["period=ever", "after=nowhere", "offset=x"] {
        assert_eq!(agent.open(&format!("{own}/clicks?{bad}")).await.status, 400, "{bad}");
    }
}
