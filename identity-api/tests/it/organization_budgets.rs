//! Limits on changes, messages and lists per organization, across its keys (threat rows F50 to F52).

use crate::domains::{register, verify};
use crate::fake_internet::FakeInternet;
use crate::late_revocations::begin;
use crate::test_app::{
    DELEGATIONS, DRAINS, Identity, KEYS, Requests as _, SESSION, SETTINGS, TestApp, WEBHOOKS, manual_clock, sign_in,
};
use crate::webhook_endpoint_states::EndpointStates as _;
use chrono::TimeDelta;
use identity_api::domains::DomainSettings;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use schemas::identity::{MAX_KEYS, OrgType, Scope};
use schemas::ids::OrgId;
use schemas::secrets::PlainApiKey;
use serde_json::{Value, json};
use service_kit::auth::{API_KEY_HEADER, Tenant};
use service_kit::clock::Clock;
use service_kit::identity_tables::IdentityTables;
use service_kit::settings::WebhookSettings;
use service_kit::testing::{Credentials, TestResponse, TestStores, eventually, send_request};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Opens an app with a budget of `identity_bytes` per hour and organization.
async fn open_with(identity_bytes: u64, clock: Clock) -> TestApp {
    Identity::open_for(clock, SignInSettings { identity_bytes, ..sign_in() }).await
}

async fn change_setting(app: &TestApp, key: &str, value: bool) -> TestResponse {
    app.send(Method::PATCH, Credentials::Key(key), SETTINGS, json!({"visible_in_click_token_lookups": value}).to_string()).await
}

