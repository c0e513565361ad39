//! Headings of tables that are links: each says by which column the table is sorted, and the column is in that order. Of every
//! hundred `TEST_ROUNDS` are pressed, by the seed.
//!
//! Must know no screen's columns: what is tried is what templates have, and a column that shows one value only was not tried.

use super::drains::{drains, feed, pasted_key};
use super::reader::{Page, unescaped};
use super::{AGENT_SCREENS, OWNER_SCREENS, Reader};
use crate::demo::{Demo, answer};
use crate::demo_data::demo_with_data;
use chrono::TimeDelta;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::{Seed, eventually, random_seed, size};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Screens that every organisation has and that differ by its kind, and what an address chooses of a screen besides.
const MORE: [&str; 3] = ["pages?by=section", "funnel?by=url", "funnel?by=day"];
const OF_AGENTS: [&str; 4] = ["partners", "keys", "webhooks", "members"];

/// By the key or the session of a variable.
async fn post(demo: &Demo, of: &str, path: &str, body: Value) -> Value {
    let request = demo.client.post(demo.url(&format!("/api/v1/identity/{path}"))).json(&body);
    let is_session = of.ends_with("_SESSION");
    let request = if is_session { request.bearer_auth(demo.env(of)) } else { request.header("x-api-key", demo.env(of)) };
    let answered = answer(request).await;
    assert!(answered.status < 300, "{path}: {}", answered.body);
    answered.body
}

/// Two rows that differ for every table: keys, drains and what they refused, domains, members.
async fn furnish(demo: &Demo) {
    let seed = Seed(&demo.stores.pool);
    post(demo, "OWNER_KEY", "api-keys", json!({"name": "Zeta"})).await;
    let used = post(demo, "OWNER_KEY", "api-keys", json!({"name": "alpha"})).await;
    demo.get(used["key"].as_str().unwrap(), "/content-owners/summary").await;
    post(demo, "AGENT_SESSION", "api-keys", json!({"name": "Mid"})).await;
    post(demo, "OWNER_KEY", "domains", json!({"domain": "second.example"})).await;
    for (variable, address) in [("OWNER_ORG_ID", "zoe@example.com"), ("AGENT_ORG_ID", "abel@example.net")] {
        seed.session(address, TimeDelta::days(1)).await;
        seed.join(address, demo.env(variable).parse().unwrap()).await;
    }
    post(demo, "OWNER_KEY", "drains", json!({"name": "Beta", "provider": "cloudflare"})).await;
    let mut owner = Reader::signed_in(demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(demo))).await;
    let page = owner.press(&page, "/drains", &[("name", "refusing")]).await;
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let line = |agent: &str, status: u16| {
        let line = json!({"timestamp": now, "host": "www.example.com", "method": "GET", "url": "/", "user_agent": agent, "status": status});
        format!("{line}\n")
    };
    let lines = [("GPTBot/1.2", 200), ("GPTBot/1.2", 403), ("GPTBot/1.2", 403), ("ClaudeBot/1.0", 404)];
    assert_eq!(feed(demo, &pasted_key(&page).unwrap(), &lines.map(|(agent, status)| line(agent, status)).concat()).await, 200);
    let told = async || {
        let told = demo.get(demo.env("OWNER_KEY"), "/content-owners/crawlers").await.body;
        (told["refused"].as_array()?.len() > 1).then_some(())
    };
    eventually("the refused bots are told", told).await;
}

/// An agent of another platform's, and a retrieval that neither an agent nor a server tells of.
async fn report(demo: &Demo) {
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let retrieved = |role: &str| json!({"type": "content_retrieved", "timestamp": now, "source_role": role, "content_url": "https://www.example.com/network"});
    let session = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    for body in [
        json!({"session_id": session, "agent_id": "of the network", "events": [retrieved("agent")]}),
        json!({"events": [retrieved("index")]}),
    ] {
        let sent = demo.post(demo.env("NETWORK_KEY"), &body).await;
        assert_eq!(sent.status, 201, "{}", sent.body);
    }
    eventually("both are counted", || async {
        let told = demo.get(demo.env("OWNER_KEY"), "/content-owners/urls?path=/network").await.body;
        (told["items"][0]["total_events"] == 2).then_some(())
    })
    .await;
}

