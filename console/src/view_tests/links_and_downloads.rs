//! Tests addresses: errors, redirects, links and downloads.

use super::reader::{Page, Reader};
use super::stub::{AGENT, OWNER, Stub};
use serde_json::json;
use std::collections::BTreeSet;

const WHOAMI: &str = "GET /api/v1/identity/auth/session";
const NOBODY: &str = "01900000-0000-7000-8000-000000000000";

#[tokio::test]
async fn error_pages_show_the_users_navigation() {
    let (stub, mut reader) = Stub::start().await;
    stub.refuses("GET /api/v1/identity/operator/webhooks/{id}", 404, "Endpoint not found.");
    stub.refuses("GET /content-owners/urls", 400, "path must start with a slash");
    stub.refuses("GET /content-owners/crawlers", 503, "It is away.");
    stub.refuses("GET /content-owners/funnel", 403, "Share data with the organization in seen_by.");
    let invalid = "The address contains an invalid parameter.";
    for (path, status, said, is_about_own) in [
        ("/o/overview?period=ever", 400, "period must be one of", true),
        ("/o/overview?offset=none", 400, invalid, true),
        ("/o/export/events.csv?since=-99999-1-1&until=%2B99999-1-1", 400, "Use the format YYYY-MM-DD", true),
        ("/o/events?live=1&live=2", 400, invalid, true),
        ("/o/event/citation-1?at=yesterday", 400, "Request <code>", true),
        ("/o/audit?offset=x", 400, invalid, true),
        ("/o/refused?offset=x", 400, invalid, true),
        ("/o/export/events.csv?offset=x", 400, invalid, true),
        ("/o/export/pages.csv?path=none", 400, "path must start with a slash", true),
        ("/o/export/keys.xlsx", 404, "Page not found", true),
        ("/o/export/nothing.csv", 404, "Page not found", true),
        ("/o/export/deliveries.csv", 404, "Page not found", true),
        ("/o/assistants", 503, "/assistants\">Try again</a>", true),
        ("/o/funnel", 403, "Share data", true),
        ("/o/webhooks/nothing", 404, "Page not found", true),
        ("/o/nothing/here", 404, "Page not found", true),
        ("/o/keys/01900000-0000-7000-8000-000000000000/revoke", 405, "only accepts form submissions", true),
        ("/console/o/01900000-0000-7000-8000-000000000000/overview", 404, "Page not found", false),
        ("/console/o/01900000-0000-7000-8000-000000000000/nothing", 404, "Page not found", false),
        ("/console/operator/requests?status=a&status=b", 400, invalid, false),
        ("/console/operator/organizations?offset=x", 400, invalid, false),
        ("/console/operator/webhooks?offset=x", 400, invalid, false),
        ("/console/operator/dead-letters?offset=x", 400, invalid, false),
        ("/console/operator/usage?offset=x", 400, invalid, false),
        ("/console/operator/webhooks/01900000-0000-7000-8000-000000000000", 404, "Endpoint not found", false),
        ("/console/nothing", 404, "Page not found", false),
        ("/sign-in?token=a&token=b", 400, invalid, false),
    ] {
        let page = reader.open(&path.strip_prefix("/o/").map_or(path.to_owned(), |screen| format!("{OWNER}/{screen}"))).await;
        assert!(page.status == status && page.html.contains(said), "{path}: {}: {}", page.status, page.html);
        assert_eq!(page.html.contains(&format!("href=\"{OWNER}/overview\"")), is_about_own, "{path}: {}", page.html);
        assert!(page.html.contains("Request <code>") && !page.html.contains(&format!("href=\"/console/o/{NOBODY}")), "{path}");
    }
    let refused = reader.open(&format!("{OWNER}/pages?path=%3Cb%3E")).await;
    assert!(
        refused.status == 400 && refused.html.contains("Enter a path") && refused.html.contains("value=\"&#60;b&#62;\""),
        "{}",
        refused.html
    );
    assert_eq!(stub.faults(), [].into());
}

