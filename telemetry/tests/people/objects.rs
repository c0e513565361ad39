//! Creating, listing, showing and deleting an organization's objects.

use crate::terminal::Terminal;
use crate::test_service::Service;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn creates_lists_shows_and_deletes_objects() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let made = owner.run(&["key", "create", "ci", "--scope", "telemetry:read", "-o", "json"]);
    assert!(made.stderr.contains("shown only once"), "{made:?}");
    let key = made.json()["key"].as_str().unwrap().to_owned();
    let with_it = Terminal::new().with("TELEMETRY_URL", service.url()).with("TELEMETRY_KEY", &key);
    with_it.run(&["summary"]).ok();
    let who = with_it.run(&["whoami", "-o", "json"]).json();
    assert_eq!((&who["organization_id"], &who["may_list_keys"]), (&service.value("OWNER_ORG_ID").into(), &false.into()));
    let listed = owner.run(&["key", "list"]).ok();
    assert!(listed.stdout.contains(&key[..12]) && !listed.stdout.contains(&key), "lists show only the prefix: {listed:?}");
    assert_eq!(owner.run(&["key", "delete", "ci"]).code, 2, "without a terminal, the command can't ask");
    with_it.run(&["summary"]).ok();
    owner.run(&["key", "delete", "ci", "--yes"]).ok();
    assert_eq!(with_it.run(&["summary"]).code, 3);

    let domain = owner.run(&["domain", "create", "www.new.example", "-o", "json"]).json();
    assert_eq!(domain["domain"], "new.example");
    let said = owner.run(&["domain", "verify", "new.example", "--wait", "--patience", "0"]);
    assert!(said.code == 1 && said.stderr.contains("_content-telemetry.new.example  TXT  svc-verify="), "{said:?}");
    owner.run(&["domain", "delete", "new.example", "--yes"]).ok();
    assert_eq!(owner.run(&["domain", "show", "new.example"]).code, 4);

    let drain =
        owner.run(&["drain", "create", "edge", "--provider", "cloudflare", "--host", "www.example.com", "-o", "json"]).json();
    assert_eq!(drain["path"], "/drains/cloudflare");
    let rotated = owner.run(&["drain", "rotate", "edge", "-o", "json"]).json();
    assert!(rotated["key"].is_string() && rotated["key"] != drain["key"]);
    assert!(owner.run(&["drain", "health", "edge", "-o", "json"]).json()["hours"].is_array());
    owner.run(&["drain", "delete", "edge", "--yes"]).ok();
    assert_eq!(owner.run(&["drain", "list", "-o", "json"]).json(), Value::Array(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_approves_uses_and_revokes_a_delegation() {
    let service = Service::start().await;
    let (owner, partner) = (service.terminal("OWNER_KEY"), service.terminal("NETWORK_KEY"));
    let asked = partner.run(&["delegation", "request", "example.com", "-o", "json"]).json();
    assert!(owner.run(&["delegation", "requests"]).ok().stdout.contains(asked["id"].as_str().unwrap()));
    owner.run(&["delegation", "approve", asked["id"].as_str().unwrap()]).ok();
    partner.run(&["summary", "--delegated-from", service.value("OWNER_ORG_ID")]).ok();
    let listed = owner.run(&["delegation", "list", "-o", "json"]).json();
    owner.run(&["delegation", "delete", listed[0]["id"].as_str().unwrap(), "--yes"]).ok();
    assert_eq!(partner.run(&["summary", "--delegated-from", service.value("OWNER_ORG_ID")]).code, 3);

    let made = owner.run(&["delegation", "create", "--to", service.value("AGENT_ORG_ID"), "-o", "json"]).json();
    assert_eq!(made["grantee_org_id"], service.value("AGENT_ORG_ID"));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_findings_with_advice() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let found = owner.run(&["doctor", "-o", "json"]).json();
    let verdict =
        |check: &str| found.as_array().unwrap().iter().find(|line| line["check"] == check).map(|line| line["verdict"].clone());
    for (check, expected) in [
        ("address", "ok"),
        ("transport", "ok"),
        ("clock", "ok"),
        ("ready", "ok"),
        ("key", "ok"),
        ("scopes", "ok"),
        ("events", "warning"),
        ("drain", "skipped"),
        ("domain", "skipped"),
    ] {
        assert_eq!(verdict(check), Some(expected.into()), "{check}: {found}");
    }
    owner.run(&["drain", "create", "Web server", "--provider", "combined", "--host", "www.example.com"]).ok();
    let said = owner.run(&["doctor"]);
    assert!(said.code == 0 && said.stdout.contains("Web server: waiting for lines"), "{said:?}");
    owner.run(&["domain", "create", "unproved.example"]).ok();
    let said = owner.run(&["doctor", "--domain", "unproved.example"]);
    assert!(said.code == 1 && said.stdout.contains("svc-verify="), "{said:?}");
    let said = owner.run(&["doctor", "--url", "http://127.0.0.1:1"]);
    assert!(said.code == 1 && said.stdout.starts_with("failed "), "{said:?}");
    let unknown = owner.file("unknown.key", PlainApiKey::generate(OrgType::ContentOwner).reveal());
    let said = owner.run(&["doctor", "--key-file", unknown.to_str().unwrap()]);
    assert!(said.code == 1 && said.stdout.contains("(401); request id "), "{said:?}");
}
