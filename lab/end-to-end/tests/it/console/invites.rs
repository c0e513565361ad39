//! Accepting an invite in a browser, with the link in the email.

use super::Reader;
use crate::demo::{Demo, DemoApp};
use service_kit::testing::eventually;

const INVITED: &str = "colleague@example.net";

/// Returns the path of a link in an email, with its query.
async fn mailed(demo: &DemoApp, email: &str, path: &str) -> String {
    let link = eventually("the email arrives", || async {
        let mails = std::fs::read_dir(demo.folder().join("mail")).ok()?;
        let mut mails = mails.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let own = mails.find(|mail| mail.contains(&format!("To: {email}")) && mail.contains(path))?;
        own.split_whitespace().find(|word| word.contains(path)).map(str::to_owned)
    })
    .await;
    link.strip_prefix(demo.env("BASE_URL")).expect("the link is not one to the console").to_owned()
}

#[tokio::test]
async fn only_the_invited_person_can_accept_an_invite_once() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let members = format!("/console/o/{}/members", demo.env("OWNER_ORG_ID"));
    let page = owner.open(&members).await;
    owner.press(&page, "/members", &[("email", INVITED), ("role", "member")]).await;
    let link = mailed(&demo, INVITED, "/sign-in/invite?token=").await;

    let mut stranger = Reader::signed_in(&demo, "USER_SESSION");
    let page = stranger.open(&link).await;
    let refused = stranger.press(&page, "/sign-in/invite", &[]).await;
    assert!(refused.html.contains("for another email address") && refused.html.contains("Request <code>"), "{}", refused.html);

    let mut invited = Reader::signed_out(&demo);
    let page = invited.open(&link).await;
    assert!(page.status == 200 && page.headers["referrer-policy"] == "no-referrer", "the referrer could reveal the token");
    assert!(!page.html.contains("<script>") && page.html.contains("Sign in with the email address"), "{}", page.html);
    let kept = page.headers["set-cookie"].to_str().unwrap();
    assert!(kept.contains("; HttpOnly; SameSite=Lax"), "scripts could read the token: {kept}");
    invited.press(&page, "/sign-in", &[("email", INVITED)]).await;
    let sign_in = mailed(&demo, INVITED, "/sign-in?token=").await;
    let page = invited.open(&sign_in).await;
    let page = invited.press(&page, "/sign-in/finish", &[]).await;
    assert_eq!(page.address, "/sign-in/invite", "after sign-in, the invite opens without its token in the address");
    assert!(page.html.contains("Accept invite") && page.headers["referrer-policy"] == "no-referrer", "{}", page.html);
    for _ in 0..2 {
        let page = invited.open(&link).await;
        assert!(page.html.contains("Accept invite"), "opening the link accepted it: {}", page.html);
    }
    let landing = invited.open(&link).await;
    let page = invited.press(&landing, "/sign-in/invite", &[]).await;
    assert!(page.status == 200 && page.html.contains("Example Publisher"), "{}: {}", page.address, page.html);
    assert!(!invited.cookies.contains_key("telemetry-invite"), "the cookie of an accepted invite remains");
    let again = invited.press(&landing, "/sign-in/invite", &[]).await;
    assert!(again.html.contains("role=\"alert\""), "it was accepted twice: {}", again.html);
}