async fn add_keys(app: &TestApp, org: OrgId, number: i64) {
    sqlx::query(
        "INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes, created_by_kind) \
         SELECT $1, 'many', 'svc_pub_', sha256(n::text::bytea), '{}', 'system' FROM generate_series(1, $2) n",
    )
    .bind(org.0)
    .bind(number)
    .execute(&app.stores.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn f50_changes_return_429_when_the_budget_is_spent() {
    let clock = manual_clock();
    let app = open_with(100_000, clock.clone()).await;
    let ((org, key), (_, other)) = (app.org("busy").await, app.org("other").await);
    let mut accepted = 0;
    while change_setting(&app, &key, accepted % 2 == 0).await.status == 200 {
        accepted += 1;
        assert!(accepted < 100, "a change costs more than 1,000 bytes");
    }
    assert!(accepted > 10, "{accepted}");
    let refused = change_setting(&app, &key, true).await;
    assert_eq!(refused.refusal(), (429, "too_many_requests"));
    assert_eq!(app.audited(org).await.len(), accepted, "rejected changes leave no row");
    assert_eq!(app.get(Credentials::Key(&key), SETTINGS).await.status, 200, "reads still work");
    assert_eq!(change_setting(&app, &other, true).await.status, 200, "other organizations are not affected");
    let large = app.send(Method::PATCH, Credentials::Key(&other), SETTINGS, "x".repeat(1_000_000)).await;
    assert_eq!(large.refusal(), (413, "too_large"), "rejecting a large body costs nothing");
    clock.advance(TimeDelta::hours(1));
    assert_eq!(change_setting(&app, &key, true).await.status, 200, "the budget is full after an hour");
}

/// Otherwise, a leaked key or a member could spend the whole budget, and the owner couldn't revoke the key.
#[tokio::test]
async fn f74_revoking_does_not_require_budget() {
    let app = open_with(100_000, manual_clock()).await;
    let ((_, key), (platform, _)) = (app.org("owner").await, app.platform("platform").await);
    let leaked = app.post(Credentials::Key(&key), KEYS, &json!({"name": "leaked", "scopes": ["identity:write"]})).await;
    let granted = json!({"grantee_org_id": platform, "scopes": ["telemetry:read"]});
    let delegation = app.post(Credentials::Key(&key), DELEGATIONS, &granted).await;
    assert_eq!((leaked.status, delegation.status), (201, 201));
    while change_setting(&app, &key, true).await.status == 200 && change_setting(&app, &key, false).await.status == 200 {}
    assert_eq!(change_setting(&app, &key, true).await.status, 429);
    for (list, created) in [(KEYS, leaked), (DELEGATIONS, delegation)] {
        let revoked = app.delete(Credentials::Key(&key), &format!("{list}/{}", created.text("id"))).await;
        assert!(matches!(revoked.status, 200 | 204), "{list}: {}", revoked.status);
    }
}

#[tokio::test]
async fn person_budget_limits_created_organizations() {
    let app = open_with(30_000, manual_clock()).await;
    let session = app.session("ann@example.com", &[]).await;
    let create = async |number: usize| {
        let request = app.request(Method::POST, "/api/v1/identity/organizations", Credentials::Session(&session));
        send_request(request.json(&json!({"name": format!("Organization {number}"), "org_type": "content_owner", "domain": format!("a{number}.example.com")}))).await
    };
    let mut statuses = Vec::new();
    for number in 0..20 {
        statuses.push(create(number).await.status);
    }
    assert_eq!((statuses[0], statuses[19]), (201, 429), "{statuses:?}");
    assert_eq!(app.delete(Credentials::Session(&session), SESSION).await.status, 204, "signing out needs no budget");
}

#[tokio::test]
async fn f52_limits_endpoint_tests_to_five_per_minute() {
    let app = Identity::open().await;
    let (_, owner) = app.org("owner").await;
    let endpoint = app.subscribe(&owner, &["delegation.created"]).await;
    let sent = app.test_webhook(&owner, &endpoint).await;
    let redeliver = async || {
        let path = format!("{WEBHOOKS}/{}/deliveries/{}/redeliver", endpoint.text("id"), sent.text("id"));
        app.post(Credentials::Key(&owner), &path, &json!({})).await.status
    };
    let mut statuses = vec![sent.status];
    for _ in 0..2 {
        statuses.extend([redeliver().await, app.test_webhook(&owner, &endpoint).await.status]);
    }
    assert_eq!(statuses, [202; 5]);
    assert_eq!((redeliver().await, app.test_webhook(&owner, &endpoint).await.refusal()), (429, (429, "too_many_requests")));
    assert_eq!(app.count("SELECT count(*) FROM webhook_deliveries").await, 3, "rejected tests are not sent");
    let other = app.subscribe(&owner, &["delegation.created"]).await;
    assert_eq!(app.test_webhook(&owner, &other).await.status, 202, "other endpoints have their own rate");
}

#[tokio::test]
async fn limits_organization_tests_to_twenty_per_minute() {
    let app = Identity::open().await;
    let ((_, busy), (_, other)) = (app.org("busy").await, app.org("other").await);
    let mut accepted = 0;
    for _ in 0..6 {
        let endpoint = app.subscribe(&busy, &["delegation.created"]).await;
        for _ in 0..5 {
            accepted += usize::from(app.test_webhook(&busy, &endpoint).await.status == 202);
        }
    }
    // One token refills every three seconds.
    assert!((20..25).contains(&accepted), "{accepted}");
    let endpoint = app.subscribe(&other, &["delegation.created"]).await;
    assert_eq!(app.test_webhook(&other, &endpoint).await.status, 202);
}

/// Organizations can't use up the rate of another organization's endpoint.
#[tokio::test]
async fn testing_foreign_endpoints_does_not_count() {
    let app = Identity::open().await;
    let ((_, owner), (_, stranger)) = (app.org("owner").await, app.org("stranger").await);
    let endpoint = app.subscribe(&owner, &["delegation.created"]).await;
    for _ in 0..10 {
        assert_eq!(app.test_webhook(&stranger, &endpoint).await.status, 404);
    }
    assert_eq!(app.test_webhook(&owner, &endpoint).await.status, 202);
}

#[tokio::test]
async fn f51_an_organizations_keys_share_a_rate() {
    let app = Identity::open_for(Clock::System, SignInSettings { identity_rate: 2, ..sign_in() }).await;
    let (org, _) = app.org("busy").await;
    let mut statuses = Vec::new();
    for _ in 0..40 {
        // Each key can send four requests at once, and the organization eight.
        let key = app.seed().key(org, OrgType::ContentOwner, &[Scope::IdentityRead]).await;
        statuses.push(app.get(Credentials::Key(&key), KEYS).await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    let (_, other) = app.org("other").await;
    assert_eq!(app.get(Credentials::Key(&other), KEYS).await.status, 200);
}

#[tokio::test]
async fn organizations_have_at_most_1000_active_keys() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    add_keys(&app, org, MAX_KEYS - 3).await;
    let create = async || app.create(Credentials::Key(&owner), &json!({"name": "one more"})).await;
    let last = create().await;
    assert_eq!(last.status, 201, "{}", last.body);
    assert_eq!(create().await.refusal(), (409, "conflict"));
    let drain = json!({"name": "cdn", "provider": "cloudflare"});
    let refused = app.post(Credentials::Key(&owner), DRAINS, &drain).await;
    assert_eq!(refused.refusal(), (409, "conflict"), "a drain has a key too");
    assert_eq!(app.revoke(Credentials::Key(&owner), last.text("id")).await.status, 200);
    assert_eq!(create().await.status, 201);
}

#[tokio::test]
async fn key_lists_contain_at_most_1000_revoked_keys() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    add_keys(&app, org, 3_000).await;
    sqlx::query("UPDATE api_keys SET revoked_at = now() WHERE name = 'many'").execute(&app.stores.pool).await.unwrap();
    let listed = app.list(Credentials::Key(&owner)).await.body;
    assert_eq!(listed.as_array().unwrap().len(), 1_002);
}

#[tokio::test]
async fn organizations_have_at_most_1000_members() {
    let app = Identity::open().await;
    let (org, _) = app.org("owner").await;
    let session = app.session("owner@example.com", &[org]).await;
    sqlx::query(
        "WITH people AS (INSERT INTO users (email) SELECT 'p' || n || '@example.com' FROM generate_series(1, 998) n RETURNING id) \
         INSERT INTO memberships (organization_id, user_id, role, created_at) SELECT $1, id, 'member', now() FROM people",
    )
    .bind(org.0)
    .execute(&app.stores.pool)
    .await
    .unwrap();
    let path = format!("/api/v1/identity/organizations/{org}/members");
    let invite = async |name: &str| {
        let body = json!({"email": format!("{name}@example.com")});
        send_request(app.request(Method::POST, &path, Credentials::Session(&session)).json(&body)).await
    };
    assert_eq!(invite("ann").await.status, 201);
    assert_eq!(invite("joe").await.refusal(), (409, "conflict"));
}

/// Returns the number of this test's database connections that wait for a lock.
async fn waiting_connections(app: &TestApp) -> i64 {
    let counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(counted).fetch_one(&app.stores.pool).await.unwrap()
}

const HALF_OF_KEYS: i64 = 5;
const HALF_OF_SESSIONS: i64 = 2;

/// Makes forty changes that wait for rows locked by this statement. Checks that half of the slots stay free.
async fn assert_half_of_the_slots_stay_free<F>(
    app: &Arc<TestApp>,
    half: i64,
    lock: sqlx::query::Query<'_, Postgres, PgArguments>,
    change: impl Fn(usize) -> F,
) where
    F: Future<Output = u16> + Send + 'static,
{
    let (org, other) = app.org("other").await;
    let session = app.session("other@example.com", &[org]).await;
    let mut locking = app.stores.pool.begin().await.unwrap();
    lock.execute(&mut *locking).await.unwrap();
    let changes: JoinSet<u16> = (0..40).map(change).collect();
    eventually("half of the slots are taken", || async { (waiting_connections(app).await >= half).then_some(()) }).await;
    for number in 0..20 {
        let asked = Instant::now();
        for credentials in [Credentials::Key(&other), Credentials::Session(&session)] {
            assert_eq!(app.get(credentials, SETTINGS).await.status, 200);
        }
        assert!(asked.elapsed() < Duration::from_secs(2), "it waited for the statement timeout");
        assert_eq!(change_setting(app, &other, number % 2 == 0).await.status, 200);
        assert!(waiting_connections(app).await <= half, "half of the slots at most");
    }
    locking.rollback().await.unwrap();
    for status in changes.join_all().await {
        // The statement timeout is three seconds.
        assert!(matches!(status, 200 | 201 | 409 | 429 | 503), "{status}");
    }
}

#[tokio::test]
async fn one_organization_cannot_use_all_connections() {
    let app = Arc::new(Identity::open().await);
    let (org, key) = app.org("waiting").await;
    let lock = sqlx::query("SELECT 1 FROM organizations WHERE id = $1 FOR UPDATE").bind(org.0);
    assert_half_of_the_slots_stay_free(&app, HALF_OF_KEYS, lock, |_| {
        let (app, key) = (Arc::clone(&app), key.clone());
        async move { change_setting(&app, &key, true).await.status }
    })
    .await;
}

#[tokio::test]
async fn f72_one_person_cannot_use_all_connections() {
    let app = Arc::new(Identity::open().await);
    let session = app.session("ann@example.com", &[]).await;
    let lock = sqlx::query("SELECT 1 FROM users WHERE email = 'ann@example.com' FOR UPDATE");
    assert_half_of_the_slots_stay_free(&app, HALF_OF_SESSIONS, lock, |number| {
        let (app, session) = (Arc::clone(&app), session.clone());
        let body = json!({"name": "Many", "org_type": "content_owner", "domain": format!("a{number}.example.com")});
        async move { app.post(Credentials::Session(&session), "/api/v1/identity/organizations", &body).await.status }
    })
    .await;
}

#[tokio::test]
async fn people_share_slots_across_their_organizations() {
    let app = Arc::new(Identity::open().await);
    let mut own = Vec::new();
    for number in 0..8 {
        own.push(app.org(&format!("own {number}")).await.0);
    }
    let session = app.session("ann@example.com", &own).await;
    let ids: Vec<_> = own.iter().map(|org| org.0).collect();
    let lock = sqlx::query("SELECT 1 FROM organizations WHERE id = ANY($1) FOR UPDATE").bind(ids);
    assert_half_of_the_slots_stay_free(&app, HALF_OF_SESSIONS, lock, |number| {
        let (app, session) = (Arc::clone(&app), session.clone());
        let path = format!("{SETTINGS}?organization_id={}", own[number % own.len()]);
        let body = r#"{"visible_in_click_token_lookups": true}"#;
        async move { app.send(Method::PATCH, Credentials::Session(&session), &path, body).await.status }
    })
    .await;
}

/// Otherwise, a leaked key could delay its own revocation.
#[tokio::test]
async fn f72_keys_never_delay_their_owners_sessions() {
    let app = Arc::new(Identity::open().await);
    let mut own = Vec::new();
    for number in 0..8 {
        own.push(app.org(&format!("own {number}")).await);
    }
    let ids: Vec<_> = own.iter().map(|(org, _)| *org).collect();
    let session = app.session("ann@example.com", &ids).await;
    let (last, leaked) = own.pop().unwrap();
    let mut locking = app.stores.pool.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM organizations WHERE name LIKE 'own %' AND id <> $1 FOR UPDATE").bind(last.0);
    lock.execute(&mut *locking).await.unwrap();
    let changes: JoinSet<u16> = (0..40)
        .map(|number| {
            let (app, (_, key)) = (Arc::clone(&app), own[number % own.len()].clone());
            async move { change_setting(&app, &key, true).await.status }
        })
        .collect();
    eventually("the share is used up", || async { (waiting_connections(&app).await >= HALF_OF_KEYS).then_some(()) }).await;
    let (shows, query, asked) = (Credentials::Session(&session), format!("organization_id={last}"), Instant::now());
    for key in app.get(shows, &format!("{KEYS}?{query}")).await.body.as_array().unwrap() {
        let revoked = app.delete(shows, &format!("{KEYS}/{}?{query}", key["id"].as_str().unwrap())).await;
        assert_eq!(revoked.status, 200, "{}", revoked.body);
    }
    assert!(asked.elapsed() < Duration::from_secs(2), "it waited for a slot");
    assert_eq!(app.get(Credentials::Key(&leaked), SETTINGS).await.status, 401);
    assert!(waiting_connections(&app).await <= HALF_OF_KEYS, "keys of all its organizations have one share");
    locking.rollback().await.unwrap();
    changes.join_all().await;
}

#[tokio::test]
async fn f75_keys_belong_to_the_earliest_owners_share() {
    let app = Identity::open().await;
    let (org, key) = app.org("many hands").await;
    let hash = PlainApiKey::parse(&key).unwrap().hash();
    let tables = IdentityTables::new(app.stores.pool.clone());
    let tenant = async || tables.find_key(&hash).await.unwrap().unwrap().tenant();
    assert_eq!(tenant().await, Tenant::Organization(org), "without an owner");
    let mut people = Vec::new();
    for name in ["late", "founder", "early", "twin"] {
        let email = format!("{name}@example.com");
        app.seed().own(&email, &[org]).await;
        people.push(app.seed().join(&email, org).await);
    }
    let [late, founder, early, twin] = people[..] else { unreachable!() };
    sqlx::query("UPDATE organizations SET founded_by = $1").bind(founder.0).execute(&app.stores.pool).await.unwrap();
    let joined = "UPDATE memberships SET created_at = timestamptz '2026-01-01' + $2 * interval '1 day' WHERE user_id = $1";
    for (person, day) in [(late, 3), (founder, 2), (early, 1), (twin, 1)] {
        sqlx::query(joined).bind(person.0).bind(day).execute(&app.stores.pool).await.unwrap();
    }
    // Both have been owners since the same day, so the lower id counts.
    for expected in [early.min(twin), early.max(twin), founder, late] {
        assert_eq!(tenant().await, Tenant::Person(expected));
        let handed_over = sqlx::query("UPDATE memberships SET role = 'member' WHERE user_id = $1").bind(expected.0);
        handed_over.execute(&app.stores.pool).await.unwrap();
    }
    assert_eq!(tenant().await, Tenant::Organization(org), "members don't count");
}

/// Slots of four organizations whose keys take as many as they can, 10 in total.
const SHARES: [usize; 4] = [5, 3, 1, 1];

/// Sends the head of a change and returns once the server asks for its body.
async fn change_without_body(app: &TestApp, key: &str) -> TcpStream {
    begin(app, ("PATCH", SETTINGS), &format!("{API_KEY_HEADER}: {key}"), 40).await.expect("the server asks for the body")
}

#[tokio::test]
async fn f70_unsent_bodies_do_not_occupy_a_slot() {
    let app = Identity::open().await;
    let mut open = Vec::new();
    for (number, share) in SHARES.into_iter().enumerate() {
        let (_, key) = app.org(&format!("slow {number}")).await;
        for _ in 0..share {
            open.push(change_without_body(&app, &key).await);
        }
    }
    let (_, other) = app.org("other").await;
    let answer = app.get(Credentials::Key(&other), SETTINGS).await;
    assert_eq!(answer.status, 200, "{} changes are open: {}", open.len(), answer.body);
}

#[tokio::test]
async fn f71_hanging_domain_checks_do_not_occupy_a_slot() {
    let internet = FakeInternet::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let (outside, domains) = internet.settings();
    let outside = WebhookSettings { webhook_allow: format!("a.test:{port}").parse().unwrap(), ..outside };
    let domains = DomainSettings { verification_port: port, ..domains };
    let app = Arc::new(Identity::open_on(TestStores::unprepared().await, Clock::System, outside, domains).await);
    let (mut checks, mut open) = (JoinSet::new(), Vec::new());
    for (number, share) in SHARES.into_iter().enumerate() {
        let (_, key) = app.org(&format!("slow {number}")).await;
        let registered = Arc::new(register(&app, &key, "a.test").await);
        for _ in 0..share {
            let (app, key, registered) = (Arc::clone(&app), key.clone(), Arc::clone(&registered));
            checks.spawn(async move { verify(&app, &key, &registered, &["well_known"]).await.status });
            open.push(silent.accept().await.unwrap());
        }
    }
    let (_, other) = app.org("other").await;
    let answer = app.get(Credentials::Key(&other), SETTINGS).await;
    assert_eq!(answer.status, 200, "{} checks hang: {}", open.len(), answer.body);
    drop(open);
    assert!(checks.join_all().await.iter().all(|status| *status == 422));
}

#[tokio::test]
async fn every_list_has_pages() {
    let app = Identity::open().await;
    let (org, owner) = app.owner_of("a.test").await;
    let session = app.session("owner@example.com", &[org]).await;
    add_keys(&app, org, 8).await;
    let (key, person) = (Credentials::Key(&owner), Credentials::Session(&session));
    let (whole, total) = app.listed_with_total(key, KEYS).await;
    assert_eq!((whole.len(), total.as_str()), (10, "10"));
    let mut walked = Vec::new();
    for offset in [0, 4, 8] {
        let (items, total) = app.listed_with_total(key, &format!("{KEYS}?limit=4&offset={offset}")).await;
        assert_eq!((items.len(), total.as_str()), ([4, 4, 2][offset / 4], "10"));
        walked.extend(items);
    }
    // Ignore `last_used_at`, which is written after the response.
    let ids = |items: &[Value]| items.iter().map(|item| item["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&walked), ids(&whole));
    for list in ["analysts", "delegations", "delegation-requests", "domains", "drains", "webhooks"] {
        let (items, total) = app.listed_with_total(key, &format!("/api/v1/identity/{list}?limit=1")).await;
        assert_eq!(items.len().to_string(), total, "{list}");
    }
    let of_organization = [format!("organizations/{org}/members"), format!("organizations/{org}/invites")];
    let of_person = ["organizations", "platform-access-requests", "agent-access-requests"].map(str::to_owned);
    for list in of_organization.iter().chain(&of_person) {
        let path = format!("/api/v1/identity/{list}");
        let (items, total) = app.listed_with_total(person, &format!("{path}?offset=1000000")).await;
        assert!(items.is_empty() && total.parse::<usize>().unwrap() <= 1, "{list}: {total}");
        let refused = send_request(app.request(Method::GET, &format!("{path}?limit=0"), person)).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{list}");
    }
}

#[tokio::test]
async fn delegation_pages_have_at_most_1000_items() {
    let app = Identity::open().await;
    let (partner, key) = app.platform("partner").await;
    sqlx::query(
        "WITH owners AS (INSERT INTO organizations (name, org_type) SELECT 'o' || n, 'content_owner' FROM generate_series(1, 1003) n \
                         RETURNING id) \
         INSERT INTO delegations (id, grantor_org_id, grantee_org_id, scopes, created_at) \
         SELECT uuidv7(), id, $1, '{telemetry:read}', now() FROM owners",
    )
    .bind(partner.0)
    .execute(&app.stores.pool)
    .await
    .unwrap();
    let (items, total) = app.listed_with_total(Credentials::Key(&key), DELEGATIONS).await;
    assert_eq!((items.len(), total.as_str()), (1_000, "1003"));
    let (items, total) = app.listed_with_total(Credentials::Key(&key), &format!("{DELEGATIONS}?offset=1000")).await;
    assert_eq!((items.len(), total.as_str()), (3, "1003"));
}