#[tokio::test]
async fn u4_redirects_signed_out_users_to_sign_in() {
    let (stub, mut reader) = Stub::start().await;
    let mut nobody = Reader::new(reader.base());
    let screens = ["/console", "/console/operator/webhooks", "/console/export/agent-access-requests.csv"].map(str::to_owned);
    let all = screens.into_iter().chain(["overview", "keys", "export/keys.csv"].map(|screen| format!("{OWNER}/{screen}")));
    let all: Vec<String> = all.collect();
    for address in &all {
        assert_eq!(nobody.open(address).await.address, "/sign-in", "{address}");
    }
    assert!(stub.calls().iter().all(|call| call.operation.starts_with("GET /api/v1/identity/auth/")));
    stub.refuses(WHOAMI, 401, "The session ended.");
    for address in &all {
        assert_eq!(reader.open(address).await.address, "/sign-in", "{address}");
    }
    for part in ["events/tail", "start/arrival"] {
        let page = reader.part(&format!("{OWNER}/{part}")).await;
        assert_eq!((page.status, page.headers["hx-redirect"].to_str().unwrap()), (204, "/sign-in"), "{part}");
    }
    stub.says("GET /api/v1/identity/auth/oidc", 200, json!([]));
    assert!(!nobody.open("/sign-in").await.html.contains("/auth/oidc/"), "a button is shown without providers");
}

#[tokio::test]
async fn console_opens_the_users_first_screen() {
    let (stub, mut reader) = Stub::start().await;
    let membership = |home: &str, kind: &str| json!({"organization_id": home.rsplit('/').next().unwrap(), "name": "One", "org_type": kind, "role": "member"});
    for (memberships, is_operator, first) in [
        (vec![membership(OWNER, "content_owner")], false, format!("{OWNER}/overview")),
        (vec![membership(AGENT, "agent")], true, format!("{AGENT}/reported")),
        (vec![membership(OWNER, "content_owner"), membership(AGENT, "agent")], true, "/console/organizations".to_owned()),
        (vec![], true, "/console/operator/requests".to_owned()),
        (vec![], false, "/console/organizations".to_owned()),
    ] {
        let who =
            json!({"user": {"id": NOBODY, "email": "owner@example.com"}, "is_operator": is_operator, "memberships": memberships});
        stub.says(WHOAMI, 200, who);
        let page = reader.open("/").await;
        assert_eq!(page.address, first);
        assert_eq!(page.html.contains("All organizations"), is_operator, "{first}");
    }
}

/// Returns a page's links to these screens, to itself and to files.
fn links(page: &Page) -> Vec<String> {
    let screens = ["overview", "events", "event", "pages", "corroboration", "funnel", "assistants", "export"];
    let is_of = |to: &String| screens.iter().any(|screen| to.starts_with(&format!("{OWNER}/{screen}")));
    page.led_to().into_iter().filter(is_of).collect()
}

#[tokio::test]
async fn links_keep_period_partner_path_and_sort_order() {
    let (stub, mut reader) = Stub::start().await;
    let partner = "0195f3a0-0000-7000-8000-000000000004";
    for screen in ["overview", "events", "event/citation-1", "pages", "corroboration", "funnel", "assistants"] {
        let page = reader
            .open(&format!("{OWNER}/{screen}?since=2026-10-01&until=2026-10-30&domain=example.com&seen_by={partner}"))
            .await;
        assert!(page.html.contains("viewing your data as <strong>Demo Network</strong> sees it"), "{screen}: {}", page.html);
        let lost: Vec<String> = links(&page).into_iter().filter(|to| !to.contains(partner)).collect();
        let is_way_back = |to: &String| page.html.contains(&format!("{}\">Back to your own view", to.replace('&', "&#38;")));
        assert!(lost.iter().all(is_way_back) && lost.len() <= 1, "{screen}: {lost:?}");
        let calls = stub.calls();
        let reads = calls.iter().filter(|call| call.operation.contains("/content-owners/"));
        assert!(
            reads.clone().count() > 0 && reads.clone().all(|call| call.asks("seen_by") == Some(partner)),
            "{screen}: {calls:?}"
        );
    }
    let narrowed = "path=/blog/*&sort=-content_url&since=2026-10-01&until=2026-10-30&by=section";
    let page = reader.open(&format!("{OWNER}/pages?{narrowed}")).await;
    for text in ["90 days", "Next", "CSV", "NDJSON"] {
        let to = page.led_to().into_iter().find(|to| {
            page.html.contains(&format!("{}\">{text}</a>", to.split('?').nth(1).unwrap_or("?").replace('&', "&#38;")))
        });
        let to = to.unwrap_or_else(|| panic!("no link {text}: {}", page.html));
        assert!(to.contains("path=%2Fblog%2F*") && to.contains("sort=-content_url") && to.contains("by=section"), "{text}: {to}");
    }
    assert!(page.html.contains("1\u{2013}50 of 120") && page.html.contains("name=\"path\" value=\"/blog/*\""), "{}", page.html);
}