/// The same of what organisations have with each other: partners, requests, webhooks.
async fn connect(demo: &Demo) {
    let seed = Seed(&demo.stores.pool);
    let [owner, agent] = ["OWNER_ORG_ID", "AGENT_ORG_ID"].map(|variable| demo.env(variable).parse().unwrap());
    for name in ["third network", "Another Network"] {
        let partner = seed.org(name, OrgType::Platform).await;
        seed.delegate(owner, partner.id).await;
    }
    for domain in ["one.example", "two.example"] {
        let publisher = seed.owner_of(domain).await;
        seed.delegate(publisher.id, agent).await;
        seed.owner_of(&format!("asked-{domain}")).await;
    }
    for domain in ["example.com", "asked-one.example", "asked-two.example"] {
        post(demo, "AGENT_SESSION", "delegation-requests", json!({"domain": domain})).await;
    }
    post(demo, "NETWORK_KEY", "delegation-requests", json!({"domain": "example.com"})).await;
    for (key, host) in
        [("OWNER_KEY", "b"), ("OWNER_KEY", "a"), ("NETWORK_KEY", "c"), ("AGENT_SESSION", "e"), ("AGENT_SESSION", "d")]
    {
        let hook = json!({"url": format!("https://{host}.example.net/"), "event_types": ["delegation.created"]});
        let hook = post(demo, key, "webhooks", hook).await["id"].as_str().unwrap().to_owned();
        if ["b", "c", "e"].contains(&host) {
            post(demo, key, &format!("webhooks/{hook}/test"), json!({})).await;
        }
    }
    eventually("the endpoints were tried", || async {
        let tried = "SELECT count(*) FROM webhook_queue WHERE last_attempt_at IS NOT NULL";
        let tried: i64 = sqlx::query_scalar(tried).fetch_one(&demo.stores.pool).await.unwrap();
        (tried >= 3).then_some(())
    })
    .await;
    for (kind, name) in [("agent", "Reading Robot"), ("platform", "measuring Ltd")] {
        let wish = json!({"org_name": name, "admin_email": "user@example.net", "use_case": "to be reviewed"});
        let asked = post(demo, "USER_SESSION", &format!("{kind}-access-requests"), wish).await["id"].as_str().unwrap().to_owned();
        if kind == "agent" {
            post(demo, "OPERATOR_SESSION", &format!("operator/access-requests/{asked}/reject"), json!({})).await;
        }
    }
}

/// Where tables are, by the session that sees them.
fn screens(demo: &Demo) -> Vec<(&'static str, Vec<String>)> {
    let of = |variable: &str, screen: &str| format!("/console/o/{}/{screen}", demo.env(variable));
    let owners = OWNER_SCREENS.into_iter().chain(MORE).map(|screen| of("OWNER_ORG_ID", screen)).collect();
    let agents = AGENT_SCREENS.into_iter().chain(OF_AGENTS).map(|screen| of("AGENT_ORG_ID", screen)).collect();
    let operators = ["organizations", "webhooks?which=all"].map(|screen| format!("/console/operator/{screen}")).to_vec();
    let requests = vec!["/console/requests".to_owned()];
    vec![("OWNER_SESSION", owners), ("AGENT_SESSION", agents), ("OPERATOR_SESSION", operators), ("USER_SESSION", requests)]
}

/// A heading that is a link: of which table, in which column, and where it leads.
#[derive(Clone, Debug)]
struct Heading {
    table: String,
    column: usize,
    label: String,
    href: String,
    order: Option<String>,
}

