//! Tables sorted by their headings, as a reader presses them: the order stays in the next part, in another period and in the file, and a
//! heading keeps what else the address says.

use super::Reader;
use super::pages::{WINDOW, demo, link, urls};
use super::reader::Page;
use crate::demo::{Demo, answer};
use serde_json::json;

fn home(demo: &Demo) -> String {
    format!("/console/o/{}", demo.env("OWNER_ORG_ID"))
}

/// The heading of the column that a page says it is sorted by, and in which direction.
fn order(page: &Page) -> Vec<(&str, &str)> {
    let sorted = page.all_between(" aria-sort=\"", "</a>");
    sorted.filter_map(|heading| Some((heading.rsplit_once('>')?.1, heading.split('"').next()?))).collect()
}

#[tokio::test]
async fn a_heading_keeps_what_is_shown_and_pager_period_filter_and_file_keep_the_order() {
    let demo = demo().await;
    let partner = demo.env("NETWORK_ORG_ID");
    let granted = demo.client.post(demo.url("/api/v1/identity/delegations")).header("x-api-key", demo.env("OWNER_KEY"));
    assert_eq!(answer(granted.json(&json!({"grantee_org_id": partner}))).await.status, 201);
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let asked = format!("{}/pages?{WINDOW}&domain=example.com&seen_by={partner}&path=/blog/*", home(&demo));
    let usual = owner.open(&asked).await;
    assert_eq!(order(&usual), [("Events", "descending")]);
    let first = owner.open(&link(&usual, "Page")).await;
    let second = owner.open(&link(&first, "Next")).await;
    let mut listed = [urls(&first), urls(&second)].concat();
    assert!(listed.len() == 60 && listed.is_sorted(), "{listed:?}");
    let turned = owner.open(&link(&second, "Page")).await;
    let rest = owner.open(&link(&turned, "Next")).await;
    for (page, direction) in [(&first, "ascending"), (&second, "ascending"), (&turned, "descending"), (&rest, "descending")] {
        assert_eq!(order(page), [("Page", direction)], "{}", page.address);
        for kept in [WINDOW, "domain=example.com", "path=%2Fblog%2F*", partner] {
            assert!(page.address.contains(kept), "{kept}: {}", page.address);
        }
        assert!(page.html.contains("<input type=\"hidden\" name=\"sort\" value=\""), "{}", page.html);
        let quarter = link(page, "90 days");
        assert!(quarter.contains("sort=") && quarter.contains("path=%2Fblog%2F*") && quarter.contains(partner), "{quarter}");
    }
    listed.reverse();
    assert_eq!([urls(&turned), urls(&rest)].concat(), listed);
    let file = owner.open(&link(&turned, "CSV")).await.html;
    let told: Vec<String> =
        csv::Reader::from_reader(file.as_bytes()).into_records().map(|line| line.unwrap()[0].to_owned()).collect();
    assert_eq!(told, listed);

    let sections = owner.open(&format!("{}/pages?{WINDOW}&by=section", home(&demo))).await;
    let sections = owner.open(&link(&sections, "Section")).await;
    assert_eq!(urls(&sections), ["https://example.com/", "https://example.com/Blog/*", "https://example.com/blog/*"]);
    for by in ["url", "day"] {
        let funnel = owner.open(&format!("{}/funnel?{WINDOW}&by={by}", home(&demo))).await;
        let funnel = owner.open(&link(&funnel, "Fetched")).await;
        assert!(
            funnel.address.contains(&format!("by={by}")) && order(&funnel) == [("Fetched", "descending")],
            "{}",
            funnel.address
        );
    }
    for list in ["pages", "funnel", "corroboration", "overview"] {
        let refused = owner.open(&format!("{}/{list}?{WINDOW}&sort=nothing", home(&demo))).await;
        assert!(refused.status == 400 && refused.html.contains("sort must be one of: "), "{list}: {}", refused.html);
    }
}

#[tokio::test]
async fn a_chart_split_otherwise_leaves_the_order_of_the_tables_beneath_it() {
    let demo = Demo::start().await;
    let event = |bot: &str| {
        json!({"type": "content_retrieved", "timestamp": "2026-09-08T10:00:00Z", "source_role": "edge",
        "content_url": format!("https://www.example.com/{bot}"), "data": {"user_agent": format!("{bot}/1.0"), "response_status": 200}})
    };
    let events = ["GPTBot", "ClaudeBot"].map(event);
    let sent = demo.post(demo.env("OWNER_KEY"), &json!({"events": events})).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    demo.counts(2).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let crawlers = owner.open(&format!("{}/crawlers?{WINDOW}", home(&demo))).await;
    let by_bot = owner.open(&link(&crawlers, "Bot")).await;
    let split = owner.open(&link(&by_bot, "By purpose")).await;
    assert_eq!(order(&split), [("Bot", "ascending")], "{}", split.address);
    let turned = owner.open(&link(&split, "Bot")).await;
    assert_eq!(order(&turned), [("Bot", "descending")], "{}", turned.address);
    let chosen = turned.all_between("aria-current=\"true\">", "<").collect::<Vec<_>>();
    assert!(chosen.contains(&"By purpose"), "{chosen:?}");
    let bots = |page: &Page| -> Vec<String> {
        let table = page.between("<h2>Bots", "</table>").unwrap();
        table.split("<th scope=\"row\">").skip(1).map(|row| row.split('<').next().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (bots(&by_bot), bots(&turned)),
        (vec!["ClaudeBot".to_owned(), "GPTBot".to_owned()], vec!["GPTBot".to_owned(), "ClaudeBot".to_owned()])
    );
}

#[tokio::test]
async fn a_table_that_stands_on_its_page_whole_is_sorted_there_and_by_nothing_that_it_has_not() {
    let demo = Demo::start().await;
    for (list, more) in [("api-keys", json!({})), ("drains", json!({"provider": "ndjson"}))] {
        for name in ["Zeta", "alpha", "Mid"] {
            let mut body = more.clone();
            body["name"] = json!(name);
            let made = demo.client.post(demo.url(&format!("/api/v1/identity/{list}"))).header("x-api-key", demo.env("OWNER_KEY"));
            assert_eq!(answer(made.json(&body)).await.status, 201, "{list} {name}");
        }
    }
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let names = |page: &Page| -> Vec<String> {
        let rows = page.all_between("<th scope=\"row\">", "</th>");
        rows.map(|row| row.trim_end_matches("</a>").rsplit('>').next().unwrap().to_lowercase()).collect()
    };
    for screen in ["keys", "drains"] {
        let usual = owner.open(&format!("{}/{screen}", home(&demo))).await;
        assert!(order(&usual).is_empty() && names(&usual).len() >= 3, "{screen}: {:?}", names(&usual));
        let up = owner.open(&link(&usual, "Name")).await;
        assert!(order(&up) == [("Name", "ascending")] && names(&up).is_sorted(), "{screen}: {:?}", names(&up));
        let down = owner.open(&link(&up, "Name")).await;
        assert!(
            order(&down) == [("Name", "descending")] && names(&down).iter().rev().is_sorted(),
            "{screen}: {:?}",
            names(&down)
        );
        let other = owner.open(&format!("{}/{screen}?sort=%22%3E%3Cscript%3E", home(&demo))).await;
        assert_eq!((other.status, names(&other), other.html.contains("<script>")), (200, names(&usual), false), "{screen}");
    }
}
