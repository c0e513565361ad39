//! `telemetry identity-api admin …`, run as a process: every subcommand's help, effects, errors, JSON and tables.

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{AGENT_REQUESTS, ORGANIZATIONS, PLATFORM_REQUESTS, PROVISIONED, REVIEWS};
use crate::test_app::{Identity, KEYS, Requests as _, TestApp, UNKNOWN_ID};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::identity_tables::IdentityTables;
use service_kit::testing::{Credentials, TestProcess};

#[derive(Debug)]
pub(crate) struct Ran {
    code: Option<i32>,
    pub(crate) stdout: String,
    stderr: String,
}

pub(crate) async fn run(app: &TestApp, words: &str) -> Ran {
    let words: Vec<&str> = ["admin"].into_iter().chain(words.split_whitespace()).collect();
    run_words(app, &words).await
}

async fn run_words(app: &TestApp, words: &[&str]) -> Ran {
    let mail_dir = app.mail_dir.path().display().to_string();
    let settings = [("DATABASE_URL", app.stores.postgres.database_url.as_str()), ("TELEMETRY_MAIL_DIR", &mail_dir)];
    let mut process = TestProcess::service(words, &settings);
    let code = process.exit_code().await;
    Ran { code, stdout: process.stdout(), stderr: process.stderr() }
}

/// Runs a command that must succeed, and returns its JSON.
pub(crate) async fn json_of(app: &TestApp, words: &str) -> Value {
    let ran = run(app, &format!("{words} -o json")).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words}: {ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Runs a command that must fail with one line on stderr and empty stdout.
pub(crate) async fn refusal(app: &TestApp, words: &str, code: i32) -> String {
    let ran = run(app, words).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{words}: {ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{words}: {ran:?}");
    ran.stderr
}

pub(crate) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("{member} of {value}"))
}

/// Returns an action's actors in the trail, newest first.
async fn author_of(app: &TestApp, action: &str) -> Vec<(String, Option<String>)> {
    sqlx::query_as(
        "SELECT a.actor_kind, u.email FROM audit_log a LEFT JOIN users u ON u.id = a.actor_id WHERE a.action = $1 ORDER BY a.id DESC",
    )
    .bind(action)
    .fetch_all(&app.stores.pool)
    .await
    .unwrap()
}

fn system() -> (String, Option<String>) {
    ("system".to_owned(), None)
}

const ERRANDS: [(&str, &[&str]); 8] = [
    ("operator", &["add", "remove", "list"]),
    ("organization", &["create", "list", "show"]),
    ("key", &["create", "list", "revoke"]),
    ("domain", &["add", "verify", "release", "list"]),
    ("access-request", &["list", "approve", "reject"]),
    ("partner", &["trust", "untrust"]),
    ("manifest-host", &["attest", "withdraw"]),
    ("analyst", &["create", "list", "revoke"]),
];

#[tokio::test]
async fn subcommands_have_help_and_one_line_errors() {
    let app = Identity::open().await;
    let help = run(&app, "--help").await;
    assert_eq!(help.code, Some(0));
    for (noun, verbs) in ERRANDS {
        assert!(help.stdout.contains(noun), "{}", help.stdout);
        let help = run(&app, &format!("{noun} --help")).await;
        for verb in verbs {
            assert!(help.stdout.contains(verb), "{noun} {verb}: {}", help.stdout);
            let help = run(&app, &format!("{noun} {verb} --help")).await;
            assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{noun} {verb}");
            assert!(help.stdout.contains("--output") && help.stdout.contains("--as"), "{noun} {verb}: {}", help.stdout);
            refusal(&app, &format!("{noun} {verb} --nonsense"), 2).await;
        }
        refusal(&app, noun, 2).await;
    }
    refusal(&app, "", 2).await;
    for words in [
        "operator add ada",
        "organization create --name A --type owner",
        "organization create --name A --type agent --domain localhost",
        "organization show x",
        "key create --organization x",
        "domain verify x",
        "access-request list --status open",
        "access-request approve x",
        "partner trust x",
        "analyst create --name A",
        "analyst create --organization x",
        "analyst revoke x",
    ] {
        refusal(&app, words, 2).await;
    }
    assert_eq!(app.count("SELECT count(*) FROM audit_log").await, 0, "nothing changed");
}

