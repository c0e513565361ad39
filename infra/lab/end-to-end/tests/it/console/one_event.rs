//! One event with all its observers, and lists of events that are narrowed: what the console shows is the API's, as text.

use super::Reader;
use super::reader::{Page, unescaped};
use crate::demo::Demo;
use serde_json::{Value, json};

const CORRELATION: &str = "3f0c2a36-5a61-4f6b-8f4e-52f3a4f0d00a";
const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

fn home(demo: &Demo) -> String {
    format!("/console/o/{}", demo.env("OWNER_ORG_ID"))
}

/// A retrieval as an agent claims it and as the owner's edge saw it, and another that nobody claims.
async fn retrieved(demo: &Demo) {
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let seen = |role: &str, page: &str, data: &Value| {
        json!({"type": "content_retrieved", "timestamp": now, "source_role": role, "content_telemetry_id": CORRELATION,
            "content_url": format!("https://www.example.com/{page}"), "id": format!("of the/{role}?{page}"), "data": data})
    };
    let claim = seen("agent", "claimed", &json!({"user_agent": "Answer/1.0"}));
    let claim = json!({"session_id": SESSION, "agent_id": "answer-engine", "events": [claim]});
    let sent = demo.post(demo.env("AGENT_KEY"), &claim).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    demo.counts(1).await;
    let hostile = "<script>alert(1)</script>";
    let edge = [
        seen("edge", "claimed", &json!({"user_agent": "GPTBot/1.2", "bot_name": hostile})),
        seen("edge", "unclaimed", &json!({"user_agent": "GPTBot/1.2"})),
    ];
    assert_eq!(demo.post(demo.env("OWNER_KEY"), &json!({"events": edge})).await.status, 201);
    demo.counts(2).await;
}

/// Where a page's rows lead, in order.
fn links(page: &Page) -> Vec<String> {
    page.all_between("<td><a href=\"", "\"").map(unescaped).collect()
}

#[tokio::test]
async fn u1_one_event_shows_what_each_observer_said_as_the_api_tells_it() {
    let demo = Demo::start().await;
    retrieved(&demo).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let list = owner.open(&format!("{}/events", home(&demo))).await;
    let links = links(&list);
    assert_eq!(links.len(), 2, "{}", list.html);
    let mut told = Vec::new();
    for link in &links {
        let page = owner.open(link).await;
        assert_eq!(page.status, 200, "{link}: {}", page.html);
        assert!(!page.html.contains("<script>alert"), "{}", page.html);
        let call = unescaped(page.between("<code>curl -sS &#39;", "&#39; -H").unwrap_or_else(|| panic!("{}", page.html)));
        let answer = demo.get(demo.env("OWNER_KEY"), call.strip_prefix(demo.env("BASE_URL")).unwrap()).await;
        assert_eq!(answer.status, 200, "{call}: {}", answer.body);
        let shown = unescaped(&page.html);
        for report in answer.body["reports"].as_array().unwrap() {
            for name in ["source_role", "event_id", "session_id", "platform_id", "agent_id", "content_url"] {
                assert!(shown.contains(report[name].as_str().unwrap()), "{name} of {report}: {}", page.html);
            }
            for value in report["event_data"].as_object().unwrap().values() {
                assert!(shown.contains(value.as_str().unwrap()), "{value}: {}", page.html);
            }
        }
        let columns = page.all_between("<th scope=\"col\"><span class=\"badge", "</th>").count();
        assert_eq!(Some(columns), answer.body["reports"].as_array().map(Vec::len));
        told.push((answer.body["corroboration"].clone(), page.html.contains("differs")));
    }
    told.sort_by_key(|(part, _)| part.to_string());
    assert_eq!(told, [(json!("seen_by_both"), true), (json!("seen_by_server_only"), false)]);

    // An address from before the claim, whose time is another report's, still leads to it.
    let moved = format!("{}?at=2001-01-01T00:00:00Z", links[0].split('?').next().unwrap());
    assert_eq!(owner.open(&moved).await.status, 200);
    for (id, status) in [("event/nobody", 404), ("event/nobody?at=yesterday", 400)] {
        assert_eq!(owner.open(&format!("{}/{id}", home(&demo))).await.status, status, "{id}");
    }
}

