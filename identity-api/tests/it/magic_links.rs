//! Sign-in by email.

use crate::mailbox::Mailbox as _;
use crate::mailbox::token_in;
use crate::test_app::{Identity, MAGIC_LINK, Requests as _, SESSION, TestApp, VERIFY, sign_in};
use chrono::TimeDelta;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::testing::{Credentials, TestResponse, eventually, send_request};

/// Requests a link to this address and returns the browser's cookie.
async fn requested_in(app: &TestApp, email: &str) -> String {
    let asked = app.request(Method::POST, MAGIC_LINK, Credentials::Nothing).json(&json!({"email": email})).send().await.unwrap();
    let set = asked.headers()["set-cookie"].to_str().unwrap().to_owned();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=900; HttpOnly; SameSite=Lax");
    assert!(pair.starts_with("telemetry-link=") && !set.contains("example"), "{set}");
    pair.to_owned()
}

/// Submits the form of this service's page in a browser with this cookie.
async fn press(app: &TestApp, cookie: &str, fields: &str) -> (u16, String) {
    let form = app.request(Method::POST, VERIFY, Credentials::Nothing).header("origin", "http://telemetry.test");
    let form = form.header("cookie", cookie).header("content-type", "application/x-www-form-urlencoded");
    let pressed = form.body(fields.to_owned()).send().await.unwrap();
    (pressed.status().as_u16(), pressed.text().await.unwrap())
}

async fn verify(app: &TestApp, token: &str) -> TestResponse {
    app.post(Credentials::Nothing, VERIFY, &json!({"token": token})).await
}

#[tokio::test]
async fn emailed_tokens_create_one_session() {
    let app = Identity::open().await;
    let (org, _) = app.org("owner").await;
    app.session("jane@example.com", &[org]).await;
    let asked = app.ask_to_sign_in("Jane@Example.COM").await;
    assert_eq!((asked.status, asked.body), (202, json!({"status": "accepted"})));
    let token = app.token_mailed("jane@example.com", 1).await;
    let opened = verify(&app, &token).await;
    assert_eq!(opened.status, 200, "{}", opened.body);
    assert_eq!(opened.body.as_object().unwrap().keys().collect::<Vec<_>>(), ["expires_at", "session_id", "user"]);
    assert_eq!(opened.body["user"]["email"], "jane@example.com");
    let session = opened.text("session_id");
    assert_eq!(app.list(Credentials::Session(session)).await.status, 200, "the session acts for her organization");
    let me = app.get(Credentials::Session(session), SESSION).await.body;
    assert_eq!(me["user"], opened.body["user"]);
    assert_eq!(me["expires_at"], opened.body["expires_at"]);
    let refused = verify(&app, &token).await;
    assert_eq!(refused.refusal(), (401, "unauthenticated"), "a token works once");
    assert_eq!(app.count("SELECT count(*) FROM users").await, 1);
}

#[tokio::test]
async fn unknown_addresses_get_the_same_response_and_email() {
    let app = Identity::open().await;
    app.session("known@example.com", &[]).await;
    let (known, unknown) = (app.ask_to_sign_in("known@example.com").await, app.ask_to_sign_in("nobody@example.com").await);
    assert_eq!(known, unknown);
    let token = app.token_mailed("nobody@example.com", 1).await;
    let known_token = app.token_mailed("known@example.com", 1).await;
    let shape = |address: &str, token: &str| {
        let mail = app.mails().into_iter().find(|mail| mail.contains(address)).unwrap();
        mail.lines().filter(|line| !line.starts_with("Date:")).collect::<String>().replace(address, "…").replace(token, "…")
    };
    assert_eq!(shape("known@example.com", &known_token).len(), shape("nobody@example.com", &token).len());
    assert_eq!(app.count("SELECT count(*) FROM users").await, 1, "requesting a link creates no account");
    let opened = verify(&app, &token).await;
    assert_eq!(opened.status, 200);
    let me = app.get(Credentials::Session(opened.text("session_id")), SESSION).await.body;
    assert_eq!((&me["memberships"], &me["is_operator"]), (&json!([]), &json!(false)));
}