#[tokio::test]
async fn adds_lists_and_removes_operators() {
    let app = Identity::open().await;
    let ada = app.person("ada@a.test").await;
    assert_eq!(app.get(ada.credentials(), REVIEWS).await.status, 403);
    let added = json_of(&app, "operator add Ada@A.test").await;
    assert_eq!((&added["id"], text(&added, "email"), &added["is_operator"]), (&json!(ada.id), "ada@a.test", &json!(true)));
    let ada = app.back(&ada).await;
    assert_eq!(app.get(ada.credentials(), REVIEWS).await.status, 200, "takes effect immediately");
    assert_eq!(json_of(&app, "operator add ada@a.test").await, added, "repeating it changes nothing");
    assert_eq!(author_of(&app, "operator.added").await, [system()]);
    json_of(&app, "operator add bob@a.test --as ada@a.test").await;
    assert_eq!(author_of(&app, "operator.added").await[0], ("operator".to_owned(), Some("ada@a.test".to_owned())));
    let listed = json_of(&app, "operator list").await;
    assert_eq!(
        listed.as_array().unwrap().iter().map(|person| text(person, "email")).collect::<Vec<_>>(),
        ["ada@a.test", "bob@a.test"]
    );
    let table = run(&app, "operator list").await.stdout;
    assert!(table.starts_with("ID ") && table.contains("ada@a.test") && table.lines().count() == 3, "{table}");

    assert_eq!(json_of(&app, "operator remove ada@a.test").await["is_operator"], false);
    assert_eq!(app.get(app.back(&ada).await.credentials(), REVIEWS).await.status, 403);
    assert!(refusal(&app, "operator remove ada@a.test", 4).await.contains("No operator has this email address"));
    assert!(refusal(&app, "operator list --as ada@a.test", 1).await.contains("--as ada@a.test"));
    assert_eq!(author_of(&app, "operator.removed").await, [system()]);
}

#[tokio::test]
async fn creates_lists_and_shows_organizations() {
    let app = Identity::open().await;
    let created = json_of(&app, "organization create --name Owner --type content_owner --domain A.test --owner ada@a.test").await;
    let (ada, id) = (app.person("ada@a.test").await, text(&created, "id"));
    assert_eq!(app.get(ada.credentials(), &format!("{ORGANIZATIONS}/{id}")).await.body, created, "same JSON as the HTTP API");
    assert_eq!((text(&created, "domain"), &created["domains"][0]["verified"]), ("a.test", &json!(false)));
    let platform = json_of(&app, "organization create --name Partner --type platform").await;
    assert_eq!(json_of(&app, "organization list").await, json!([created, platform]));
    assert_eq!(json_of(&app, "organization list --type platform").await, json!([platform]));
    let table = run(&app, "organization list").await.stdout;
    assert!(table.contains("NAME") && table.contains("Owner") && table.lines().count() == 3, "{table}");
    let shown = json_of(&app, &format!("organization show {id}")).await;
    assert_eq!((text(&shown["members"][0], "email"), text(&shown["members"][0], "role")), ("ada@a.test", "owner"));
    assert_eq!((text(&shown, "name"), &shown["is_trusted_partner"]), ("Owner", &json!(false)));
    assert!(refusal(&app, &format!("organization show {UNKNOWN_ID}"), 4).await.contains("Organization not found"));
    let unnamed = run_words(&app, &["admin", "organization", "create", "--type", "agent", "--name", "a\u{1b}b"]).await;
    assert_eq!((unnamed.code, unnamed.stdout.as_str()), (Some(1), ""), "{unnamed:?}");
    refusal(&app, "organization create --type platform --name www.evil.example", 1).await;
    assert_eq!(author_of(&app, "organization.created").await, [system(), system()]);
}