/// Each line from the stub contains its position in the list.
#[tokio::test]
async fn downloads_contain_every_page() {
    let (stub, mut reader) = Stub::start().await;
    for (items, list, csv) in [
        (2_000, "pages", "place,fetched\r\n0,7\r\n1000,7\r\nTotal,14\n"),
        (2_001, "pages", "place,fetched\r\n0,7\r\n1000,7\r\n2000,7\r\nTotal,21\n"),
        (2_001, "events", "place,fetched\r\n0,7\r\ncursor,7\r\nTotal,14\n"),
        (2_001, "series", "place,fetched\r\n0,7\r\nTotal,7\n"),
        (0, "funnel", "place,fetched\r\n0,7\r\nTotal,7\n"),
    ] {
        stub.has_items_in_files(items);
        let file = reader.open(&format!("{OWNER}/export/{list}.csv?since=2026-10-01&until=2026-10-30")).await;
        assert_eq!(file.html, format!("\u{feff}{csv}"), "{list} of {items}");
        let table = if list == "series" { "events-over-time" } else { list };
        let name = format!("attachment; filename=\"example-publisher-{table}-2026-10-01-to-2026-10-30.csv\"");
        assert_eq!(
            (file.headers["content-type"].to_str().unwrap(), file.headers["content-disposition"].to_str().unwrap()),
            ("text/csv; charset=utf-8", name.as_str())
        );
        let lines = reader.open(&format!("{OWNER}/export/{list}.ndjson?since=2026-10-01&until=2026-10-30")).await;
        let places = csv.replace(",7\r\n", "\r\n").replace("place,fetched\r\n", "");
        assert_eq!(lines.html, places.split("Total").next().unwrap(), "{list} of {items}");
    }
    let days = "since=2026-10-01&until=2026-10-30";
    for (address, name) in [
        (
            format!("series.csv?{days}&by=day&split=operator&outcome=fetch"),
            "fetches-by-operator-over-time-2026-10-01-to-2026-10-30",
        ),
        (format!("series.csv?{days}&by=hour&split=agent"), "events-by-agent-over-time-2026-10-01-to-2026-10-30"),
        (format!("funnel.csv?{days}&by=day"), "funnel-by-day-2026-10-01-to-2026-10-30"),
        (format!("operators.csv?{days}"), "operators-2026-10-01-to-2026-10-30"),
        ("keys.csv?".to_owned(), "keys-2026-11-01"),
    ] {
        let file = reader.open(&format!("{OWNER}/export/{address}")).await;
        let named = format!("attachment; filename=\"example-publisher-{name}.csv\"");
        assert_eq!(file.headers["content-disposition"].to_str().unwrap(), named, "{address}");
    }
    let keys = reader.open(&format!("{OWNER}/export/keys.csv")).await.html;
    assert!(keys.starts_with("\u{feff}id,name,prefix,") && keys.contains(",ci,svc_pub_4fZ,"), "{keys}");
    assert_eq!(reader.open(&format!("{OWNER}/export/keys.ndjson")).await.html.lines().count(), 2);
}

#[tokio::test]
async fn sign_in_returns_to_the_opened_page() {
    let (stub, reader) = Stub::start().await;
    let finish = |token: &str| vec![("token".to_owned(), token.to_owned())];
    for (opened, part, to) in [
        (
            format!("{OWNER}/pages?path=%2Fblog%2F*&sort=-last_seen"),
            false,
            format!("{OWNER}/pages?path=%2Fblog%2F*&sort=-last_seen"),
        ),
        (format!("{OWNER}/export/keys.csv"), false, "/console".to_owned()),
        (format!("{OWNER}/start/arrival"), true, "/console".to_owned()),
    ] {
        let mut nobody = Reader::new(reader.base());
        if part {
            nobody.part(&opened).await
        } else {
            nobody.open(&opened).await
        };
        let base = reader.base().to_owned();
        let finished = nobody.post("/sign-in/finish", &finish("a"), Some(&base)).await;
        assert_eq!((finished.status, finished.headers["location"].to_str().unwrap()), (303, to.as_str()), "{opened}");
        assert!(!nobody.cookies.contains_key("telemetry-return") || part, "{opened}: the address is kept");
    }
    assert_eq!(stub.faults(), [].into());
}

