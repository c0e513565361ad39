//! Signing in by email, and signing out.

use crate::terminal::Terminal;
use crate::test_service::Service;
use std::io::{Read, Write};

#[test]
fn s21_typed_tokens_are_not_echoed() {
    let person = Terminal::new().with("TELEMETRY_URL", "http://127.0.0.1:1");
    let token = "TypedButNotShown".repeat(3);
    let shown = person.run_on_terminal(&["login", "--have-token"], "(not shown): ", &token);
    assert!(shown.contains("(not shown): \r\n") && !shown.contains("TypedButNotShown"), "{shown}");
    assert!(shown.contains("error"), "the token must be read, and rejected without a request: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signs_in_by_email_and_out_again() {
    let service = Service::start().await;
    let person = Terminal::new().with("TELEMETRY_URL", service.url());
    let before = service.mail();
    let mut login = person.start(&["login", "--email", "owner@example.com"]);
    let link = service.mailed_link(before.as_ref()).await;
    login.stdin.take().unwrap().write_all(format!("{link}\n").as_bytes()).unwrap();
    assert!(login.wait().unwrap().success());
    let mut said = String::new();
    login.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("Signed in to") && said.contains("owner@example.com"), "{said}");

    let who = person.run(&["whoami", "-o", "json"]).json();
    assert_eq!(who["user"]["email"], "owner@example.com");
    assert!(person.run(&["org", "list"]).ok().stdout.contains(service.value("OWNER_ORG_ID")));
    let orgs = person.run(&["org", "list", "-o", "json"]).json();
    let one = orgs[0]["id"].as_str().unwrap();
    assert!(person.run(&["org", "members", one]).ok().stdout.contains("owner@example.com"));
    person.run(&["summary", "--organization", one]).ok();
    let kept = std::fs::read_to_string(person.home().join(".config/telemetry/profiles.json")).unwrap();
    let session = kept.split("\"secret\": \"").nth(1).unwrap().split('"').next().unwrap();
    for words in [&["whoami"][..], &["profile", "show"], &["profile", "list", "-o", "json"], &["doctor"]] {
        let said = person.run(words);
        assert!(!said.stdout.contains(session) && !said.stderr.contains(session), "{words:?} shows the session");
    }
    person.run(&["logout"]).ok();
    assert_eq!(person.run(&["whoami"]).code, 3);

    let said = person.run_with_input(&["login", "--have-token"], "https://a.example/without\n");
    assert!(said.code == 2 && said.stderr.contains("not a link or token"), "{said:?}");
    assert_eq!(person.run_with_input(&["login", "--have-token"], &format!("{}\n", "a".repeat(43))).code, 3, "an unknown token");
}