#[tokio::test]
async fn creates_lists_and_revokes_keys() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let created =
        json_of(&app, &format!("key create --organization {org} --name CDN --scope telemetry:write --scope identity:read")).await;
    let key = text(&created, "key").to_owned();
    assert_eq!(created["scopes"], json!(["identity:read", "telemetry:write"]));
    assert_eq!(app.get(Credentials::Key(&key), KEYS).await.status, 200, "the key works");
    let default = json_of(&app, &format!("key create --organization {org}")).await;
    assert_eq!(default["scopes"], json!(["identity:read", "telemetry:read", "telemetry:write"]));
    let table = run(&app, &format!("key create --organization {org}")).await;
    assert!(table.stdout.contains("svc_pub_") && !table.stderr.contains("svc_pub_"), "{table:?}");

    let listed = json_of(&app, &format!("key list --organization {org}")).await;
    assert_eq!(listed.as_array().unwrap().len(), 5);
    assert!(!listed.to_string().contains(&key[12..]));
    let revoked = json_of(&app, &format!("key revoke {}", text(&created, "id"))).await;
    assert!(revoked["revoked_at"].is_string());
    assert_eq!(app.get(Credentials::Key(&key), KEYS).await.status, 401, "takes effect immediately");
    let again = json_of(&app, &format!("key revoke {}", text(&created, "id"))).await;
    assert_eq!(again["revoked_at"], revoked["revoked_at"], "repeating it changes nothing");
    assert!(refusal(&app, &format!("key revoke {UNKNOWN_ID}"), 4).await.contains("API key not found"));
    assert!(refusal(&app, &format!("key create --organization {UNKNOWN_ID}"), 4).await.contains("Organization not found"));
    refusal(&app, &format!("key create --organization {org} --scope identity:admin"), 2).await;
    let audited = app.audited(org).await;
    assert_eq!(audited, ["api_key.created", "api_key.created", "api_key.created", "api_key.revoked"]);
    assert_eq!(app.get(Credentials::Key(&owner), KEYS).await.status, 200, "other keys stay valid");
}

#[tokio::test]
async fn adds_verifies_lists_and_releases_domains() {
    let app = Identity::open().await;
    let ((org, _), (other, _)) = (app.org("owner").await, app.org("other").await);
    let directory = IdentityTables::new(app.stores.pool.clone());
    let site = Site::from_domain("www.a.test").unwrap();
    let owner = async || directory.owner_of(&site).await.unwrap().map(|owner| owner.id);
    let added = json_of(&app, &format!("domain add --organization {org} A.test.")).await;
    assert_eq!((text(&added, "domain"), &added["verified"]), ("a.test", &json!(false)));
    assert_eq!(owner().await, None);
    assert!(refusal(&app, &format!("domain add --organization {org} a.test"), 1).await.contains("already added"));
    let verified = json_of(&app, &format!("domain verify {}", text(&added, "id"))).await;
    assert_eq!((&verified["verified"], text(&verified, "verification_method")), (&json!(true), "operator"));
    assert_eq!(owner().await, Some(org));
    assert_eq!(json_of(&app, &format!("domain list --organization {org}")).await, json!([verified]));

    let rival = json_of(&app, &format!("domain add --organization {other} a.test")).await;
    let refused = refusal(&app, &format!("domain verify {}", text(&rival, "id")), 1).await;
    assert!(refused.contains("Another organization has verified"), "{refused}");
    let released = json_of(&app, &format!("domain release {}", text(&added, "id"))).await;
    assert_eq!(released["verified"], false);
    assert_eq!((owner().await, json_of(&app, &format!("domain list --organization {org}")).await), (None, json!([])));
    refusal(&app, &format!("domain release {}", text(&added, "id")), 4).await;
    assert_eq!(json_of(&app, &format!("domain verify {}", text(&rival, "id"))).await["verified"], true);
    let owned = directory.owned_sites(other).await.unwrap();
    assert!(owned[0].visible_from.is_some(), "earlier history belongs to the earlier owner");
    refusal(&app, &format!("domain add --organization {UNKNOWN_ID} b.test"), 4).await;
    refusal(&app, &format!("domain verify {UNKNOWN_ID}"), 4).await;
    refusal(&app, &format!("domain add --organization {org} 127.0.0.1"), 2).await;
    assert_eq!(app.audited(org).await, ["domain.registered", "domain.verified", "domain.released"]);
}

