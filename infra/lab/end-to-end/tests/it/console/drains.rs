//! A log is connected from the console alone: chosen, named, pasted, seen to arrive, given another key, deleted.

use super::Reader;
use super::reader::{Page, unescaped};
use crate::demo::{Demo, answer};
use service_kit::testing::eventually;

/// Lines that nginx wrote: two pages for bots, and one that is not there.
const LINES: &str = include_str!("../../edge/nginx.ndjson");
const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";

pub(super) fn drains(demo: &Demo) -> String {
    format!("/console/o/{}/drains", demo.env("OWNER_ORG_ID"))
}

/// The key that stands in what a page says to paste.
pub(super) fn pasted_key(page: &Page) -> Option<String> {
    let text = unescaped(page.between("DRAIN_KEY=&#39;", "&#39;")?);
    text.starts_with("svc_").then_some(text)
}

/// Where the drain is whose page it is.
pub(super) fn address(page: &Page) -> String {
    let action = page.actions().into_iter().find(|action| action.ends_with("/rotate")).unwrap();
    action.trim_end_matches("/rotate").to_owned()
}

pub(super) async fn feed(demo: &Demo, key: &str, lines: &str) -> u16 {
    let sent = demo.client.post(demo.url("/drains/ndjson")).header("x-api-key", key).header("content-type", "text/plain");
    answer(sent.body(lines.to_owned())).await.status
}

/// The page of a drain, once it says something.
async fn said(reader: &mut Reader, drain: &str, text: &str) -> Page {
    let reader = tokio::sync::Mutex::new(reader);
    eventually(&format!("the page says {text:?}"), || async {
        let page = reader.lock().await.open(drain).await;
        page.html.contains(text).then_some(page)
    })
    .await
}

#[tokio::test]
async fn a_log_is_connected_and_seen_to_arrive_from_the_console_alone() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let list = drains(&demo);
    let page = owner.open(&list).await;
    for platform in ["Cloudflare", "Fastly", "Akamai", "CloudFront", "Vercel", "nginx", "Cloudflare Worker", "Your own server"] {
        assert!(page.html.contains(&format!(">{platform}</a>")), "{platform}: {}", page.html);
    }
    let page = owner.open(&format!("{list}?with=nginx")).await;
    let page = owner.press(&page, "/drains", &[("name", "our nginx"), ("hosts", "www.example.com")]).await;
    let key = pasted_key(&page).unwrap_or_else(|| panic!("the key is in what to paste: {}", page.html));
    assert!(page.html.contains(demo.env("BASE_URL")) && page.html.contains("Waiting for the first line"), "{}", page.html);
    let drain = address(&page);
    let again = owner.open(&drain).await;
    assert!(!again.html.contains(&key) && again.html.contains("YOUR-DRAIN-KEY"), "it is shown once");

    let person =
        "{\"timestamp\":\"2026-11-01T10:00:00Z\",\"host\":\"www.example.com\",\"url\":\"/\",\"user_agent\":\"Mozilla/5.0\"}\n";
    assert_eq!(feed(&demo, &key, &format!("{LINES}{person}no line\n")).await, 200);
    let page = said(&mut owner, &format!("{drain}/lines"), "Last batch").await;
    assert!(page.html.contains("hx-get"), "it goes on asking");
    let listed = said(&mut owner, &list, "our nginx").await;
    assert!(!listed.html.contains("No lines yet"), "{}", listed.html);

    let page = owner.open(&drain).await;
    let page = owner.press(&page, "/rotate", &[]).await;
    let another = pasted_key(&page).unwrap();
    assert!(another != key && page.html.contains("works for one more hour"), "{}", page.html);
    assert_eq!((feed(&demo, &key, LINES).await, feed(&demo, &another, LINES).await), (200, 200));
    let page = owner.press(&page, "/delete", &[]).await;
    assert!(page.address == list && !page.html.contains("our nginx"), "{}", page.html);
    eventually("the key feeds nothing any more", || async { (feed(&demo, &another, LINES).await == 401).then_some(()) }).await;
}

#[tokio::test]
async fn the_page_of_a_drain_shows_what_the_api_says_of_it() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(&demo))).await;
    let page = owner.press(&page, "/drains", &[("name", "web")]).await;
    let key = pasted_key(&page).unwrap();
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let line = |agent: &str, path: &str, status: u16| {
        format!(
            "{{\"timestamp\":\"{now}\",\"host\":\"www.example.com\",\"url\":\"{path}\",\"method\":\"GET\",\"user_agent\":\"{agent}\",\"status\":{status},\"request_id\":\"{path}\"}}\n"
        )
    };
    let lines = [line("GPTBot/1.2", "/a", 200), line("Mozilla/5.0", "/b", 200), line("Mozilla/5.0", "/c", 200)].concat();
    assert_eq!(feed(&demo, &key, &lines).await, 200);
    let listed = demo.get(demo.env("OWNER_KEY"), "/api/v1/identity/drains").await.body;
    assert_eq!(listed[0]["role"], "origin", "a server of one's own is the origin");
    let drain = address(&page);
    said(&mut owner, &drain, "3 lines: 1 AI request, 2 human requests").await;
    let rest = [line("GPTBot/1.2", "/d", 403), line("GPTBot/1.2", "/style.css", 200), "no line at all\n".to_owned()].concat();
    assert_eq!(feed(&demo, &key, &rest).await, 200);
    let page = said(&mut owner, &drain, "6 lines: 1 AI request").await;
    assert!(page.html.contains("<dt>Not served</dt>") && page.html.contains("styles, scripts, images"), "{}", page.html);
    assert!(page.html.contains("Latest unreadable lines") && page.html.contains("No data"), "{}", page.html);
    assert!(page.html.contains("Server logs cover 1 of 48 hours (2\u{202f}%). 47 hours have no data"), "{}", page.html);
}

#[tokio::test]
async fn another_key_stands_in_the_texts_of_the_platform_that_was_chosen() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(&demo))).await;
    let page = owner.press(&page, "/drains", &[("name", "web")]).await;
    let blocks = |page: &Page| page.all_between("<div class=\"block\"><h3>", "<").map(str::to_owned).collect::<Vec<_>>();
    let of_code = blocks(&page);
    assert_ne!(blocks(&owner.open(&address(&page)).await), of_code, "the drain alone does not tell its platform");
    let page = owner.press(&page, "/rotate", &[]).await;
    assert!(pasted_key(&page).is_some(), "{}", page.html);
    assert_eq!(blocks(&page), of_code);
}

#[tokio::test]
async fn what_is_refused_is_said_beside_the_form_and_what_was_typed_stays() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=fastly", drains(&demo))).await;
    let typed = [("name", HOSTILE), ("hosts", "www.example.com, not-mine.example"), ("asked", "SU1Z0isxPaozGVKXdv0eY")];
    let page = owner.press(&page, "/drains", &typed).await;
    assert!(page.html.contains("role=\"alert\"") && page.html.contains("not-mine.example"), "{}", page.html);
    assert!(!page.html.contains("<script>alert"), "{}", page.html);
    let page = owner.press(&page, "/drains", &[("hosts", "")]).await;
    assert!(page.html.contains("contains the new key"), "{}", page.html);
    for page in [page, owner.open(&drains(&demo)).await] {
        assert!(page.html.contains("alert(1)") && !page.html.contains("<script>alert") && !page.html.contains("<img src=x"));
    }
}
