//! Log drains of the demo's owner.

use super::reader::{Page, Reader, unescaped};
use crate::demo::DemoApp;
use service_kit::testing::send_request;

pub(super) fn drains(demo: &DemoApp) -> String {
    format!("/console/o/{}/drains", demo.env("OWNER_ORG_ID"))
}

/// Returns the key in the command that a page shows.
pub(super) fn pasted_key(page: &Page) -> Option<String> {
    let text = unescaped(page.between("DRAIN_KEY=&#39;", "&#39;")?);
    text.starts_with("svc_").then_some(text)
}

/// Returns the path of the drain that a page shows.
pub(super) fn address(page: &Page) -> String {
    let action = page.actions().into_iter().find(|action| action.ends_with("/rotate")).unwrap();
    action.trim_end_matches("/rotate").to_owned()
}

pub(super) async fn feed(demo: &DemoApp, key: &str, lines: &str) -> u16 {
    let sent = demo.client.post(demo.url("/drains/ndjson")).header("x-api-key", key).header("content-type", "text/plain");
    send_request(sent.body(lines.to_owned())).await.status
}

/// Creates a drain and returns the path of its page, and its key.
pub(super) async fn new_drain(demo: &DemoApp) -> (String, String) {
    let mut owner = Reader::signed_in(demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(demo))).await;
    let page = owner.press(&page, "/drains", &[("name", "our server")]).await;
    (demo.url(&address(&page)), pasted_key(&page).unwrap())
}
