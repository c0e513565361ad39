//! A publisher gets from sign-up to the first event, without scripts or the API.

use super::Reader;
use super::reader::unescaped;
use crate::demo::{Demo, DemoApp};
use service_kit::testing::{DnsRecord, TestDns, eventually};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::process::Command;

const DOMAIN: &str = "console.test";

pub(super) fn mailed_link(demo: &DemoApp, email: &str) -> Option<String> {
    let mails = std::fs::read_dir(demo.folder().join("mail")).ok()?;
    let mut mails = mails.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let own = mails.find(|mail| mail.contains(&format!("To: {email}")) && mail.contains("/sign-in?token="))?;
    own.split_whitespace().find(|word| word.contains("/sign-in?token=")).map(str::to_owned)
}

/// Starts a stack with its own name server. Returns the TXT records that the server serves.
pub(super) async fn demo_with_a_zone() -> (DemoApp, Arc<Mutex<HashMap<String, String>>>, TestDns) {
    let zone: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let published = Arc::clone(&zone);
    let dns = TestDns::start(move |name| published.lock().unwrap().get(name).cloned().map(DnsRecord::Text).into_iter().collect());
    let dns = dns.await;
    let demo = Demo::start_with(&[("TELEMETRY_DNS_SERVER", dns.address.to_string())]).await;
    (demo, zone, dns)
}

#[tokio::test]
async fn u5_publisher_reaches_first_event_without_scripts() {
    let (demo, zone, _dns) = demo_with_a_zone().await;

    // Sign in, on another device than the one that requested the link.
    let mut first_device = Reader::signed_out(&demo);
    let page = first_device.open("/").await;
    assert_eq!((page.status, page.address.as_str()), (200, "/sign-in"));
    let page = first_device.press(&page, "/sign-in", &[("email", "publisher@console.test")]).await;
    assert!(page.html.contains("Check your email"), "{}", page.html);
    let link = eventually("the email arrives", || async { mailed_link(&demo, "publisher@console.test") }).await;
    let path = link.strip_prefix(demo.env("BASE_URL")).expect("the link is not one to the console").to_owned();
    let mut reader = Reader::signed_out(&demo);
    let page = reader.open(&path).await;
    assert_eq!(page.headers["referrer-policy"], "no-referrer", "the referrer could reveal the token");
    assert!(reader.cookies.is_empty(), "opening the link signed in");
    let landing = page;
    assert!(landing.html.contains("in another browser") && landing.html.contains("p…@console.test"), "{}", landing.html);
    let address = [("email", "publisher@console.test")];
    let page = reader.press(&landing, "/sign-in/finish", &address).await;
    assert_eq!((page.status, page.address.as_str()), (200, "/console/organizations"), "{}", page.html);
    let again = Reader::signed_out(&demo).press(&landing, "/sign-in/finish", &address).await;
    assert!(again.status == 401 && again.html.contains("no longer works"), "{}: {}", again.status, again.html);

    // Create an organization and verify its domain.
    let page = reader.press(&page, "/console/organizations", &[("name", "Console Press"), ("domain", DOMAIN)]).await;
    assert!(page.status == 200 && page.html.contains("Organization created."), "{}: {}", page.address, page.html);
    let home = page.address.split_once("/start").unwrap().0.to_owned();
    let page = reader.press(&page, "/verify", &[]).await;
    assert!(page.html.contains("role=\"alert\""), "the page does not show what was found: {}", page.html);
    assert!(page.html.contains("Not verified yet") && page.html.contains("_content-telemetry."), "{}", page.html);
    let verify = page.actions().iter().find(|action| action.ends_with("/verify")).unwrap().clone();
    let opened = reader.open(&verify).await;
    assert!(opened.status == 405 && opened.html.contains("only accepts form submissions"), "{}: {}", opened.status, opened.html);
    let keys = reader.open(&format!("{home}/keys")).await;
    let early = reader.press(&keys, "/keys", &[("name", "too early"), ("scope", "telemetry:write")]).await;
    assert!(early.html.contains("verify your domain</a>"), "{}", early.html);
    let line = page.all_between("<code id=\"line-", "</code>").next().and_then(|code| code.split_once('>')).unwrap().1;
    zone.lock().unwrap().insert(format!("_content-telemetry.{DOMAIN}"), unescaped(line));
    let page = reader.press(&page, "/verify", &[]).await;
    assert!(page.html.contains("Domain verified."), "{}", page.html);

    // Create a key, which is shown once.
    let page = reader.open(&format!("{home}/keys")).await;
    let page = reader.press(&page, "/keys", &[("name", "web server")]).await;
    let key = page.between("<code id=\"created\">", "</code>").unwrap_or_else(|| panic!("{}", page.html)).to_owned();
    assert!(key.starts_with("svc_pub_"));
    let command = unescaped(page.between("<code id=\"trial\">", "</code>").unwrap());
    let page = reader.open(&format!("{home}/keys")).await;
    assert!(page.html.contains("web server") && !page.html.contains(&key));

    // Send an event with the command on the page.
    let waiting = reader.open(&format!("{home}/start")).await;
    assert!(waiting.html.contains("Waiting for the first event"));
    let pasted = Command::new("bash").args(["-c", &command]).output().await.unwrap();
    let said = String::from_utf8_lossy(&pasted.stdout).into_owned();
    assert!(said.contains("\"events_created\":1"), "{command}\n{said}");
    let reader = tokio::sync::Mutex::new(reader);
    let arrived = eventually("the event is on the page", || async {
        let page = reader.lock().await.open(&format!("{home}/start/arrival")).await;
        page.html.contains("Your first event arrived").then_some(page)
    })
    .await;
    assert!(!arrived.html.contains("hx-trigger"), "the page still polls");
    let mut reader = reader.into_inner();
    let overview = reader.open(&format!("{home}/overview")).await;
    assert_eq!(overview.figure("retrieved"), "1");

    // Sign out.
    let page = reader.press(&overview, "/sign-out", &[]).await;
    assert_eq!(page.address, "/sign-in");
    assert_eq!(reader.open(&format!("{home}/overview")).await.address, "/sign-in");
}