#[tokio::test]
async fn tokens_expire_after_15_minutes() {
    let app = Identity::open_with_manual_clock().await;
    for number in 1..=2 {
        app.ask_to_sign_in("jane@example.com").await;
        app.token_mailed("jane@example.com", number).await;
    }
    let mails = app.mails();
    let (first, second) = (token_in(&mails[0]), token_in(&mails[1]));
    let expected = verify(&app, "x").await;
    assert_eq!(expected.refusal(), (401, "unauthenticated"));
    app.clock.advance(TimeDelta::minutes(15) - TimeDelta::microseconds(1));
    assert_eq!(verify(&app, &first).await.status, 200, "valid until the end, despite the second email");
    assert_eq!(verify(&app, &second).await, expected, "signing in voids the other links");
    app.ask_to_sign_in("jane@example.com").await;
    let third = app.token_mailed("jane@example.com", 3).await;
    app.clock.advance(TimeDelta::minutes(15));
    for token in [third.as_str(), &first, "", " ", &format!("{third} "), &third.to_lowercase(), "\u{0}", "é", &"x".repeat(8_192)]
    {
        assert_eq!(verify(&app, token).await, expected, "{token:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM user_sessions").await, 1);
}

#[tokio::test]
async fn accounts_get_five_emails_in_15_minutes() {
    let app = Identity::open_with_manual_clock().await;
    for spelling in
        ["a@example.com", "A@example.com", "a@EXAMPLE.com", "a@example.com", "a@example.com", "a@example.com", "A@Example.com"]
    {
        let asked = app.ask_to_sign_in(spelling).await;
        assert_eq!((asked.status, asked.body), (202, json!({"status": "accepted"})));
    }
    app.token_mailed("a@example.com", 5).await;
    // This email is written after the other ones, because emails are sent in order.
    for _ in 0..3 {
        app.ask_to_sign_in("a@example.com").await;
    }
    app.ask_to_sign_in("b@example.com").await;
    app.token_mailed("b@example.com", 1).await;
    assert_eq!(app.count("SELECT count(*) FROM magic_links WHERE email = 'a@example.com'").await, 5);
    app.clock.advance(TimeDelta::minutes(15) + TimeDelta::seconds(1));
    app.ask_to_sign_in("a@example.com").await;
    app.token_mailed("a@example.com", 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_concurrent_redemption_wins() {
    const ROUNDS: usize = 20;
    let app = Identity::open().await;
    for round in 0..ROUNDS {
        let email = format!("jane{round}@example.com");
        app.ask_to_sign_in(&email).await;
        app.token_mailed(&email, 1).await;
        app.ask_to_sign_in(&email).await;
        app.token_mailed(&email, 2).await;
        let to = format!("To: {email}\r\n");
        let tokens: Vec<String> = app.mails().iter().filter(|mail| mail.contains(&to)).map(|mail| token_in(mail)).collect();
        let tries = (0..16).map(|n| verify(&app, &tokens[n % 2]));
        let statuses: Vec<u16> = futures::future::join_all(tries).await.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "round {round}: {statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 15, "round {round}: {statuses:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM user_sessions").await, 20);
}

#[tokio::test]
async fn links_open_the_configured_page() {
    let page = Some("https://console.example.com/sign-in?lang=de".parse().unwrap());
    let settings = SignInSettings { sign_in_url: page, ..sign_in() };
    let app = Identity::open_for(Clock::System, settings).await;
    app.ask_to_sign_in("jane@example.com").await;
    let token = app.token_mailed("jane@example.com", 1).await;
    let mail = &app.mails()[0];
    assert!(mail.contains(&format!("\r\nhttps://console.example.com/sign-in?lang=de&token={token}\r\n")), "{mail}");
    assert_eq!(verify(&app, &token).await.status, 200);
}

/// Opens the link and presses the button, as a person does.
#[tokio::test]
async fn sign_in_works_with_the_link_and_its_button() {
    let app = Identity::open().await;
    app.ask_to_sign_in("jane@example.com").await;
    let token = app.token_mailed("jane@example.com", 1).await;
    let mail = app.mails().remove(0);
    let (_, text) = mail.split_once("\r\n\r\n").unwrap();
    let link = format!("http://telemetry.test{MAGIC_LINK}?token={token}");
    assert!(text.starts_with(&format!("You requested a link to sign in to Content Telemetry:\r\n\r\n{link}\r\n")), "{text}");
    assert_eq!(text.matches(&token).count(), 1, "{text}");

    // Opening the link doesn't redeem it, because programs that read email open links too.
    let cookie = requested_in(&app, "jane@example.com").await;
    let open = || async {
        let opening = app.request(Method::GET, &format!("{MAGIC_LINK}?token={token}"), Credentials::Nothing);
        opening.header("cookie", &cookie).send().await.unwrap()
    };
    for _ in 0..2 {
        let opened = open().await;
        assert_eq!(opened.status(), 200);
        let policy = opened.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.contains("default-src 'none'") && policy.contains("form-action 'self'"), "{policy}");
        let page = opened.text().await.unwrap();
        assert!(page.contains("action=\"magic-link/verify\"") && page.contains(&format!("value=\"{token}\"")), "{page}");
        assert!(page.contains("name=\"referrer\" content=\"same-origin\"") && !page.contains("<script"), "{page}");
    }
    let press = |origin: Option<&'static str>| {
        let form =
            app.request(Method::POST, VERIFY, Credentials::Nothing).header("cookie", &cookie).body(format!("token={token}"));
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        origin.map_or(form.try_clone().unwrap(), |origin| form.header("origin", origin)).send()
    };
    for foreign in [None, Some("http://evil.test"), Some("null")] {
        assert_eq!(press(foreign).await.unwrap().status(), 403, "{foreign:?}: forms require our own page");
    }
    let pressed = press(Some("http://telemetry.test")).await.unwrap();
    assert_eq!(pressed.status(), 200);
    let cookie = pressed.headers().get_all("set-cookie").iter().find_map(|set| {
        let set = set.to_str().unwrap();
        set.split_once("session=").map(|(_, value)| value.split(';').next().unwrap().to_owned())
    });
    let (session, page) = (cookie.unwrap(), pressed.text().await.unwrap());
    assert!(page.contains("jane@example.com") && !page.contains(&session), "{page}");
    assert_eq!(app.get(Credentials::Session(&session), SESSION).await.status, 200);
    assert_eq!(press(Some("http://telemetry.test")).await.unwrap().status(), 401, "once");
}

#[tokio::test]
async fn truncated_links_do_not_open_a_page() {
    let app = Identity::open().await;
    for query in ["", "?token=", "?token=a%22%3E%3Cscript%3E", "?token=a%20b", "?token=%00", "?token=a&token=b", "?x=1"] {
        let refused = app.get(Credentials::Nothing, &format!("{MAGIC_LINK}{query}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{query}");
    }
    let long = app.get(Credentials::Nothing, &format!("{MAGIC_LINK}?token={}", "a".repeat(129))).await;
    assert_eq!(long.refusal(), (400, "invalid_parameter"));
}

/// A failure to send the email must not show in the response.
#[tokio::test]
async fn sign_in_response_does_not_reveal_email_failures() {
    let app = Identity::open().await;
    let expected = app.ask_to_sign_in("a@example.com").await;
    app.token_mailed("a@example.com", 1).await;
    let folder = app.mail_dir.path();
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::write(folder, "a file where the folder was").unwrap();
    assert_eq!(app.ask_to_sign_in("b@example.com").await, expected);
    let stored = "SELECT count(*) FROM magic_links WHERE email = 'b@example.com'";
    eventually("the link is stored", || async { (app.count(stored).await == 1).then_some(()) }).await;
    assert_eq!(app.ask_to_sign_in("b@example.com").await, expected);
    std::fs::remove_file(folder).unwrap();
    assert_eq!(app.ask_to_sign_in("c@example.com").await, expected);
    app.token_mailed("c@example.com", 1).await;
}

/// Anyone can request a link for their own account and send it to another person, who would then use that account.
#[tokio::test]
async fn x31_links_work_only_in_the_requesting_browser() {
    let app = Identity::open_with_manual_clock().await;
    let attacker = requested_in(&app, "mallory@evil.test").await;
    let token = app.token_mailed("mallory@evil.test", 1).await;
    let victim = requested_in(&app, "jane@example.com").await;
    let session = app.session("jane@example.com", &[]).await;

    let opened = app.request(Method::GET, &format!("{MAGIC_LINK}?token={token}"), Credentials::Session(&session));
    let page = opened.header("cookie", &victim).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("m…@evil.test") && !page.contains("mallory"), "the page masks the address: {page}");
    assert!(page.contains("signed in as jane@example.com") && page.contains("name=\"email\""), "{page}");
    for cookie in ["", victim.as_str(), &format!("{victim}; {attacker}"), "telemetry-link=x", "telemetry-sign-in=x"] {
        for fields in ["", "&email=", "&email=jane%40example.com", "&email=m%E2%80%A6%40evil.test"] {
            let (status, page) = press(&app, cookie, &format!("token={token}{fields}")).await;
            assert_eq!(status, 422, "{cookie} {fields}: {page}");
            assert!(page.contains("action=\"verify\"") && page.contains("sent to another address"), "{page}");
        }
    }
    assert_eq!(app.count("SELECT count(*) FROM user_sessions").await, 1, "only the victim's own");

    let (status, page) = press(&app, &attacker, &format!("token={token}")).await;
    assert_eq!((status, page.contains("mallory@evil.test")), (200, true), "{page}");
    assert_eq!(press(&app, &attacker, &format!("token={token}")).await.0, 401, "once");
}

#[tokio::test]
async fn other_devices_sign_in_by_entering_the_address() {
    let app = Identity::open_with_manual_clock().await;
    let cookie = requested_in(&app, "jane@example.com").await;
    let token = app.token_mailed("jane@example.com", 1).await;
    let described = async |token: &str, cookie: &str| {
        let asked =
            app.request(Method::GET, &format!("{MAGIC_LINK}?token={token}"), Credentials::Nothing).header("cookie", cookie);
        send_request(asked.header("accept", "application/json")).await
    };
    let expected =
        |is_requesting_browser: bool| json!({"email": "j…@example.com", "is_requesting_browser": is_requesting_browser});
    assert_eq!(described(&token, "").await.body, expected(false));
    assert_eq!(described(&token, &cookie).await.body, expected(true));
    assert_eq!(described("unknown", &cookie).await.refusal(), (401, "unauthenticated"));
    let as_json = async |email: &str| app.post(Credentials::Nothing, VERIFY, &json!({"token": token, "email": email})).await;
    for wrong in ["", "joe@example.com"] {
        assert_eq!(as_json(wrong).await.refusal(), (422, "invalid_request"), "{wrong:?}");
    }
    app.clock.advance(TimeDelta::minutes(15) - TimeDelta::microseconds(1));
    assert_eq!(described(&token, &cookie).await.body, expected(true));
    assert_eq!(as_json(" Jane@Example.COM ").await.status, 200);
    assert_eq!(described(&token, &cookie).await.refusal(), (401, "unauthenticated"), "a redeemed link opens no page");

    let later = app.ask_to_sign_in("jane@example.com").await;
    assert_eq!(later.status, 202);
    let token = app.token_mailed("jane@example.com", 2).await;
    app.clock.advance(TimeDelta::microseconds(1));
    assert_eq!(described(&token, &cookie).await.body, expected(false), "the cookie is valid for 15 minutes");
}

/// Only `TELEMETRY_SIGN_IN_KEEP` determines when links are deleted. Sending one doesn't delete others.
#[tokio::test]
async fn expired_links_remain_until_cleanup() {
    let app = Identity::open_with_manual_clock().await;
    for count in 1..=2 {
        app.ask_to_sign_in("jane@example.com").await;
        app.token_mailed("jane@example.com", count).await;
        app.clock.advance(TimeDelta::days(2));
    }
    assert_eq!(app.count("SELECT count(*) FROM magic_links").await, 2);
}
