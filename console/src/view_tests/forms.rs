//! Tests forms: their API requests, and how they show API errors.

use super::all_links::{kind, walk};
use super::reader::{Page, Reader, unescaped};
use super::stub::{AGENT, Call, HOSTILE, OWNER, Stub};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// An arbitrary number of a form that is accepted once.
const NUMBER: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
/// Input for the fields of the console's forms.
const TYPED: [(&str, &str); 17] = [
    ("name", "typed"),
    ("domain", "typed.example"),
    ("hosts", "www.example.com, shop.example.com"),
    ("asked", "SU1Z0isxPaozGVKXdv0eY"),
    ("scope", "telemetry:write"),
    ("email", "typed@example.net"),
    ("role", "member"),
    ("period", "2026-10"),
    ("url", "https://typed.example.net/hook"),
    ("event_type", "delegation.created"),
    ("org_type", "agent"),
    ("org_name", "Typed"),
    ("admin_email", "typed@example.net"),
    ("use_case", "to be typed"),
    ("note", "typed"),
    ("visible_in_click_token_lookups", "on"),
    ("share_sessions_via_click_tokens", "on"),
];

/// Submits a form and returns its API requests.
pub(super) async fn press(stub: &Stub, reader: &mut Reader, page: &Page, action: &str) -> Vec<Call> {
    let cookies = reader.cookies.clone();
    stub.calls();
    let there = reader.press(page, action, &TYPED).await;
    assert!(there.status < 500 && there.status != 404, "{action}: {}: {}", there.status, there.html);
    reader.cookies = cookies;
    stub.calls()
}

