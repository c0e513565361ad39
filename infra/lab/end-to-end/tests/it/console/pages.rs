//! Pages of a path: what is typed, led to by a section, kept by the pager, matched by nothing, or no path at all.

use super::Reader;
use super::reader::{Page, unescaped};
use crate::demo::Demo;
use serde_json::{Value, json};

pub(super) const WINDOW: &str = "since=2026-09-01&until=2026-09-30";

/// Sixty pages of a blog, and three others.
pub(super) async fn demo() -> Demo {
    let pages = (0..60).map(|number| format!("blog/{number}")).chain(["blog", "Blog/a", "about"].map(str::to_owned));
    demo_with(pages.map(|page| format!("https://www.example.com/{page}")).collect()).await
}

/// Each page fetched once.
async fn demo_with(pages: Vec<String>) -> Demo {
    let demo = Demo::start().await;
    let event = |page: &String| json!({"type": "content_retrieved", "timestamp": "2026-09-08T10:00:00Z", "source_role": "edge", "content_url": page});
    let events: Vec<Value> = pages.iter().map(event).collect();
    assert_eq!(demo.post(demo.env("OWNER_KEY"), &json!({"events": events})).await.status, 201);
    demo.counts(pages.len() as u64).await;
    demo
}

pub(super) fn urls(page: &Page) -> Vec<String> {
    let rows = page.all_between("<th scope=\"row\" class=\"url\">", "</th>");
    rows.map(|row| unescaped(row.split_once("\">").map_or(row, |(_, text)| text).trim_end_matches("</a>"))).collect()
}

pub(super) fn link(page: &Page, text: &str) -> String {
    let (before, _) = page.html.split_once(&format!(">{text}</a>")).unwrap_or_else(|| panic!("no {text}: {}", page.html));
    unescaped(before.rsplit_once("href=\"").unwrap().1.split('"').next().unwrap())
}

#[tokio::test]
async fn pages_of_a_path_are_typed_or_led_to_by_their_section_and_stay_so_from_page_to_page() {
    let demo = demo().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let all = owner.open(&format!("{home}/pages?{WINDOW}")).await;
    assert!(all.html.contains("<input name=\"path\" value=\"\""), "{}", all.html);
    let sections = owner.open(&link(&all, "Sections")).await;
    assert_eq!(urls(&sections), ["https://example.com/blog/*", "https://example.com/", "https://example.com/Blog/*"]);

    let blog = owner.open(&link(&sections, "https://example.com/blog/*")).await;
    assert!(blog.address.contains(WINDOW) && blog.html.contains("<input name=\"path\" value=\"/blog/*\""), "{}", blog.html);
    let typed = owner.open(&format!("{home}/pages?{WINDOW}&path=/blog/*")).await;
    assert_eq!((urls(&blog).len(), urls(&typed)), (50, urls(&blog)));
    assert!(blog.html.contains("1\u{2013}50 of 60"), "{}", blog.html);
    let later = owner.open(&link(&blog, "Next")).await;
    assert_eq!(urls(&later).len(), 10);
    assert!(later.html.contains("value=\"/blog/*\"") && urls(&later).iter().all(|url| url.contains("/blog/")), "{}", later.html);
    assert_eq!(urls(&owner.open(&link(&later, "Previous")).await), urls(&blog));
    let quarter = link(&blog, "90 days");
    assert!(quarter.contains("path=%2Fblog%2F*"), "{quarter}");
    assert_eq!(urls(&owner.open(&link(&blog, "Sections")).await), ["https://example.com/blog/*"]);
    let file = owner.open(&link(&blog, "CSV")).await;
    assert_eq!(file.html.lines().count(), 61, "{}", file.html);
    assert_eq!(urls(&owner.open(&link(&later, "Show all pages")).await), urls(&all));
}

#[tokio::test]
async fn a_path_that_nothing_is_on_and_one_that_is_none_are_told_and_lead_back() {
    let demo = demo().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let none = owner.open(&format!("{home}/pages?{WINDOW}&path=/BLOG/*")).await;
    assert_eq!(none.status, 200);
    assert!(none.html.contains("No activity on <code>/BLOG/*</code> from 2026-09-01 to 2026-09-30"), "{}", none.html);
    assert!(link(&none, "Show 90 days").ends_with("path=%2FBLOG%2F*"));
    assert!(none.html.contains("Paths are case-sensitive"), "{}", none.html);
    let sections = owner.open(&format!("{home}/pages?since=2020-01-01&until=2020-01-02&by=section&sort=last_seen")).await;
    let longer = link(&sections, "Show 90 days");
    assert!(longer.contains("by=section") && longer.contains("sort=last_seen"), "what the rows are of stays: {longer}");
    assert_eq!(urls(&owner.open(&link(&none, "Show all pages")).await).len(), 50);
    for (path, said) in [
        ("blog/*", "path must start with a slash"),
        ("/blog/*/a", "path can contain * only at its end"),
        ("/blog?q=<b>", "path must not contain ? or #"),
    ] {
        let asked = url::form_urlencoded::Serializer::new(String::new()).append_pair("path", path).finish();
        let refused = owner.open(&format!("{home}/pages?{WINDOW}&{asked}")).await;
        assert!(
            refused.status == 400 && refused.html.contains(said) && refused.html.contains("Request <code>"),
            "{path}: {}",
            refused.html
        );
        let field = refused.between("<input name=\"path\" value=\"", "\"").map(unescaped);
        assert_eq!(field.as_deref(), Some(path), "what was typed stays");
        assert!(!refused.html.contains("<b>"), "{}", refused.html);
        assert_eq!(urls(&owner.open(&link(&refused, "Show all pages")).await).len(), 50);
        assert_eq!(owner.open(&format!("{home}/export/pages.csv?{WINDOW}&{asked}")).await.status, 400);
    }
    // What else is refused is no matter of the path, with a path or without.
    for path in ["", "&path=/blog/*"] {
        for other in ["domain=other.example", "by=agent", "seen_by=nobody", "period=ever", "sort=nothing"] {
            let refused = owner.open(&format!("{home}/pages?{other}{path}")).await;
            assert!([400, 403].contains(&refused.status) && !refused.html.contains("Enter a path"), "{other}: {}", refused.html);
        }
    }
}