#[tokio::test]
async fn u1_a_list_of_events_is_narrowed_as_the_api_narrows_it_from_other_pages_and_in_its_file() {
    let demo = Demo::start().await;
    retrieved(&demo).await;
    let cited = json!({"type": "content_cited", "timestamp": service_kit::clock::Clock::System.now().to_rfc3339(),
        "content_url": "https://www.example.com/claimed"});
    let cited = json!({"session_id": SESSION, "agent_id": "answer-engine", "events": [cited]});
    assert_eq!(demo.post(demo.env("AGENT_KEY"), &cited).await.status, 201);
    demo.counts(3).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let own = home(&demo);
    let of = async |query: &str| {
        let answer = demo.get(demo.env("OWNER_KEY"), &format!("/content-owners/events?{query}")).await;
        usize::try_from(answer.body["total"].as_u64().unwrap()).unwrap()
    };
    for (query, expected) in [("event_type=content_cited", 1), ("agent_id=answer-engine", 2), ("event_type=content_retrieved", 2)]
    {
        assert_eq!(of(query).await, expected, "{query}");
        let page = owner.open(&format!("{own}/events?{query}")).await;
        assert_eq!(links(&page).len(), expected, "{query}: {}", page.html);
        let part = owner.part(&format!("{own}/events/tail?{query}")).await;
        assert_eq!(links(&part).len(), expected, "{query}: {}", part.html);
        let file = page.between("Download <a href=\"", "\"").map(unescaped).unwrap();
        let records = csv::Reader::from_reader(owner.open(&file).await.html.as_bytes()).into_records().count();
        assert_eq!(records, expected, "{query}: {file}");
    }
    let none = owner.open(&format!("{own}/events?agent_id=nobody")).await;
    assert!(none.html.contains("No matching events") && none.html.contains("Show all events"), "{}", none.html);
    let compared = owner.open(&format!("{own}/corroboration")).await;
    let to =
        compared.all_between("<th scope=\"row\"><a href=\"", "\"").map(unescaped).find(|to| to.contains("agent_id=")).unwrap();
    assert_eq!(links(&owner.open(&to).await).len(), 1, "{to}");
}

/// What a step is called where it is chosen is what it is called where it is shown.
#[tokio::test]
async fn a_step_has_one_name_in_the_filter_in_the_list_and_on_its_page() {
    let demo = Demo::start().await;
    let steps = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
    let types: Vec<&str> = steps.into_iter().chain(["checkout_completed"]).collect();
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let event = |name: &&str| {
        json!({"type": name, "timestamp": now, "source_role": "agent", "session_id": SESSION,
            "content_url": "https://www.example.com/page"})
    };
    let sent = demo.post(demo.env("AGENT_KEY"), &json!({"events": types.iter().map(event).collect::<Vec<_>>()})).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    demo.counts(types.len() as u64).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    for name in types {
        let page = owner.open(&format!("{}/events?event_type={name}", home(&demo))).await;
        let chosen = page.between(&format!("<option value=\"{name}\" selected>"), "<").unwrap_or_else(|| panic!("{}", page.html));
        let rows = links(&page);
        assert_eq!(rows.len(), 1, "{name}: {rows:?}");
        assert!(page.html.contains(&format!("\">{chosen}<span class=\"hidden\">: all reports")), "{chosen}: {}", page.html);
        let chosen = chosen.to_owned();
        let shown = owner.open(&rows[0]).await;
        assert_eq!(shown.between("<h1>", "</h1>"), Some(chosen.as_str()), "{name}");
    }
}
