//! Analyst accounts: operators create them, owners list and revoke them, and removing a person revokes theirs.

use crate::admin::{json_of, refusal, run, text};
use crate::people::People as _;
use crate::people::{Person, members_of};
use crate::test_app::{Identity, Requests as _, TestApp, UNKNOWN_ID};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use serde_json::{Value, json};

const ANALYSTS: &str = "/api/v1/identity/analysts";

/// Records a round of `telemetry query-api analysts`.
async fn keep_accounts(app: &TestApp) {
    let round = "INSERT INTO analyst_upkeep (seen_at) VALUES (now()) ON CONFLICT (is_only) DO UPDATE SET seen_at = now()";
    sqlx::query(round).execute(&app.stores.pool).await.unwrap();
}

async fn create(app: &TestApp, words: &str) -> String {
    text(&json_of(app, &format!("analyst create {words}")).await, "id").to_owned()
}

/// Returns the ids of an organization's active accounts.
async fn live(app: &TestApp, org: &str) -> Vec<String> {
    let listed = json_of(app, &format!("analyst list --organization {org}")).await;
    let live = listed.as_array().unwrap().iter().filter(|account| account["revoked_at"].is_null());
    live.map(|account| text(account, "id").to_owned()).collect()
}

#[tokio::test]
async fn creates_lists_and_revokes_analyst_accounts() {
    let app = Identity::open().await;
    keep_accounts(&app).await;
    let owner = app.seed().owner_of("a.test").await.id;
    let partner = app.seed().org("partner", OrgType::Platform).await.id;
    let made = json_of(&app, &format!("analyst create --organization {owner} --name Figures")).await;
    let (id, login, password) = (text(&made, "id"), text(&made, "login"), text(&made, "password"));
    assert_eq!((text(&made, "name"), &made["delegated_from"], &made["revoked_at"]), ("Figures", &Value::Null, &Value::Null));
    assert!(login.starts_with("telemetry_analyst_") && password.len() == 32, "{made}");
    let stored: Vec<u8> =
        sqlx::query_scalar("SELECT sha256($1::bytea)").bind(password.as_bytes()).fetch_one(&app.stores.pool).await.unwrap();
    let kept: Vec<(String, Vec<u8>)> =
        sqlx::query_as("SELECT login, password_hash FROM analyst_accounts").fetch_all(&app.stores.pool).await.unwrap();
    assert_eq!(kept, [(login.to_owned(), stored)], "only the hash is stored");

    for (words, code, why) in [
        (format!("--organization {UNKNOWN_ID}"), 4, "Organization not found"),
        (format!("--organization {owner} --delegated-from {partner}"), 1, "delegated_from"),
        (format!("--organization {owner} --member ada@a.test"), 1, "a member of the organization"),
        (format!("--organization {partner}"), 1, "delegated_from"),
        (format!("--organization {partner} --delegated-from {owner}"), 3, "doesn't share its data"),
    ] {
        let said = refusal(&app, &format!("analyst create {words}"), code).await;
        assert!(said.contains(why), "{words}: {said}");
    }
    app.seed().delegate(owner, partner).await;
    let partners = json_of(&app, &format!("analyst create --organization {partner} --delegated-from {owner}")).await;
    assert_eq!((text(&partners, "delegated_from"), text(&partners, "name")), (owner.to_string().as_str(), "Analyst"));

    for list in [run(&app, "analyst list").await, run(&app, "analyst list -o json").await] {
        assert!(list.stdout.contains(login) && list.stdout.contains(text(&partners, "login")), "{list:?}");
        assert!(!list.stdout.contains(password) && !list.stdout.contains("password"), "{list:?}");
    }
    assert_eq!(live(&app, &partner.to_string()).await.len(), 1);
    let revoked = json_of(&app, &format!("analyst revoke {id}")).await;
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    assert_eq!(json_of(&app, &format!("analyst revoke {id}")).await, revoked, "repeating it changes nothing");
    assert!(refusal(&app, &format!("analyst revoke {UNKNOWN_ID}"), 4).await.contains("Analyst account not found"));
    assert_eq!(app.audited(owner).await, ["analyst_account.created", "analyst_account.revoked"]);
}

#[tokio::test]
async fn organizations_have_at_most_ten_live_accounts() {
    let app = Identity::open().await;
    keep_accounts(&app).await;
    let owner = app.seed().owner_of("a.test").await.id;
    let words = format!("--organization {owner}");
    let nine = "INSERT INTO analyst_accounts (organization_id, login, name, password_hash, created_by_kind, created_at) \
                SELECT o.id, 'telemetry_analyst_' || lpad(n::text, 12, '0'), 'many', sha256('x'), 'system', now() FROM organizations o, generate_series(1, 9) n";
    sqlx::query(nine).execute(&app.stores.pool).await.unwrap();
    let last = create(&app, &words).await;
    assert!(refusal(&app, &format!("analyst create {words}"), 1).await.contains("Revoke one first"));
    json_of(&app, &format!("analyst revoke {last}")).await;
    create(&app, &words).await;
}

