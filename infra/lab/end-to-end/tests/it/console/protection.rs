//! What pages of others, strangers and hostile texts can do: nothing.

use super::clicks::Link;
use super::{AGENT_SCREENS, OWNER_SCREENS, Reader};
use crate::demo::Demo;
use chrono::TimeDelta;
use reqwest::Method;
use serde_json::json;
use service_kit::testing::Seed;
use std::collections::BTreeSet;

/// Of a form that is taken once, which anybody can make up.
const NUMBER: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}";

fn home(demo: &Demo, variable: &str) -> String {
    format!("/console/o/{}", demo.env(variable))
}

#[tokio::test]
async fn u3_every_page_says_that_nothing_is_loaded_from_elsewhere_and_nobody_frames_it() {
    let demo = Demo::start().await;
    let (mut owner, mut nobody) = (Reader::signed_in(&demo, "OWNER_SESSION"), Reader::nobody(&demo));
    let mut pages =
        vec![nobody.open("/sign-in").await, owner.open("/console/organizations").await, owner.open("/console/nowhere").await];
    for screen in OWNER_SCREENS {
        pages.push(owner.open(&format!("{}/{screen}", home(&demo, "OWNER_ORG_ID"))).await);
    }
    for page in &pages {
        let header = |name: &str| page.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{}: {policy}", page.address);
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{}: {policy}", page.address);
        assert_eq!((header("x-frame-options"), header("referrer-policy")), ("DENY", "no-referrer"), "{}", page.address);
        assert_eq!((header("cache-control"), header("x-content-type-options")), ("no-store", "nosniff"), "{}", page.address);
        for within in [" style=\"", "<style", "<script>", " onclick", "javascript:"] {
            assert!(!page.html.contains(within), "{}: {within}", page.address);
        }
        for loaded in page.all_between(" src=\"", "\"").chain(page.all_between("<link rel=\"stylesheet\" href=\"", "\"")) {
            assert!(loaded.starts_with("/assets/"), "{}: {loaded}", page.address);
        }
    }
    let assets: BTreeSet<String> =
        pages.iter().flat_map(|page| page.all_between("\"/assets/", "\"")).map(str::to_owned).collect();
    assert!(assets.len() >= 4, "{assets:?}");
    for asset in assets {
        let served = nobody.open(&format!("/assets/{asset}")).await;
        assert_eq!(served.status, 200, "{asset}");
        assert!(served.headers["cache-control"].to_str().unwrap().contains("immutable"), "{asset}");
    }
}

/// The session of somebody who is a member of an organisation, and owns none.
async fn member_of(demo: &Demo, variable: &str) -> String {
    let (seed, email) = (Seed(&demo.stores.pool), format!("{}@example.net", variable.to_lowercase()));
    let session = seed.session(&email, TimeDelta::days(1)).await;
    seed.join(&email, demo.env(variable).parse().unwrap()).await;
    session
}