#[tokio::test]
async fn invalid_dates_keep_the_filters() {
    let (_, mut reader) = Stub::start().await;
    for (dates, invalid, said) in [
        ("since=2026-02-30&until=2026-03-01", &["since"][..], "“from” date is invalid"),
        ("since=2026-03-01&until=soon", &["until"], "“to” date is invalid"),
        ("since=2026-03-02&until=2026-03-01", &["since", "until"], "The start date is after the end date."),
    ] {
        for screen in ["overview", "pages", "assistants"] {
            let page = reader.open(&format!("{OWNER}/{screen}?{dates}&domain=example.com")).await;
            assert!(page.status == 200 && page.html.contains(said), "{screen}: {}", page.html);
            assert!(page.html.contains("Showing the last 30 days instead."), "{screen}: {}", page.html);
            let inputs =
                page.all_between("<input type=\"date\" name=\"", ">").filter(|input| input.contains("aria-invalid=\"true\""));
            let marked: Vec<_> = inputs.filter_map(|input| input.split('"').next()).collect();
            assert_eq!(marked, invalid, "{screen}?{dates}");
            assert!(page.html.contains("<option selected>example.com</option>"), "{screen}: {}", page.html);
        }
    }
}

/// The script adds rows that the page doesn't show yet.
#[tokio::test]
async fn live_page_requests_only_new_events() {
    let (stub, mut reader) = Stub::start().await;
    let page = reader.open(&format!("{OWNER}/events?live=1")).await;
    let keys: Vec<_> = page.all_between("<tr data-key=\"", "\"").collect();
    let tail = page.between("data-tail=\"", "\"").unwrap().replace("&#38;", "&");
    assert_eq!(keys.len(), 2, "{}", page.html);
    assert!(
        page.html.contains("/assets/live.js?") && page.html.contains("<button type=\"button\" data-pause hidden>Pause</button>"),
        "{}",
        page.html
    );
    assert!(!page.html.contains("hx-get"), "rows must not be replaced: {}", page.html);
    let known = reader.part(&format!("{tail}&known={}", keys.join("."))).await;
    assert_eq!((known.status, known.html.as_str()), (204, ""));
    let new = reader.part(&format!("{tail}&known={}", keys[1])).await;
    assert_eq!(new.all_between("<tr data-key=\"", "\"").collect::<Vec<_>>(), keys[..1], "{}", new.html);
    assert_eq!(stub.faults(), [].into());
}

#[tokio::test]
async fn printed_and_mobile_pages_show_their_title() {
    let (_, mut reader) = Stub::start().await;
    let page = reader.open(&format!("{OWNER}/assistants?since=2026-10-01&until=2026-10-30&domain=example.com")).await;
    let paper: Vec<_> = page.all_between("<p class=\"on-paper\">", "</p>").collect();
    let expected = [
        "<strong>Example Publisher</strong> · Assistants &#38; crawlers",
        "2026-10-01 to 2026-10-30 (UTC) · Domain: example.com",
        "Content Telemetry · Example Publisher · owner@example.com",
    ];
    assert_eq!(paper, expected);
    assert!(
        page.html
            .contains("<details class=\"menu\"><summary>Menu<span class=\"muted\"> · Assistants &#38; crawlers</span></summary>"),
        "{}",
        page.html
    );
    // Backgrounds aren't printed, and forced colors remove them, so the legend shows the lines' patterns.
    let legend = page.between("<ul class=\"legend\">", "</ul>").unwrap();
    assert!(legend.contains("<path class=\"line line-0\"") && !legend.contains("<span"), "{legend}");
    let css = include_str!("../../assets/console.css");
    for rule in [
        "@media (forced-colors: active)",
        "@page {",
        ".on-paper { display: block;",
        ".line.line-1 { stroke-dasharray:",
        ".menu { display: block;",
        "html { font: 400 100%/1.5 ",
    ] {
        assert!(css.contains(rule), "{rule}");
    }
    assert!(page.html.contains("<p class=\"value muted small\" role=\"status\"></p>"), "{}", page.html);
}