#[tokio::test]
async fn a_host_beneath_a_domain_is_the_one_that_the_bar_has_chosen() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    for (asked, chosen) in
        [("", None), ("&domain=example.com", Some("example.com")), ("&domain=news.example.com", Some("news.example.com"))]
    {
        let page = owner.open(&format!("{home}/pages?{WINDOW}{asked}")).await;
        let choices = page.between("<select name=\"domain\">", "</select>").unwrap_or_default();
        let selected: Vec<&str> = choices.split("<option selected>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
        assert_eq!(selected, chosen.into_iter().collect::<Vec<_>>(), "{asked}: {choices}");
    }
}

#[tokio::test]
async fn a_section_leads_to_the_pages_of_its_host_and_one_that_nobody_can_ask_for_to_none() {
    let pages = ["www.example.com/blog/a", "news.example.com/blog/a", "news.example.com/blog/b", "www.example.com/a*b/c"];
    let demo = demo_with(pages.map(|page| format!("https://{page}")).to_vec()).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let sections = owner.open(&format!("{home}/pages?{WINDOW}&by=section")).await;
    let expected = ["https://news.example.com/blog/*", "https://example.com/a*b/*", "https://example.com/blog/*"];
    assert_eq!(urls(&sections), expected);
    let news = owner.open(&link(&sections, expected[0])).await;
    assert_eq!(urls(&news), ["https://news.example.com/blog/a", "https://news.example.com/blog/b"]);
    assert!(news.html.contains("<option selected>news.example.com</option>"), "{}", news.html);
    let whole = owner.open(&link(&sections, expected[2])).await;
    let told = "Showing only <code>/blog/*</code> on example.com and its subdomains.";
    assert!(urls(&whole).len() == 3 && whole.html.contains(told), "a domain has its hosts: {}", whole.html);
    assert!(!sections.html.contains("a*b/*</a>"), "the API refuses such a path: {}", sections.html);
}

#[tokio::test]
async fn u3_agents_are_shown_by_the_page_however_many_names_are_reported() {
    let demo = Demo::start().await;
    for number in 0..60 {
        let event =
            json!({"type": "content_cited", "timestamp": "2026-09-08T10:00:00Z", "content_url": "https://www.example.com/"});
        let body = json!({"session_id": format!("00000000-0000-4000-8000-{number:012x}"), "agent_id": format!("agent {number:02}"), "events": [event]});
        assert_eq!(demo.post(demo.env("AGENT_KEY"), &body).await.status, 201);
    }
    demo.counts(60).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let names = |page: &Page| -> Vec<String> {
        page.all_between("agent_id=agent+", "</a>").map(|link| link.rsplit_once('>').unwrap().1.to_owned()).collect()
    };
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let first = owner.open(&format!("{home}/agents?{WINDOW}&sort=agent")).await;
    let second = owner.open(&link(&first, "Next")).await;
    assert!(first.html.contains("1\u{2013}50 of 60") && second.html.contains("51\u{2013}60 of 60"), "{}", second.html);
    let expected: Vec<String> = (0..60).map(|number| format!("agent {number:02}")).collect();
    assert_eq!([names(&first), names(&second)].concat(), expected);
    let beyond = owner.open(&format!("{home}/agents?{WINDOW}&offset=1000")).await;
    assert_eq!((beyond.status, names(&beyond).len()), (200, 0), "{}", beyond.html);

    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    let own = |page: &Page| -> Vec<String> {
        page.all_between("<th scope=\"row\">agent ", "</th>").map(|number| format!("agent {number}")).collect()
    };
    let home = format!("/console/o/{}", demo.env("AGENT_ORG_ID"));
    let first = agent.open(&format!("{home}/reported?{WINDOW}&sort=agent")).await;
    let second = agent.open(&link(&first, "Next")).await;
    assert_eq!((own(&first).len(), [own(&first), own(&second)].concat()), (50, expected), "{}", second.html);
}