#[tokio::test]
async fn forms_send_all_fields_to_the_api() {
    let (stub, mut reader) = Stub::start().await;
    let (mut seen, mut told) = (BTreeSet::new(), String::new());
    let mut pages: Vec<Page> = walk(&stub, &mut reader).await.into_iter().map(|(page, _)| page).collect();
    for address in ["/sign-in", "/sign-in?token=a", "/sign-in/invite?token=a"] {
        pages.push(reader.open(address).await);
    }
    for page in pages {
        for action in page.actions() {
            let is_new = seen.insert((kind(&action), action.contains(AGENT)));
            let calls = if is_new { press(&stub, &mut reader, &page, &action).await } else { Vec::new() };
            for call in calls.iter().filter(|call| !call.operation.starts_with("GET ")) {
                let method = call.operation.split(' ').next().unwrap();
                let about = call.asks("organization_id").map(|id| format!(" of {id}")).unwrap_or_default();
                let _ = writeln!(told, "{action}\n    {method} {}{about} {}", call.path, call.body);
            }
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/forms.txt");
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        std::fs::write(&file, &told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(&file).unwrap_or_default(), "check the diff, then update it with WRITE_GOLDEN=1");
}

#[tokio::test]
async fn unchecked_box_sends_false() {
    let (stub, mut reader) = Stub::start().await;
    let page = reader.open(&format!("{OWNER}/settings")).await;
    reader.untick(&page, "/settings").await;
    let changed = |call: &Call| !call.operation.starts_with("GET ");
    let call = stub.calls().into_iter().find(changed).unwrap();
    assert_eq!(call.body, json!({"visible_in_click_token_lookups": false}));
    let endpoint = json!({"id": NUMBER, "url": "https://hooks.example.com/", "event_types": [], "created_at": "2026-11-01T10:00:00.000Z",
        "disabled_at": "2026-11-01T11:00:00.000Z", "last_attempt": null});
    stub.says("GET /api/v1/identity/webhooks/{id}", 200, endpoint);
    let page = reader.open(&format!("{OWNER}/webhooks/{NUMBER}")).await;
    assert!(
        page.html.contains("Disabled</span>") && !page.actions().iter().any(|action| action.ends_with("/test")),
        "{}",
        page.html
    );
    reader.press(&page, "/enable", &[]).await;
    assert_eq!(stub.calls().into_iter().find(changed).unwrap().body, json!({"disabled": false}));
}

/// Returns all form addresses of the route table, with example values for parameters.
fn form_addresses() -> Vec<String> {
    let routes = include_str!("../routes.rs").lines().filter(|line| line.contains("post("));
    let addresses = routes.filter_map(|line| line.split('"').nth(1)).map(|path| {
        let path = path.replace("/console/o/{organization}", OWNER).replace("{verdict}", "approve").replace("{answer}", "deny");
        path.replace("{id}", NUMBER).replace("{delivery}", NUMBER)
    });
    addresses.collect()
}

#[tokio::test]
async fn u4_rejects_forms_from_other_sites() {
    let (stub, mut reader) = Stub::start().await;
    let actions = form_addresses();
    assert!(actions.len() > 25 && actions.iter().all(|action| !action.contains('{')), "{actions:?}");
    for action in actions {
        for origin in [None, Some("null"), Some("https://attacker.example"), Some("http://127.0.0.1:1")] {
            let fields = [("name", "forged"), ("once", NUMBER)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            let page = reader.post(&action, &fields, origin).await;
            assert!(page.status == 403 && stub.calls().is_empty(), "{action} from {origin:?}: {}", page.status);
        }
        let page = reader.open(&action).await;
        assert!(page.status == 405 || page.html.contains("<form"), "{action}: {}", page.status);
        assert!(stub.calls().iter().all(|call| call.operation.starts_with("GET ")), "{action}");
    }
}

/// Reloading the response sends the form again with the same fields.
#[tokio::test]
async fn resubmitted_forms_create_only_one_secret() {
    let (stub, mut reader) = Stub::start().await;
    for (screen, action, secret) in [
        ("keys", "/keys", "id=\"created\""),
        ("webhooks", "/webhooks", "id=\"secret\""),
        ("drains?with=nginx", "/drains", "contains the new key"),
        ("webhooks/0195f3a0-0000-7000-8000-000000000050", "/rotate", "id=\"secret\""),
        ("drains/0195f3a0-0000-7000-8000-000000000060", "/rotate", "The previous key works for one more hour"),
    ] {
        let page = reader.open(&format!("{OWNER}/{screen}")).await;
        let made = reader.press(&page, action, &TYPED).await;
        assert!(made.html.contains(secret), "{screen}: {}", made.html);
        stub.calls();
        let again = reader.press(&page, action, &TYPED).await;
        assert!(again.html.contains("nothing new was created") && !again.html.contains(secret), "{screen}: {}", again.html);
        assert!(stub.calls().iter().all(|call| call.operation.starts_with("GET ")), "{screen}");
        let page = reader.open(&format!("{OWNER}/{screen}")).await;
        assert!(!page.html.contains(secret), "{screen} shows the secret again");
        assert!(reader.press(&page, action, &TYPED).await.html.contains(secret), "{screen}: a new form must create a new secret");
    }
}

#[tokio::test]
async fn rejected_forms_show_the_error_and_keep_input() {
    let (stub, mut reader) = Stub::start().await;
    let detail = format!("{HOSTILE}is refused");
    for (screen, action, operation, kept) in [
        (format!("{OWNER}/keys"), "/keys", "POST /api/v1/identity/api-keys", &[][..]),
        (format!("{OWNER}/keys"), "/revoke", "DELETE /api/v1/identity/api-keys/{id}", &[]),
        (format!("{OWNER}/domains"), "/domains", "POST /api/v1/identity/domains", &["typed.example"]),
        (format!("{OWNER}/domains"), "/verify", "POST /api/v1/identity/domains/{id}/verify", &[]),
        (
            format!("{OWNER}/drains?with=fastly"),
            "/drains",
            "POST /api/v1/identity/drains",
            &["\"typed\"", "shop.example.com", "SU1Z0"],
        ),
        (format!("{AGENT}/partners"), "/partners", "POST /api/v1/identity/delegation-requests", &[]),
        (format!("{OWNER}/webhooks"), "/webhooks", "POST /api/v1/identity/webhooks", &[]),
        (format!("{OWNER}/members"), "/members", "POST /api/v1/identity/organizations/{id}/members", &[]),
        (format!("{OWNER}/settings"), "/settings", "PATCH /api/v1/identity/settings", &[]),
        (
            format!("{OWNER}/views?page=overview&query=operator%3DTyped"),
            "/views",
            "POST /api/v1/identity/saved-views",
            &["\"typed\"", "operator=Typed"],
        ),
        (
            "/console/organizations".to_owned(),
            "/organizations",
            "POST /api/v1/identity/organizations",
            &["\"typed\"", "typed.example"],
        ),
        ("/console/requests".to_owned(), "/requests", "POST /api/v1/identity/agent-access-requests", &["Typed", "to be typed"]),
        ("/console/operator/requests".to_owned(), "/approve", "POST /api/v1/identity/operator/access-requests/{id}/approve", &[]),
        ("/console/operator/dead-letters".to_owned(), "/retry", "POST /api/v1/identity/operator/dead-letters/{id}/retry", &[]),
    ] {
        stub.refuses(operation, 409, &detail);
        let page = reader.open(&screen).await;
        let refused = reader.press(&page, action, &TYPED).await;
        assert!(refused.html.contains("role=\"alert\"") && refused.html.contains("is refused"), "{screen}: {}", refused.html);
        assert!(!refused.html.contains(HOSTILE), "{screen}: {}", refused.html);
        for kept in kept {
            assert!(refused.html.contains(kept), "{screen}: {kept}: {}", refused.html);
        }
    }
}

#[tokio::test]
async fn keeps_the_invite_until_it_is_invalid() {
    const CLAIM: &str = "POST /api/v1/identity/invites/claim";
    let (stub, mut reader) = Stub::start().await;
    let page = reader.open("/sign-in/invite?token=abc").await;
    assert!(page.html.contains("Accept invite") && page.headers["referrer-policy"] == "no-referrer", "{}", page.html);
    for (status, is_kept) in [(403, true), (404, false), (422, true), (409, false), (401, true), (410, false)] {
        stub.refuses(CLAIM, status, "Not this one.");
        reader.press(&page, "/sign-in/invite", &[]).await;
        assert_eq!(reader.cookies.contains_key("telemetry-invite"), is_kept, "{status}");
    }
    stub.says(CLAIM, 200, json!({"organization_id": OWNER.rsplit('/').next().unwrap()}));
    reader.cookies.insert("telemetry-invite".to_owned(), "abc".to_owned());
    let joined = reader.press(&page, "/sign-in/invite", &[]).await;
    assert!(joined.address.starts_with(OWNER) && !reader.cookies.contains_key("telemetry-invite"), "{}", joined.address);
    let text = reader.open("/sign-in/invite?token=%22%27%3E%3Cb%3E").await;
    assert!(!text.html.contains("<b>"), "{}", text.html);
}

#[tokio::test]
async fn forms_report_success() {
    let (_, mut reader) = Stub::start().await;
    for (screen, action, said) in [
        (format!("{OWNER}/keys"), "/revoke", "Key revoked."),
        (format!("{OWNER}/domains"), "/release", "Domain released."),
        (format!("{OWNER}/domains"), "/verify", "Domain verified."),
        (format!("{OWNER}/domains"), "/domains", "Domain added. Next, verify it."),
        (format!("{OWNER}/drains/0195f3a0-0000-7000-8000-000000000060"), "/delete", "Log drain deleted."),
        (format!("{OWNER}/partners"), "/approve", "Access granted."),
        (format!("{OWNER}/partners"), "/deny", "Request denied."),
        (format!("{OWNER}/partners"), "/revoke", "Access revoked."),
        (format!("{AGENT}/partners"), "/partners", "Request sent."),
        (format!("{OWNER}/webhooks/0195f3a0-0000-7000-8000-000000000050"), "/test", "Test sent."),
        (format!("{OWNER}/webhooks/0195f3a0-0000-7000-8000-000000000050"), "/redeliver", "The delivery will be sent again"),
        (format!("{OWNER}/members"), "/role", "Role changed."),
        (format!("{OWNER}/members"), "/members", "Invite sent."),
        (format!("{OWNER}/members"), "/withdraw", "Invite withdrawn."),
        (format!("{OWNER}/settings"), "/settings", "Settings saved."),
        (format!("{OWNER}/views?page=overview&query=period%3D30d"), "/views", "View saved."),
        (format!("{OWNER}/views"), "/delete", "View deleted."),
        ("/console/organizations".to_owned(), "/organizations", "Organization created."),
        ("/console/requests".to_owned(), "/requests", "Request sent."),
        ("/console/operator/requests".to_owned(), "/approve", "Request approved."),
        ("/console/operator/requests".to_owned(), "/reject", "Request rejected."),
        ("/console/operator/dead-letters".to_owned(), "/retry", "Retry requested."),
    ] {
        let page = reader.open(&screen).await;
        let there = reader.press(&page, action, &TYPED).await;
        let shown = there.between("<p class=\"notice good\" role=\"status\">", "</p>").unwrap_or_default();
        assert!(shown.starts_with(said), "{screen} {action}: {shown}: {}", there.html);
    }
    let planted = reader.open(&format!("{OWNER}/keys?done=<b>")).await;
    assert!(!planted.html.contains("role=\"status\""), "{}", planted.html);
}

#[tokio::test]
async fn destructive_forms_ask_for_confirmation() {
    let (stub, mut reader) = Stub::start().await;
    let mut asked = BTreeSet::new();
    for (page, _) in walk(&stub, &mut reader).await {
        for (before, rest) in page.html.match_indices("<form method=\"post\"").map(|(at, _)| page.html.split_at(at)) {
            let action = rest.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            let is_open = before.matches("<details").count() > before.matches("</details>").count();
            if ["/revoke", "/remove", "/delete", "/release", "/role"].iter().any(|end| action.ends_with(end)) {
                assert!(
                    is_open && rest.split("</form>").next().unwrap().contains("<p class=\"small\">"),
                    "{}: {action}",
                    page.address
                );
                asked.insert(action.rsplit('/').next().unwrap_or_default().to_owned());
            }
        }
    }
    assert_eq!(asked.len(), 5, "{asked:?}");
}

#[tokio::test]
async fn form_keeps_its_text_when_the_session_has_ended() {
    const WHOAMI: &str = "GET /api/v1/identity/auth/session";
    let (stub, mut reader) = Stub::start().await;
    let page = reader.open("/console/requests").await;
    stub.refuses(WHOAMI, 401, "The session ended.");
    stub.calls();
    let kept = reader.press(&page, "/requests", &[("org_name", HOSTILE), ("use_case", "a long text")]).await;
    assert!(
        kept.status == 401 && kept.html.contains("Your session has ended") && kept.html.contains("<dd>a long text</dd>"),
        "{}",
        kept.html
    );
    assert!(!kept.html.contains(HOSTILE) && stub.calls().iter().all(|call| call.operation == WHOAMI), "{}", kept.html);
    stub.recovers(WHOAMI);
    reader.press(&kept, "/requests", &[]).await;
    let sent = stub.calls().into_iter().find(|call| call.operation.starts_with("POST ")).unwrap();
    assert_eq!((&sent.body["org_name"], &sent.body["use_case"]), (&json!(HOSTILE), &json!("a long text")));
}

#[tokio::test]
async fn guide_shows_the_results_of_its_forms() {
    const EVENTS: &str = "GET /content-owners/events";
    let (stub, mut reader) = Stub::start().await;
    let domain = json!({"id": NUMBER, "organization_id": NUMBER, "domain": "example.net", "verified": false, "verification_method": null,
        "verification_token": "svcv_0", "created_at": "2026-11-01T10:00:00.000Z", "verified_at": null});
    stub.says("GET /api/v1/identity/domains", 200, json!([domain]));
    stub.says(EVENTS, 200, json!({"items": [], "total": 0, "limit": 1, "offset": 0}));
    stub.refuses("POST /api/v1/identity/domains/{id}/verify", 422, "Nothing found.");
    let page = reader.open(&format!("{OWNER}/start")).await;
    let refused = reader.press(&page, "/verify", &[]).await;
    assert!(refused.html.contains("<h1>Get started</h1>") && refused.html.contains("Not verified yet"), "{}", refused.html);
    stub.recovers("POST /api/v1/identity/domains/{id}/verify");
    assert_eq!(reader.press(&page, "/verify", &[]).await.address, format!("{OWNER}/start?done=domain-verified"));
    let part = format!("{OWNER}/start/arrival");
    assert_eq!(reader.part(&part).await.status, 204, "a step that still waits must not be replaced");
    stub.recovers(EVENTS);
    let arrived = reader.part(&part).await;
    assert!(arrived.html.starts_with("<li id=\"arrival\" class=\"step card done\"><div>"), "{}", arrived.html);
    assert!(arrived.html.contains("Events are arriving.") && !arrived.html.contains("hx-get"), "{}", arrived.html);
    let lines = reader.part(&format!("{OWNER}/drains/0195f3a0-0000-7000-8000-000000000060/lines")).await;
    assert!(lines.html.contains("aria-label=\"Hours\"") && lines.html.contains("<h2>Coverage</h2>"), "{}", lines.html);
}

#[tokio::test]
async fn agent_guide_shows_a_session_to_send() {
    const EVENTS: &str = "GET /agent/events";
    let (stub, mut reader) = Stub::start().await;
    stub.says(EVENTS, 200, json!({"items": [], "total": 0, "limit": 1, "offset": 0}));
    let page = reader.open(&format!("{AGENT}/start")).await;
    for part in ["<h1>Get started</h1>", "/sessions/bulk", "Waiting for the first event.", "Track visits"] {
        assert!(page.html.contains(part), "{part}: {}", page.html);
    }
    let arrival = format!("{AGENT}/start/arrival");
    assert_eq!(reader.part(&arrival).await.status, 204);
    stub.recovers(EVENTS);
    let arrived = reader.part(&arrival).await;
    assert!(arrived.html.contains("Events are arriving.") && !arrived.html.contains("hx-get"), "{}", arrived.html);
}

#[tokio::test]
async fn engagements_with_click_tokens_are_visits() {
    let (stub, mut reader) = Stub::start().await;
    let event = |reporter: &str| {
        json!({"event_id": NUMBER, "session_id": NUMBER, "event_type": "content_engaged", "content_url": "https://example.com/",
            "event_timestamp": "2026-11-01T10:00:00.000Z", "event_data": {}, "platform_id": NUMBER, "agent_id": "", "source_role": "origin",
            "content_telemetry_id": "", "reported_by": reporter})
    };
    stub.says("GET /agent/events", 200, json!({"items": [event("self"), event("other")], "total": 2, "limit": 50, "offset": 0}));
    let page = reader.open(&format!("{AGENT}/reports?since=2026-11-01&until=2026-11-02")).await;
    let types: Vec<String> = page.tables().remove(0).rows.iter().map(|row| row[1].clone()).collect();
    assert_eq!(types, ["Engagement", "Visit"]);
}

#[tokio::test]
async fn accepts_a_pasted_url_as_a_domain() {
    let (stub, mut reader) = Stub::start().await;
    let domain = json!({"id": NUMBER, "organization_id": NUMBER, "domain": "example.net", "verified": false, "verification_method": null,
        "verification_token": "svcv_0", "created_at": "2026-11-01T10:00:00.000Z", "verified_at": null});
    stub.says("POST /api/v1/identity/domains", 201, domain);
    let page = reader.open(&format!("{OWNER}/domains")).await;
    let told = "You entered an address. Its domain, <strong>example.net</strong>, was added.";
    for (typed, is_told) in [("https://Example.net/about?a=1", true), ("example.net", false), ("EXAMPLE.NET", false)] {
        let added = reader.press(&page, "/domains", &[("domain", typed)]).await;
        assert_eq!(added.html.contains(told), is_told, "{typed}: {}", added.html);
    }
    assert!(!reader.open(&format!("{OWNER}/domains?used=evil.example")).await.html.contains("was added"));
}

#[tokio::test]
async fn owners_of_a_verified_domain_get_license_terms() {
    let (stub, mut reader) = Stub::start().await;
    let domain = |is_verified: bool| {
        json!([{"id": NUMBER, "organization_id": NUMBER, "domain": "example.net", "verified": is_verified, "verification_method": null,
            "verification_token": "svcv_0", "created_at": "2026-11-01T10:00:00.000Z", "verified_at": null}])
    };
    for is_verified in [false, true] {
        stub.says("GET /api/v1/identity/domains", 200, domain(is_verified));
        let page = reader.open(&format!("{OWNER}/domains")).await.html;
        let text = unescaped(&page);
        for terms in ["<reporting type=\"telemetry\"", "/events\">\n<![CDATA[{\"conformance_level\"", "\"reporturl\": \"http"] {
            assert_eq!(text.contains(terms), is_verified, "{terms}: {text}");
        }
    }
}