/// The part of a page that is the table of a name.
fn table<'p>(page: &'p Page, name: &str) -> &'p str {
    let rest =
        page.html.split("aria-label=\"").find(|rest| rest.split_once("\"><table").is_some_and(|(own, _)| unescaped(own) == name));
    rest.and_then(|rest| rest.split_once("</table>")).unwrap_or_else(|| panic!("{}: no table {name}", page.address)).0
}

/// Every heading of every table of a page that is a link.
fn headings(page: &Page) -> Vec<Heading> {
    let named = page.html.split("aria-label=\"").filter_map(|rest| rest.split_once("\"><table")).map(|(name, _)| unescaped(name));
    let names: Vec<String> = named.filter(|name| !name.contains('<')).collect();
    let of_table = |name: String| {
        let head = table(page, &name).split_once("</thead>").map_or("", |(head, _)| head);
        let columns = head.split("<th scope=\"col\"").skip(1).enumerate();
        let heading = |(column, text): (usize, &str)| {
            let (tag, rest) = text.split_once('>')?;
            let (href, rest) = rest.strip_prefix("<a href=\"")?.split_once("\">")?;
            let order = tag.split_once("aria-sort=\"").and_then(|(_, rest)| rest.split('"').next()).map(str::to_owned);
            let label = unescaped(rest.split('<').next()?);
            Some(Heading { table: name.clone(), column, label, href: unescaped(href), order })
        };
        columns.filter_map(heading).collect::<Vec<_>>()
    };
    names.into_iter().flat_map(of_table).collect()
}

/// What a cell shows: nothing that is known, a figure, a time, or a text.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Shown {
    Unknown,
    Figure(f64),
    Time(String),
    Text(String),
}

impl Shown {
    fn of(cell: &str) -> Self {
        let exact = |before: &str| cell.split_once(before).and_then(|(_, rest)| rest.split('"').next());
        if let Some(figure) = exact("<data value=\"") {
            let (part, whole) = figure.split_once('/').unwrap_or((figure, "1"));
            return Self::Figure(part.parse::<f64>().unwrap() / whole.parse::<f64>().unwrap());
        }
        if let Some(time) = exact("<time datetime=\"") {
            return Self::Time(time.to_owned());
        }
        let text = cell.split(['<', '>']).step_by(2).find(|text| !text.trim().is_empty()).unwrap_or_default();
        let is_known = !["<span class=\"muted\">", "<span class=\"none\"", "Unknown", "Crawlers (undeclared)"]
            .iter()
            .any(|unknown| cell.starts_with(unknown));
        if is_known && !text.is_empty() { Self::Text(unescaped(text).trim().to_owned()) } else { Self::Unknown }
    }
}

impl Shown {
    fn in_small_letters(&self) -> Self {
        if let Self::Text(text) = self { Self::Text(text.to_lowercase()) } else { self.clone() }
    }
}

/// A column of a table: of its usual rows, and of those that sum something up.
fn column(page: &Page, heading: &Heading) -> [Vec<Shown>; 2] {
    let body = table(page, &heading.table).split_once("<tbody>").unwrap().1.split("</tbody>").next().unwrap();
    let mut shown = [Vec::new(), Vec::new()];
    for row in body.split("<tr").skip(1) {
        let row = row.replace("<th", "<td");
        let cell = row.split("<td").nth(heading.column + 1).unwrap_or_else(|| panic!("{}: {heading:?}: {row}", page.address));
        let inside = cell.split_once('>').unwrap().1;
        let inside = inside.trim_end().trim_end_matches("</tr>").trim_end().trim_end_matches("</td>").trim_end_matches("</th>");
        shown[usize::from(row.starts_with(" class=\"sum\""))].push(Shown::of(inside));
    }
    // Beside figures and times, a text says that there is none.
    for rows in &mut shown {
        if rows.iter().any(|one| matches!(one, Shown::Figure(_) | Shown::Time(_))) {
            rows.iter_mut().filter(|one| matches!(one, Shown::Text(_))).for_each(|one| *one = Shown::Unknown);
        }
    }
    shown
}