#[tokio::test]
async fn u4_each_page_is_shown_to_whom_it_belongs_and_to_nobody_else() {
    let demo = Demo::start().await;
    let (own, agents) = (home(&demo, "OWNER_ORG_ID"), home(&demo, "AGENT_ORG_ID"));
    let (member, partner) = (member_of(&demo, "OWNER_ORG_ID").await, member_of(&demo, "NETWORK_ORG_ID").await);
    let grant = json!({"grantee_org_id": demo.env("NETWORK_ORG_ID")});
    let grant =
        demo.client.post(demo.url("/api/v1/identity/delegations")).header("x-api-key", demo.env("OWNER_KEY")).json(&grant);
    assert_eq!(crate::demo::answer(grant).await.status, 201);
    let partners = Reader::with_session(&demo, &partner).open(&format!("{}/partners", home(&demo, "NETWORK_ORG_ID"))).await;
    assert!(partners.html.contains("Example Publisher"), "the partner reads by delegation: {}", partners.html);
    let sessions = ["OWNER_SESSION", "AGENT_SESSION", "OPERATOR_SESSION", "USER_SESSION"].map(|variable| demo.env(variable));
    let [owner, agent, operator, somebody] = sessions;
    let mut told = String::new();
    for screen in OWNER_SCREENS.into_iter().chain(AGENT_SCREENS) {
        told += screen;
        for who in [owner, &member, &partner, agent, operator, somebody, ""] {
            let mut reader = if who.is_empty() { Reader::nobody(&demo) } else { Reader::with_session(&demo, who) };
            let page = reader.open(&format!("{own}/{screen}")).await;
            let seen = if page.address == "/sign-in" { "sign-in".to_owned() } else { page.status.to_string() };
            told += &format!(" {seen}");
            let is_shown = page.html.contains("Example Publisher");
            assert_eq!(is_shown, who == owner || who == member, "also around what is refused: {told}");
        }
        let by_agent = Reader::with_session(&demo, agent).open(&format!("{agents}/{screen}")).await.status;
        told += &format!(" | {by_agent}\n");
    }
    let hook = json!({"url": "https://shown-to-operators.example.net/", "event_types": ["delegation.created"]});
    let hook = demo.client.post(demo.url("/api/v1/identity/webhooks")).header("x-api-key", demo.env("OWNER_KEY")).json(&hook);
    let hook = crate::demo::answer(hook).await.body["id"].as_str().unwrap().to_owned();
    for screen in ["requests", "organizations", "webhooks", "webhooks/{id}", "export/webhooks.csv"] {
        told += &format!("operator/{screen}");
        for who in [owner, &member, &partner, agent, operator, somebody, ""] {
            let mut reader = if who.is_empty() { Reader::nobody(&demo) } else { Reader::with_session(&demo, who) };
            let page = reader.open(&format!("/console/operator/{}", screen.replace("{id}", &hook))).await;
            let seen = if page.address == "/sign-in" { "sign-in".to_owned() } else { page.status.to_string() };
            told += &format!(" {seen}");
            assert!(page.status == 200 || !page.html.contains("shown-to-operators"), "{told}");
        }
        told += "\n";
    }
    let columns = "owner, plain member, partner by delegation, agent, operator, somebody, nobody | the agent at home";
    assert_eq!(told, include_str!("roles.txt"), "{columns}");
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_answered_with_a_page() {
    let demo = Demo::start().await;
    let (own, mut owner) = (home(&demo, "OWNER_ORG_ID"), Reader::signed_in(&demo, "OWNER_SESSION"));
    let mut addresses = vec!["/sign-in?token=a&token=b".to_owned(), "/sign-in/invite?token=a&token=b".to_owned()];
    addresses.extend(
        ["requests?status=a&status=b", "organizations?offset=x", "webhooks?offset=x"]
            .map(|screen| format!("/console/operator/{screen}")),
    );
    let of_organization =
        ["overview?offset=-1", "events?live=1&live=2", "audit?offset=x", "refused?offset=x", "export/events.csv?offset=x"];
    addresses.extend(of_organization.map(|screen| format!("{own}/{screen}")));
    for address in addresses {
        let page = owner.open(&address).await;
        assert!(
            page.status == 400 && page.html.contains("The address contains an invalid parameter."),
            "{address}: {}: {}",
            page.status,
            page.html
        );
    }
    let page = owner.open(&format!("{own}/overview?since=-99999-1-1&until=%2B99999-1-1")).await;
    assert!(page.status == 400 && page.html.contains("Use the format YYYY-MM-DD"), "{}: {}", page.status, page.html);
}

/// The part of a page is not the sign-in page: the whole page goes there.
#[tokio::test]
async fn an_open_page_whose_session_ended_goes_to_the_sign_in_page() {
    let demo = Demo::start().await;
    for part in ["events/tail", "start/arrival"] {
        let page = Reader::nobody(&demo).part(&format!("{}/{part}", home(&demo, "OWNER_ORG_ID"))).await;
        assert_eq!((page.status, page.headers["hx-redirect"].to_str().unwrap()), (204, "/sign-in"), "{part}");
    }
}

/// Every address that takes a form, as the route table has it, with an organisation and ids in the place of names.
fn form_addresses(demo: &Demo) -> Vec<String> {
    let routes = include_str!("../../../../../../console/src/routes.rs").lines().filter(|line| line.contains("post("));
    let addresses = routes.filter_map(|line| line.split('"').nth(1)).map(|path| {
        let path =
            path.replace("{organization}", demo.env("OWNER_ORG_ID")).replace("{verdict}", "approve").replace("{answer}", "deny");
        path.replace("{id}", NUMBER).replace("{delivery}", NUMBER)
    });
    addresses.collect()
}

#[tokio::test]
async fn a_form_that_does_not_come_from_the_console_changes_nothing() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let mut actions: BTreeSet<String> = form_addresses(&demo).into_iter().collect();
    assert!(actions.len() > 25 && actions.iter().all(|action| !action.contains('{')), "{actions:?}");
    for screen in OWNER_SCREENS {
        actions.extend(owner.open(&format!("{}/{screen}", home(&demo, "OWNER_ORG_ID"))).await.actions());
    }
    actions.extend(owner.open("/console/organizations").await.actions());
    // Of each key what a form could change; when it was last used, every look changes.
    let keys = || async {
        let listed = demo.get(demo.env("OWNER_KEY"), "/api/v1/identity/api-keys").await.body;
        let keys = listed.as_array().unwrap().iter();
        keys.map(|key| (key["id"].clone(), key["revoked_at"].clone())).collect::<Vec<_>>()
    };
    let before = keys().await;
    for action in &actions {
        for origin in [None, Some("null"), Some("https://attacker.example"), Some("http://127.0.0.1:1")] {
            let fields = [("name", "forged"), ("once", NUMBER)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            let page = owner.post(action, &fields, origin).await;
            assert_eq!(page.status, 403, "{action} from {origin:?}");
        }
        // Of no other kind is a form, wherever it comes from, and no other method changes anything.
        let url = demo.url(action);
        let cookie = format!("telemetry-session={}", demo.env("OWNER_SESSION"));
        let send = async |method: Method, media: &str, site: &str| {
            let request = demo.client.request(method, &url).header("cookie", &cookie).header("origin", demo.env("BASE_URL"));
            request
                .header("sec-fetch-site", site)
                .header("content-type", media)
                .body("name=forged")
                .send()
                .await
                .unwrap()
                .status()
                .as_u16()
        };
        for site in ["cross-site", "same-site", "none", "same-origin, cross-site"] {
            let status = send(Method::POST, "application/x-www-form-urlencoded", site).await;
            assert_eq!(status, 403, "{action} from {site}");
        }
        for method in [Method::PUT, Method::PATCH, Method::DELETE] {
            let status = send(method.clone(), "application/x-www-form-urlencoded", "same-origin").await;
            assert_eq!(status, 405, "{method} {action}");
        }
    }
    assert_eq!(keys().await, before);
    let still = owner.open("/console").await;
    assert_ne!(still.address, "/sign-in", "not even signed out");
}

/// Whoever plants a session in a browser before somebody signs in there has none of theirs.
#[tokio::test]
async fn a_session_from_before_the_sign_in_is_worth_nothing_after_it() {
    let demo = Demo::start().await;
    let mut victim = Reader::signed_in(&demo, "USER_SESSION");
    let planted = victim.cookies["telemetry-session"].clone();
    let page = victim.open("/sign-in").await;
    victim.press(&page, "/sign-in", &[("email", "victim@example.net")]).await;
    let token = service_kit::testing::eventually("the mail arrives", || async {
        let mails = std::fs::read_dir(demo.folder().join("mail")).ok()?;
        let mut mails = mails.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let own = mails.find(|mail| mail.contains("To: victim@example.net"))?;
        own.split_once("?token=")?.1.split_whitespace().next().map(str::to_owned)
    })
    .await;
    let page = victim.open(&format!("/sign-in?token={token}")).await;
    victim.press(&page, "/sign-in/finish", &[]).await;
    assert_ne!(victim.cookies["telemetry-session"], planted);
    let mut attacker = Reader::nobody(&demo);
    attacker.cookies.insert("telemetry-session".to_owned(), planted);
    assert_eq!(attacker.open("/console/organizations").await.address, "/sign-in");
}

#[tokio::test]
async fn what_a_stranger_writes_is_text_on_every_page() {
    let demo = Demo::start().await;
    let session = uuid_like();
    let event = json!({"events": [{
        "type": "content_retrieved", "timestamp": service_kit::clock::Clock::System.now().to_rfc3339(), "source_role": "agent",
        "session_id": session, "content_url": format!("https://www.example.com/?q={HOSTILE}"),
        "data": {"user_agent": HOSTILE, "bot_name": HOSTILE, "com.example.note": HOSTILE},
    }]});
    let started = json!({"agent_id": HOSTILE, "session_id": session});
    let start = demo.client.post(demo.url("/sessions/start")).header("x-api-key", demo.env("AGENT_KEY")).json(&started);
    let started = crate::demo::answer(start).await;
    let mut event = event;
    if let Some(id) = started.body["session_id"].as_str() {
        event["events"][0]["session_id"] = json!(id);
    }
    let sent = demo.post(demo.env("AGENT_KEY"), &event).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    let link = Link::make(&demo, Some(HOSTILE)).await;
    let click = link.click(service_kit::clock::Clock::System.now(), &format!("https://www.example.com/?click={HOSTILE}"));
    let sent = demo.post(demo.env("NETWORK_KEY"), &json!({"events": [click]})).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    demo.counts(2).await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let own = home(&demo, "OWNER_ORG_ID");
    let keys = owner.open(&format!("{own}/keys")).await;
    owner.press(&keys, "/keys", &[("name", HOSTILE)]).await;
    let mut shown = 0;
    for screen in OWNER_SCREENS.into_iter().chain(["funnel?by=url"]) {
        let page = owner.open(&format!("{own}/{screen}")).await;
        assert_eq!(page.status, 200, "{screen}: {}", page.html);
        for tag in ["<script>alert", "<img src=x"] {
            assert!(!page.html.contains(tag), "{screen}: {tag}");
        }
        shown += usize::from(page.html.contains("alert(1)"));
    }
    assert!(shown >= 4, "the text is shown on {shown} pages");
    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    for screen in AGENT_SCREENS {
        let page = agent.open(&format!("{}/{screen}", home(&demo, "AGENT_ORG_ID"))).await;
        assert!(page.status == 200 && page.html.contains("alert(1)"), "{screen}: {}", page.html);
        assert!(!page.html.contains("<script>alert") && !page.html.contains("<img src=x"), "{screen}");
    }
}

fn uuid_like() -> String {
    "67e55044-10b1-426f-9247-bb680e5fe0c9".to_owned()
}
