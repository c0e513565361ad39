//! Who wants an agent's or a platform's organisation asks, an operator decides, and both see it.

use super::Reader;
use crate::demo::Demo;

const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";

async fn ask(reader: &mut Reader, kind: &str, name: &str) -> String {
    let page = reader.open("/console/requests").await;
    let typed = [("org_type", kind), ("org_name", name), ("use_case", HOSTILE), ("admin_email", "admin@example.net")];
    let page = reader.press(&page, "/console/requests", &typed).await;
    assert!(page.address == "/console/requests" && page.html.contains(name), "{}", page.html);
    page.html
}

#[tokio::test]
async fn an_organisation_is_asked_for_reviewed_and_opened_in_the_console() {
    let demo = Demo::start().await;
    let mut somebody = Reader::signed_in(&demo, "USER_SESSION");
    assert!(ask(&mut somebody, "agent", "Reading Robot").await.contains(">Pending<"));
    ask(&mut somebody, "platform", "Measuring Ltd").await;

    let mut operator = Reader::signed_in(&demo, "OPERATOR_SESSION");
    // An operator of no organisation comes to what waits.
    let page = operator.open("/console/").await;
    assert_eq!(page.address, "/console/operator/requests");
    assert!(page.html.contains("Reading Robot") && page.html.contains("alert(1)"), "{}", page.html);
    assert!(!page.html.contains("<script>alert") && !page.html.contains("<img src=x"), "{}", page.html);
    let first = page.html.find("Reading Robot").unwrap() < page.html.find("Measuring Ltd").unwrap();
    assert!(first, "the oldest first");
    let page = operator.press(&page, "/approve", &[]).await;
    assert!(!page.html.contains("Reading Robot"), "{}", page.html);
    let page = operator.press(&page, "/reject", &[("note", "Say <b>who</b> you are")]).await;
    assert!(page.html.contains("No pending requests"), "{}", page.html);
    let approved = operator.open("/console/operator/requests?status=approved").await;
    assert!(approved.html.contains("Reading Robot") && approved.actions().iter().all(|action| !action.ends_with("/approve")));

    let page = somebody.open("/console/requests").await;
    assert!(page.html.contains(">Approved<") && page.html.contains(">Rejected<"), "{}", page.html);
    assert!(page.html.contains("who") && !page.html.contains("<b>who"), "the note is text: {}", page.html);
    let link = page.between("<td><a href=\"", "\">Open<").unwrap().to_owned();
    let opened = somebody.open(&link).await;
    assert!(opened.status == 200 && opened.address.ends_with("/reported"), "{}: {}", opened.address, opened.html);
}

#[tokio::test]
async fn what_operators_see_is_refused_to_everybody_else() {
    let demo = Demo::start().await;
    for path in ["requests", "organizations", "webhooks"].map(|screen| format!("/console/operator/{screen}")) {
        for (session, status) in [("OWNER_SESSION", 403), ("USER_SESSION", 403), ("OPERATOR_SESSION", 200)] {
            let page = Reader::signed_in(&demo, session).open(&path).await;
            assert_eq!(page.status, status, "{session} at {path}");
            assert_eq!(page.html.contains("Request <code>"), status == 403, "a refusal says its request: {session} at {path}");
        }
        assert_eq!(Reader::nobody(&demo).open(&path).await.address, "/sign-in");
    }
    let mut operator = Reader::signed_in(&demo, "OPERATOR_SESSION");
    let all = operator.open("/console/operator/organizations").await;
    assert!(all.html.contains("Example Publisher") && all.html.contains("Demo Network"), "{}", all.html);
    let found = operator.open("/console/operator/organizations?q=Publisher").await;
    assert!(found.html.contains("Example Publisher") && !found.html.contains("Demo Network"), "{}", found.html);
    let trust = "UPDATE organizations SET is_trusted_partner = true WHERE id = $1::uuid";
    sqlx::query(trust).bind(demo.env("NETWORK_ORG_ID")).execute(&demo.stores.pool).await.unwrap();
    let set_up = "UPDATE organizations SET provisioned_by = $1::uuid WHERE id = $2::uuid";
    let set_up = sqlx::query(set_up).bind(demo.env("NETWORK_ORG_ID")).bind(demo.env("OWNER_ORG_ID"));
    set_up.execute(&demo.stores.pool).await.unwrap();
    let partners = operator.open("/console/operator/organizations?trusted_partner=true").await;
    assert!(partners.html.contains("Demo Network") && !partners.html.contains("Example Publisher"), "{}", partners.html);
    let link = partners.all_between("<a href=\"", "\"").find(|to| to.contains("provisioned_by=")).unwrap().to_owned();
    let theirs = operator.open(&link).await;
    assert!(theirs.html.contains("Example Publisher") && !theirs.html.contains("Demo Agent"), "{}", theirs.html);
    let none = operator.open("/console/operator/organizations?q=%3Cscript%3Ealert(1)").await;
    assert!(none.html.contains("No organizations") && !none.html.contains("<script>alert"), "{}", none.html);
}