#[tokio::test]
async fn rejects_accounts_if_analyst_upkeep_is_disabled() {
    let app = Identity::open().await;
    let owner = app.seed().owner_of("a.test").await.id;
    let words = format!("analyst create --organization {owner}");
    let check = async || {
        let said = refusal(&app, &words, 1).await;
        assert!(said.contains("telemetry query-api analysts") && said.contains("docs/operating/compose.md"), "{said}");
    };
    check().await;
    keep_accounts(&app).await;
    json_of(&app, &words).await;
    sqlx::query("UPDATE analyst_upkeep SET seen_at = now() - interval '121 seconds'").execute(&app.stores.pool).await.unwrap();
    check().await;
}

#[tokio::test]
async fn owners_list_and_revoke_their_analyst_accounts() {
    let app = Identity::open().await;
    keep_accounts(&app).await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let other = app.seed().owner_of("b.test").await;
    let (id, others) =
        (create(&app, &format!("--organization {org}")).await, create(&app, &format!("--organization {}", other.id)).await);
    for shows in [ada.credentials(), bob.credentials()] {
        let listed = app.get(shows, ANALYSTS).await;
        assert_eq!(listed.status, 200, "{}", listed.body);
        let ids: Vec<&Value> = listed.body.as_array().unwrap().iter().map(|account| &account["id"]).collect();
        assert_eq!(ids, [&json!(id)]);
        assert_eq!(listed.body[0].get("password"), None);
    }
    assert_eq!(app.delete(bob.credentials(), &format!("{ANALYSTS}/{id}")).await.refusal(), (403, "forbidden"));
    for unknown in [others.as_str(), UNKNOWN_ID, "x"] {
        assert_eq!(
            app.delete(ada.credentials(), &format!("{ANALYSTS}/{unknown}")).await.refusal(),
            (404, "not_found"),
            "{unknown}"
        );
    }
    assert_eq!(live(&app, &other.id.to_string()).await, [others]);
    let revoked = app.delete(ada.credentials(), &format!("{ANALYSTS}/{id}")).await;
    assert!(revoked.status == 200 && revoked.body["revoked_at"].is_string(), "{}", revoked.body);
    assert_eq!(
        app.delete(ada.credentials(), &format!("{ANALYSTS}/{id}")).await.body,
        revoked.body,
        "repeating it changes nothing"
    );
    let org: OrgId = org.parse().unwrap();
    let audited = app.audited(org).await;
    assert_eq!(audited.iter().filter(|action| *action == "analyst_account.revoked").count(), 1, "{audited:?}");
}

/// Creates an organization owned by Bob and Ada. Each uses an account, and a third account has no member.
async fn accounts(app: &TestApp) -> (Person, Person, String, [String; 3]) {
    keep_accounts(app).await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let ids = [
        create(app, &format!("--organization {org} --member ada@a.test")).await,
        create(app, &format!("--organization {org} --member bob@a.test")).await,
        create(app, &format!("--organization {org}")).await,
    ];
    (ada, bob, org, ids)
}

#[tokio::test]
async fn removing_a_person_revokes_their_analyst_accounts() {
    let app = Identity::open().await;
    let (ada, bob, org, [adas, bobs, nobodys]) = accounts(&app).await;
    let elsewhere = app.create_organization(&bob, "b.test").await.text("id").to_owned();
    let kept = create(&app, &format!("--organization {elsewhere} --member bob@a.test")).await;
    let path = format!("{}/{}", members_of(&org), bob.id);
    assert_eq!(app.delete(ada.credentials(), &format!("{path}?keep_keys=true")).await.status, 204);
    assert_eq!(live(&app, &org).await, [adas.clone(), bobs, nobodys.clone()]);
    let bob = app.joined(&ada, &org, "bob@a.test", "owner").await;
    assert_eq!(app.delete(ada.credentials(), &path).await.status, 204);
    assert_eq!(live(&app, &org).await, [adas, nobodys]);
    assert_eq!(live(&app, &elsewhere).await, [kept], "{} is still a member there", bob.id);
    let audited = app.audited(org.parse().unwrap()).await;
    assert_eq!(audited.iter().filter(|action| *action == "analyst_account.revoked").count(), 1, "{audited:?}");
}

#[tokio::test]
async fn removing_an_operator_revokes_accounts_they_created() {
    let app = Identity::open().await;
    keep_accounts(&app).await;
    let owner = app.seed().owner_of("a.test").await.id.to_string();
    for (option, is_left) in [(" --keep-keys", true), ("", false)] {
        app.operator("op@x.test").await;
        let account = create(&app, &format!("--organization {owner} --as op@x.test")).await;
        json_of(&app, &format!("operator remove op@x.test{option}")).await;
        assert_eq!(live(&app, &owner).await.contains(&account), is_left, "{option}");
    }
}