#[tokio::test]
async fn lists_approves_and_rejects_access_requests() {
    let app = Identity::open().await;
    let (ada, operator) = (app.person("ada@a.test").await, app.operator("op@svc.test").await);
    let first = app.ask_for(&ada, PLATFORM_REQUESTS, "Partner").await.body;
    let second = app.ask_for(&ada, AGENT_REQUESTS, "Bot").await.body;
    assert_eq!(json_of(&app, "access-request list --status pending").await, json!([first, second]));
    let approved = json_of(&app, &format!("access-request approve {} --as op@svc.test --note welcome", text(&first, "id"))).await;
    assert_eq!((text(&approved, "status"), text(&approved, "reviewer_note")), ("approved", "welcome"));
    assert_eq!(approved["reviewed_by"], json!(operator.id));
    let org = text(&approved, "approved_org_id");
    assert_eq!(app.get(ada.credentials(), &format!("{ORGANIZATIONS}/{org}")).await.text("org_type"), "platform");
    let rejected = json_of(&app, &format!("access-request reject {}", text(&second, "id"))).await;
    assert_eq!((text(&rejected, "status"), &rejected["reviewed_by"]), ("rejected", &Value::Null));
    assert_eq!(app.get(ada.credentials(), AGENT_REQUESTS).await.body, json!([rejected]), "the requester sees the verdict");
    let to_her = app.mails().into_iter().filter(|mail| mail.contains("To: ada@a.test\r\n"));
    assert_eq!(to_her.count(), 2, "and gets emails");
    for verdict in ["approve", "reject"] {
        let refused = refusal(&app, &format!("access-request {verdict} {}", text(&first, "id")), 1).await;
        assert!(refused.contains("already reviewed"), "{refused}");
        refusal(&app, &format!("access-request {verdict} {UNKNOWN_ID}"), 4).await;
    }
    assert_eq!(json_of(&app, "access-request list").await, json!([approved, rejected]));
    let table = run(&app, "access-request list").await.stdout;
    assert!(table.contains("STATUS") && table.contains("Partner") && table.lines().count() == 3, "{table}");
    assert_eq!(author_of(&app, "access_request.approved").await, [("operator".to_owned(), Some("op@svc.test".to_owned()))]);
    assert_eq!(author_of(&app, "access_request.rejected").await, [system()]);
}

#[tokio::test]
async fn trusts_and_untrusts_partners() {
    let app = Identity::open().await;
    let (org, key): (OrgId, String) = app.platform("partner").await;
    let provision = async |domain: &str| {
        app.post(Credentials::Key(&key), PROVISIONED, &json!({"name": "Owner", "domain": domain, "attest": true})).await.status
    };
    assert_eq!(provision("a.test").await, 403);
    for _ in 0..2 {
        let trusted = json_of(&app, &format!("partner trust {org}")).await;
        assert_eq!((&trusted["id"], &trusted["is_trusted_partner"]), (&json!(org), &json!(true)));
    }
    assert_eq!(provision("a.test").await, 201);
    let table = run(&app, &format!("partner untrust {org}")).await;
    assert!(table.code == Some(0) && table.stdout.contains("is_trusted_partner"), "{table:?}");
    assert_eq!(provision("b.test").await, 403, "takes effect immediately");
    refusal(&app, &format!("partner trust {UNKNOWN_ID}"), 4).await;
    assert_eq!(app.audited(org).await, ["partner.trusted", "partner.untrusted"]);
}

#[tokio::test]
async fn unreachable_database_is_a_one_line_error() {
    for (settings, code) in [(vec![], 2), (vec![("DATABASE_URL", "postgres://nobody:hunter2@127.0.0.1:1/nothing")], 5)] {
        let mut process = TestProcess::service(&["admin", "operator", "list", "-o", "json"], &settings);
        assert_eq!(process.exit_code().await, Some(code));
        let said = process.stderr();
        assert!(said.lines().count() == 1 && said.contains("DATABASE_URL") && !said.contains("hunter2"), "{said}");
        assert_eq!(process.stdout(), "");
    }
}