/// Whether a column tells rows apart.
fn tells_apart(shown: &[Vec<Shown>; 2]) -> bool {
    shown.iter().any(|rows| rows.windows(2).any(|pair| pair[0] != pair[1]))
}

/// Presses a heading: the table says so and is so. The heading that turns it round.
async fn pressed(reader: &mut Reader, opened: &mut BTreeMap<String, Page>, heading: &Heading) -> Heading {
    if !opened.contains_key(&heading.href) {
        opened.insert(heading.href.clone(), reader.open(&heading.href).await);
    }
    let page = &opened[&heading.href];
    assert_eq!(page.status, 200, "{heading:?}: {}", page.html);
    let is_same = |other: &Heading| (&other.table, &other.label) == (&heading.table, &heading.label);
    let sorted = headings(page).into_iter().find(is_same).unwrap_or_else(|| panic!("{heading:?}: it is gone"));
    let is_descending = heading.href.contains("sort=-");
    let order = if is_descending { "descending" } else { "ascending" };
    assert!(sorted.order.as_deref() == Some(order) && heading.order.as_deref() != Some(order), "{heading:?}: {sorted:?}");
    for mut shown in column(page, &sorted) {
        if is_descending {
            shown.reverse();
        }
        // The API tells capitals from small letters, pages do not.
        let is_in_order = shown.is_sorted() || shown.iter().map(Shown::in_small_letters).is_sorted();
        assert!(is_in_order, "{heading:?}: {shown:?}");
    }
    sorted
}

/// The headings that templates have: of which table, and which.
fn of_templates() -> BTreeSet<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../console/templates");
    let files = ["", "parts"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let html = files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect::<String>();
    let tables = html.split("aria-label=\"").filter_map(|rest| rest.split_once("\"><table"));
    let in_table = |(name, rest): (&str, &str)| {
        let head = rest.split("</thead>").next().unwrap_or_default();
        let labels = head.split("{{ headings.").skip(1).filter_map(|call| call.split('"').nth(3));
        labels.map(|label| (name.to_owned(), label.to_owned())).collect::<Vec<_>>()
    };
    tables.flat_map(in_table).collect()
}

#[tokio::test]
async fn headings_that_are_links_put_their_columns_in_order_and_back() {
    let (demo, _) = demo_with_data().await;
    furnish(&demo).await;
    report(&demo).await;
    connect(&demo).await;
    let (share, mut random) = (size("TEST_ROUNDS", 10), StdRng::seed_from_u64(random_seed()));
    let (mut differing, mut alike) = (BTreeSet::new(), BTreeSet::new());
    for (session, screens) in screens(&demo) {
        let mut reader = Reader::signed_in(&demo, session);
        for screen in screens {
            let page = reader.open(&screen).await;
            assert_eq!(page.status, 200, "{screen}: {}", page.html);
            // Tables that stand on one page are sorted by what they have in common at once.
            let mut opened = BTreeMap::new();
            let all = headings(&page);
            for heading in &all {
                let name = (heading.table.clone(), heading.label.clone());
                if tells_apart(&column(&page, heading)) {
                    differing.insert(name)
                } else {
                    alike.insert(name)
                };
            }
            // One heading of a screen says for all of them that pressing it again turns the order round.
            if let Some(heading) = all.choose(&mut random) {
                let sorted = pressed(&mut reader, &mut opened, heading).await;
                let again = pressed(&mut reader, &mut opened, &sorted).await;
                assert_ne!(sorted.order, again.order);
            }
            for heading in all.iter().filter(|_| random.random_range(0..100) < share) {
                pressed(&mut reader, &mut opened, heading).await;
            }
        }
    }
    let untried: Vec<_> = of_templates().into_iter().filter(|heading| !differing.contains(heading)).collect();
    assert!(untried.is_empty(), "no page of this test shows two rows that differ by {untried:?}; alike: {alike:?}");
}
