//! Each exit code, and the sentence that goes with it.

use crate::service::Service;
use crate::terminal::Terminal;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;

#[tokio::test(flavor = "multi_thread")]
async fn every_exit_code_says_what_it_is_for() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    owner.run(&["summary", "--since", "7d"]).ok();

    let refused = owner.run(&["series", "--by", "hour", "--since", "2000-01-01", "--until", "2026-01-01"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("(400)") && refused.stderr.contains("request id "), "{refused:?}");

    for wrong in
        [&["summary", "--since", "lately"][..], &["summary", "--nonsense"], &["nonsense"], &["events", "send", "gone.json"]]
    {
        let said = owner.run(wrong);
        assert_eq!(said.code, 2, "{wrong:?}: {said:?}");
        assert!(!said.stderr.is_empty() && said.stdout.is_empty(), "{said:?}");
    }

    let unknown = PlainApiKey::mint(OrgType::ContentOwner);
    let stranger = Terminal::new().with("TELEMETRY_URL", service.url()).with("TELEMETRY_KEY", unknown.reveal());
    assert_eq!(stranger.run(&["summary"]).code, 3, "401");
    assert_eq!(owner.run(&["summary", "--domain", "other.example"]).code, 3, "403");
    assert_eq!(Terminal::new().run(&["summary", "--url", service.url()]).code, 3, "no credential at all");

    let agent = service.terminal("AGENT_KEY");
    assert_eq!(agent.run(&["session", "document", "0195f3a0-0000-7000-8000-000000000010"]).code, 4);
    assert_eq!(owner.run(&["key", "show", "nobody's"]).code, 4);

    let nobody = owner.run(&["summary", "--url", "http://127.0.0.1:1"]);
    assert_eq!(nobody.code, 5, "{nobody:?}");
    assert!(nobody.stderr.contains("cannot reach"), "{nobody:?}");
}

#[test]
fn no_color_and_no_terminal_mean_no_escapes() {
    let said = Terminal::new().run(&["whoami"]);
    assert!(said.stderr.starts_with("error: ") && !said.stderr.contains('\u{1b}'), "{said:?}");
}