/// Every read except coverage gets the filters, every link and form keeps them, and each chip removes one.
#[tokio::test]
async fn filters_reach_every_read_and_can_be_removed() {
    let (stub, mut reader) = Stub::start().await;
    let all = [
        ("operator", "OpenAI", "Operator: <strong>OpenAI"),
        ("agent_or_bot", "GPTBot", "Agent or bot: <strong>GPTBot"),
        ("bot", "GPTBot", "Bot: <strong>GPTBot"),
        ("agent_id", "answer-engine", "Agent: <strong>answer-engine"),
        ("purpose", "training", "Purpose: <strong>Training"),
        ("verified", "false", "IP check: <strong>Mismatch"),
        ("evidence", "observed", "Evidence: <strong>Server only"),
        ("signature", "valid", "Signature: <strong>Valid"),
        ("status", "404", "Status code: <strong>404"),
        ("source_role", "edge", "Reported by: <strong>CDN"),
        ("path", "/blog/*", "Path: <strong>/blog/*"),
    ];
    let query: String = all.iter().map(|(name, value, _)| format!("&{name}={value}")).collect();
    for screen in ["overview", "events", "pages", "corroboration", "funnel", "assistants"] {
        let page = reader.open(&format!("{OWNER}/{screen}?period=last-month{query}")).await;
        let calls = stub.calls();
        let reads = calls.iter().filter(|call| call.operation.contains("/content-owners/") && !call.path.ends_with("/coverage"));
        let removals: BTreeSet<_> = page.led_to().into_iter().filter(|to| page.html.contains(&removal(to))).collect();
        for (name, value, chip) in all {
            assert!(
                reads.clone().count() > 0 && reads.clone().all(|call| call.asks(name) == Some(value)),
                "{screen} {name}: {calls:?}"
            );
            assert!(page.html.contains(chip), "{screen}: {chip}: {}", page.html);
            assert!(page.html.contains(&format!("name=\"{name}\"")), "{screen}: no field {name}");
            let without = removals.iter().filter(|to| !to.contains(&format!("&{name}=")));
            assert_eq!(without.count(), 1, "{screen} {name}: {removals:?}");
        }
        let events = page.led_to().into_iter().find(|to| to.starts_with(&format!("{OWNER}/events?"))).unwrap();
        assert!(events.contains("period=last-month") && events.contains("status=404"), "{screen}: {events}");
    }
    for (screen, links) in [
        ("overview?split=agent_or_bot", &["agent_or_bot=answer-engine", "source_role=edge"][..]),
        ("assistants?split=agent_or_bot", &["agent_or_bot=GPTBot"]),
        (
            "assistants",
            &["operator=OpenAI", "bot=GPTBot", "purpose=training", "verified=true", "evidence=corroborated", "status=403"],
        ),
        ("assistants?split=status", &["status=200"]),
        ("pages?by=page,agent", &["path="]),
        ("funnel", &["agent_or_bot=answer-engine", "agent_or_bot=GPTBot"]),
        (
            "corroboration",
            &["evidence=corroborated", "evidence=claimed", "evidence=observed", "evidence=unknown", "agent_or_bot="],
        ),
        ("pages", &["path=%2F"]),
        ("events", &["agent_or_bot=answer-engine"]),
    ] {
        let page = reader.open(&format!("{OWNER}/{screen}")).await;
        for link in links {
            assert!(page.led_to().iter().any(|to| to.contains(link)), "{screen}: {link}: {:?}", page.led_to());
        }
    }
    stub.says("GET /content-owners/funnel", 200, json!({"items": [], "total": 0, "limit": 50, "offset": 0}));
    let page = reader.open(&format!("{OWNER}/funnel?bot=Nobody")).await;
    assert!(page.html.contains("/funnel?period=30d\">Remove all filters</a>"), "{}", page.html);
    assert_eq!(stub.faults(), [].into());
}

fn removal(to: &str) -> String {
    format!("<a href=\"{}\"><span aria-hidden=\"true\">×</span>", to.replace('&', "&#38;"))
}

#[tokio::test]
async fn comparison_can_be_changed_and_turned_off() {
    let (stub, mut reader) = Stub::start().await;
    for (compare, since, said) in
        [("", "2026-09-01", "vs previous month"), ("year", "2025-10-01", "vs same period last year"), ("off", "", "")]
    {
        let page = reader.open(&format!("{OWNER}/overview?period=last-month&compare={compare}")).await;
        let mut since_of: Vec<_> = stub.calls().iter().filter_map(|call| call.asks("since").map(str::to_owned)).collect();
        since_of.retain(|since| since != "2026-10-01");
        assert!(since_of.iter().all(|of| of == since), "{compare}: {since_of:?}");
        assert_eq!(
            (since_of.is_empty(), page.html.contains("class=\"change")),
            (compare == "off", compare != "off"),
            "{compare}"
        );
        assert!(
            page.html.contains(said) && page.html.contains(&format!("<option value=\"{compare}\" selected>")),
            "{compare}: {}",
            page.html
        );
    }
}

#[tokio::test]
async fn users_can_choose_a_theme() {
    let (_, mut reader) = Stub::start().await;
    let base = reader.base().to_owned();
    let mut page = reader.open(&format!("{OWNER}/funnel?by=url")).await;
    assert!(!page.html.contains("data-theme"), "{}", page.html);
    let choice = |theme: &str, to: &str| [("theme", theme), ("to", to)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (theme, shown) in [("dark", " data-theme=\"dark\""), ("light", " data-theme=\"light\""), ("", ">"), ("neon", ">")] {
        let to = page.between("name=\"to\" value=\"", "\"").unwrap().to_owned();
        assert_eq!(to, format!("{OWNER}/funnel?by=url"));
        let sent = reader.post("/console/theme", &choice(theme, &to), Some(&base)).await;
        assert_eq!((sent.status, sent.headers["location"].to_str().unwrap()), (303, to.as_str()));
        page = reader.open(&to).await;
        assert!(page.html.contains(&format!("<html lang=\"en\"{shown}")), "{theme}: {}", page.html);
    }
    for to in ["https://attacker.example/", "//attacker.example/console/", "/sign-in", "/console/\\"] {
        let sent = reader.post("/console/theme", &choice("dark", to), Some(&base)).await;
        assert_eq!(sent.headers["location"].to_str().unwrap(), "/console", "{to}");
    }
    let css = include_str!("../../assets/console.css");
    assert!(css.contains(":root[data-theme=dark] { color-scheme: dark; }") && css.contains("--ink: light-dark("));
}

/// Neither an email nor an archive contains a key.
#[tokio::test]
async fn setup_page_shows_files_and_steps() {
    let (_, mut reader) = Stub::start().await;
    let page = reader.open(&format!("{OWNER}/drains/0195f3a0-0000-7000-8000-000000000060")).await;
    let file = page.led_to().into_iter().find(|to| to.ends_with(".zip")).unwrap_or_else(|| panic!("{}", page.html));
    let archive = reader.open(&file).await;
    assert_eq!((archive.status, archive.headers["content-type"].to_str().unwrap()), (200, "application/zip"));
    assert!(archive.html.starts_with("PK") && archive.html.contains("README.txt"));
    assert_eq!(reader.open(&format!("{OWNER}/drain-files/nothing.zip")).await.status, 404);
    let mail = page.between("href=\"mailto:", "\"").unwrap_or_else(|| panic!("{}", page.html));
    assert!(mail.starts_with("?subject=Send%20the%20access%20log") && mail.contains("YOUR-DRAIN-KEY"), "{mail}");
    let form = reader.open(&format!("{OWNER}/drains?with=nginx")).await;
    let made = reader.press(&form, "/drains", &[("name", "typed"), ("hosts", "")]).await;
    assert!(made.html.contains("contains the new key"), "{}", made.html);
    let mail = made.between("href=\"mailto:", "\"").unwrap();
    assert!(mail.contains("YOUR-DRAIN-KEY") && !mail.contains("svc_"), "{mail}");
    let domains = reader.open(&format!("{OWNER}/domains")).await;
    let mail = domains.between("href=\"mailto:", "\"").unwrap_or_else(|| panic!("{}", domains.html));
    assert!(mail.contains("_content-telemetry.") && mail.contains("svc-verify%3D"), "{mail}");
}
