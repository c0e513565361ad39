//! Hosts that two organizations verify, and periodic token checks (A8).

use crate::audit_trail::AuditTrail as _;
use crate::domains::{app_on, own, register, verify};
use crate::fake_internet::FakeInternet;
use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::{PROVISIONED, Person};
use crate::test_app::{DOMAINS, Identity, Requests as _, TestApp, manual_clock};
use chrono::TimeDelta;
use identity_api::domains::{DomainSettings, RecheckCounts};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::json;
use service_kit::identity_tables::IdentityTables;
use service_kit::testing::{Credentials, TestResponse, TestStores, eventually};
use sqlx::{Postgres, Transaction};
use std::time::Duration;

const MANIFEST: &str = "a.test/.well-known/content-telemetry.json";
const TXT: &str = "_content-telemetry.a.test";

async fn owner_of(app: &TestApp, domain: &str) -> Option<OrgId> {
    let site = Site::from_domain(domain).unwrap();
    IdentityTables::new(app.stores.pool.clone()).owner_of(&site).await.unwrap().map(|owner| owner.id)
}

/// Creates a content owner with another domain. Returns its owner, its id and a key.
async fn founded(app: &TestApp, email: &str) -> (Person, OrgId, String) {
    let person = app.person(email).await;
    let org: OrgId =
        app.create_organization(&person, &format!("{}.test", email.replace('@', "-"))).await.text("id").parse().unwrap();
    let key = app.seed().key(org, schemas::identity::OrgType::ContentOwner, &schemas::identity::Scope::ALL).await;
    (person, org, key)
}

/// Returns the subjects of the emails to an address.
fn subjects(app: &TestApp, to: &str) -> Vec<String> {
    let to = format!("To: {to}\r\n");
    let mails = app.mails().into_iter().filter(|mail| mail.contains(&to));
    mails.filter_map(|mail| mail.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned))).collect()
}

async fn mailed(app: &TestApp, to: &str, subject: &str) {
    eventually(&format!("{to} hears: {subject}"), || async {
        subjects(app, to).iter().any(|told| told == subject).then_some(())
    })
    .await;
}

fn publish_text(internet: &FakeInternet, registered: &TestResponse) {
    internet.publish_text(TXT, &format!("svc-verify={}", registered.text("verification_token")));
}

async fn recheck(app: &TestApp) -> RecheckCounts {
    app.state.recheck_domains().await.unwrap()
}

fn looked(standing: u32, missing: u32, lapsed: u32) -> RecheckCounts {
    RecheckCounts { present: standing, missing, lapsed }
}

#[tokio::test]
async fn a8_dns_verification_overrides_an_attestation() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, partner_key) = app.partner("partner").await;
    let body = json!({"name": "Squatter", "domain": "a.test", "attest": true, "admin_email": "sam@s.test"});
    let provisioned = app.post(Credentials::Key(&partner_key), PROVISIONED, &body).await.body;
    let squatter: OrgId = provisioned["organization"]["id"].as_str().unwrap().parse().unwrap();
    let sam = app.person("sam@s.test").await;
    assert_eq!(app.claim(&sam, &app.token_of(&provisioned["invite"]).await).await.status, 200);
    let (_, owner, key) = founded(&app, "ada@o.test").await;
    let registered = register(&app, &key, "a.test").await;

    // Without the record, other methods don't change the owner.
    let manifest = json!({"verification_token": registered.text("verification_token")}).to_string();
    internet.publish_page(MANIFEST, 200, &manifest);
    for methods in [&["well_known", "meta_tag"][..], &["dns_txt"], &["dns_txt", "well_known"]] {
        let refused = verify(&app, &key, &registered, methods).await;
        assert_eq!(refused.refusal(), (409, "conflict"), "{methods:?}");
    }
    assert_eq!(owner_of(&app, "a.test").await, Some(squatter));
    app.clock.advance(TimeDelta::hours(1));
    publish_text(&internet, &registered);
    let taken = verify(&app, &key, &registered, &["dns_txt", "well_known"]).await;
    assert_eq!((taken.status, taken.text("verification_method")), (200, "dns_txt"), "{}", taken.body);
    assert_eq!(owner_of(&app, "blog.a.test").await, Some(owner), "takes effect immediately");
    assert_eq!(app.get(sam.credentials(), DOMAINS).await.body, json!([]));
    let seen = IdentityTables::new(app.stores.pool.clone()).owned_sites(owner).await.unwrap();
    assert_eq!(seen[0].visible_from, Some(app.clock.now()), "earlier history stays with the first owner");

    assert_eq!(app.audited(squatter).await.last().map(String::as_str), Some("domain.lost"));
    assert_eq!(app.audited(owner).await.last().map(String::as_str), Some("domain.verified"));
    mailed(&app, "sam@s.test", "a.test now belongs to another organization").await;
    mailed(&app, "ada@o.test", "a.test now belongs to your organization").await;
    let told = app.mails().into_iter().filter(|mail| mail.contains("Subject: a.test now belongs"));
    assert_eq!(
        told.filter(|mail| !mail.contains("Squatter") && !mail.contains("ada-o.test.test")).count(),
        2,
        "the emails name neither organization"
    );
    let squatters = app.seed().key(squatter, schemas::identity::OrgType::ContentOwner, &schemas::identity::Scope::ALL).await;
    for (reader, other) in [(&key, squatter), (&squatters, owner)] {
        let trail = json!(app.trail_of(reader, "").await).to_string();
        let domain = "\"domain\":\"a.test\"";
        assert!(trail.contains(domain) && !trail.contains(&other.to_string()), "the trail doesn't name the other one: {trail}");
    }
    // An attestation doesn't return the host to the first owner.
    let attest =
        format!("{PROVISIONED}/{squatter}/domains/{}/attest", provisioned["organization"]["domains"][0]["id"].as_str().unwrap());
    assert_eq!(app.post(Credentials::Key(&partner_key), &attest, &json!({})).await.status, 404);
}

#[tokio::test]
async fn owners_keep_a_host_while_they_publish_their_token() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let ((_, first, first_key), (_, second, key)) = (founded(&app, "ada@o.test").await, founded(&app, "bob@o.test").await);
    let of_first = register(&app, &first_key, "a.test").await;
    let manifest = json!({"verification_token": of_first.text("verification_token")}).to_string();
    internet.publish_page(MANIFEST, 200, &manifest);
    assert_eq!(verify(&app, &first_key, &of_first, &["well_known"]).await.status, 200);
    let of_second = register(&app, &key, "a.test").await;
    publish_text(&internet, &of_second);
    assert_eq!(
        verify(&app, &key, &of_second, &["dns_txt"]).await.refusal(),
        (409, "conflict"),
        "the manifest is still published"
    );
    // Another method works as well.
    internet.publish_page(MANIFEST, 404, "");
    let meta = format!(r#"<meta name="content-telemetry-verification" content="{}">"#, of_first.text("verification_token"));
    internet.publish_page("a.test/", 200, &meta);
    assert_eq!(verify(&app, &key, &of_second, &["dns_txt"]).await.refusal(), (409, "conflict"));
    assert_eq!(owner_of(&app, "a.test").await, Some(first));
    internet.publish_page("a.test/", 200, "<p>nothing");
    assert_eq!(verify(&app, &key, &of_second, &["dns_txt"]).await.status, 200);
    assert_eq!(owner_of(&app, "a.test").await, Some(second));
    // The first owner can't take the host back by the same method while the second owner's record is published.
    let again = register(&app, &first_key, "a.test").await;
    publish_text(&internet, &again);
    assert_eq!(verify(&app, &first_key, &again, &["dns_txt"]).await.refusal(), (409, "conflict"));
    mailed(&app, "ada@o.test", "a.test now belongs to another organization").await;
}

#[tokio::test]
async fn only_one_concurrent_contest_wins() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (holder, _) = app.owner_of("a.test").await;
    let mut registered = Vec::new();
    for number in 0..8 {
        let (_, key) = app.org(&format!("org {number}")).await;
        let answer = register(&app, &key, "a.test").await;
        publish_text(&internet, &answer);
        registered.push((key, answer));
    }
    let verifying = registered.iter().map(|(key, answer)| verify(&app, key, answer, &["dns_txt"]));
    let statuses: Vec<u16> = futures::future::join_all(verifying).await.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7, "{statuses:?}");
    let lost = "SELECT count(*) FROM audit_log WHERE action = 'domain.lost'";
    assert_eq!(app.count(lost).await, 1);
    assert_ne!(owner_of(&app, "a.test").await, Some(holder));
}

/// Returns a host whose owner's token is gone, and the registration and key of an organization that verifies it.
async fn contested(app: &TestApp, internet: &FakeInternet) -> (OrgId, String, TestResponse) {
    let ((_, first, first_key), (_, _, key)) = (founded(app, "ada@o.test").await, founded(app, "bob@o.test").await);
    own(app, internet, &first_key, "a.test").await;
    internet.forget();
    let registered = register(app, &key, "a.test").await;
    publish_text(internet, &registered);
    (first, key, registered)
}

/// Takes the lock for ownership changes.
async fn hold(app: &TestApp) -> Transaction<'static, Postgres> {
    let mut holding = app.stores.pool.begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtext('domains.ownership'))").execute(&mut *holding).await.unwrap();
    holding
}

/// Finds a connection that waits for that lock.
const WAITS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'";
/// Finds a connection that waits for a row.
const WAITS_FOR_A_ROW: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'advisory'";

async fn somebody(app: &TestApp, waits: &'static str) {
    eventually("the call waits for a lock", || async { (app.count(waits).await > 0).then_some(()) }).await;
}

const PROVED_ANEW: &str = "UPDATE domains SET proved_at = proved_at + interval '1 hour' WHERE proved_at IS NOT NULL";

#[tokio::test]
async fn owners_who_verify_again_in_time_keep_the_host() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (first, key, registered) = contested(&app, &internet).await;
    let holding = hold(&app).await;
    let proving = async {
        somebody(&app, WAITS).await;
        sqlx::query(PROVED_ANEW).execute(&app.stores.pool).await.unwrap();
        holding.commit().await.unwrap();
    };
    let (refused, ()) = tokio::join!(verify(&app, &key, &registered, &["dns_txt"]), proving);
    assert_eq!(refused.refusal(), (409, "conflict"));
    assert_eq!(owner_of(&app, "a.test").await, Some(first));
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.status, 200, "without the concurrent change it succeeds");
}

#[tokio::test]
async fn owners_keep_the_host_during_a_check() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (first, key, registered) = contested(&app, &internet).await;
    let (holding, mut noting) = (hold(&app).await, app.stores.pool.begin().await.unwrap());
    let proving = async {
        somebody(&app, WAITS).await;
        // `recheck` does this without the lock.
        sqlx::query(PROVED_ANEW).execute(&mut *noting).await.unwrap();
        holding.commit().await.unwrap();
        somebody(&app, WAITS_FOR_A_ROW).await;
        noting.commit().await.unwrap();
    };
    let (refused, ()) = tokio::join!(verify(&app, &key, &registered, &["dns_txt"]), proving);
    assert_eq!(refused.refusal(), (409, "conflict"));
    assert_eq!(owner_of(&app, "a.test").await, Some(first));
}

#[tokio::test]
async fn checks_due_domains_periodically() {
    let internet = FakeInternet::new().await;
    let (outside, domains) = internet.settings();
    let domains = DomainSettings { proof_round: Duration::from_millis(100), ..domains };
    let app = Identity::open_on(TestStores::unprepared().await, manual_clock(), outside, domains).await;
    let (_, _, key) = founded(&app, "ada@o.test").await;
    own(&app, &internet, &key, "a.test").await;
    internet.forget();
    app.clock.advance(TimeDelta::days(30));
    mailed(&app, "ada@o.test", "The verification record of a.test is missing").await;
}

#[tokio::test]
async fn domains_lapse_after_seven_days_without_a_token() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, owner, key) = founded(&app, "ada@o.test").await;
    let registered = own(&app, &internet, &key, "a.test").await;
    let (attested, _) = app.owner_of("b.test").await;
    assert_eq!(recheck(&app).await, looked(0, 0, 0), "it was checked just now");
    app.clock.advance(TimeDelta::days(30));
    assert_eq!(recheck(&app).await, looked(1, 0, 0));
    assert_eq!(recheck(&app).await, looked(0, 0, 0), "it is not due again yet");

    // The token is missing for six days, then published again.
    internet.forget();
    app.clock.advance(TimeDelta::days(30));
    assert_eq!(recheck(&app).await, looked(0, 1, 0));
    mailed(&app, "ada@o.test", "The verification record of a.test is missing").await;
    for _ in 0..24 {
        assert_eq!(recheck(&app).await, looked(0, 0, 0), "not before six hours have passed");
        app.clock.advance(TimeDelta::hours(6));
        assert_eq!(recheck(&app).await, looked(0, 1, 0));
    }
    publish_text(&internet, &registered);
    app.clock.advance(TimeDelta::hours(6));
    assert_eq!(recheck(&app).await, looked(1, 0, 0));
    assert_eq!(owner_of(&app, "a.test").await, Some(owner));

    // It is missing again. The earlier days don't count.
    internet.forget();
    app.clock.advance(TimeDelta::days(30));
    for _ in 0..28 {
        assert_eq!(recheck(&app).await, looked(0, 1, 0));
        assert_eq!(owner_of(&app, "a.test").await, Some(owner));
        app.clock.advance(TimeDelta::hours(6));
    }
    assert_eq!(recheck(&app).await, looked(0, 0, 1));
    assert_eq!(
        (owner_of(&app, "a.test").await, owner_of(&app, "b.test").await),
        (None, Some(attested)),
        "other domains stay verified"
    );
    assert_eq!(app.audited(owner).await.last().map(String::as_str), Some("domain.lapsed"));
    let told = subjects(&app, "ada@o.test");
    assert_eq!(
        told,
        [
            "The verification record of a.test is missing",
            "The verification record of a.test is missing",
            "a.test is no longer verified"
        ]
    );
    app.clock.advance(TimeDelta::days(60));
    assert_eq!(recheck(&app).await, looked(0, 0, 0));
    // As after a release, a returning owner sees its history.
    own(&app, &internet, &key, "a.test").await;
    let seen = IdentityTables::new(app.stores.pool.clone()).owned_sites(owner).await.unwrap();
    assert_eq!(seen.iter().find(|seen| seen.site.domain() == "a.test").unwrap().visible_from, None);
}

#[tokio::test]
async fn downtime_does_not_make_domains_lapse() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    own(&app, &internet, &key, "a.test").await;
    internet.forget();
    app.clock.advance(TimeDelta::days(30));
    assert_eq!(recheck(&app).await, looked(0, 1, 0));
    for _ in 0..6 {
        app.clock.advance(TimeDelta::days(8));
        assert_eq!(recheck(&app).await, looked(0, 1, 0), "too few failed checks");
    }
    app.clock.advance(TimeDelta::days(8));
    assert_eq!(recheck(&app).await, looked(0, 0, 1));
}

#[tokio::test]
async fn owners_can_verify_attested_or_missing_domains_again() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, owner, key) = founded(&app, "ada@o.test").await;
    let registered = register(&app, &key, "a.test").await;
    let attest = "UPDATE domains SET verified_at = created_at, verification_method = 'attested' WHERE domain = 'a.test'";
    sqlx::query(attest).execute(&app.stores.pool).await.unwrap();
    let still = verify(&app, &key, &registered, &["dns_txt"]).await;
    assert_eq!((still.status, still.text("verification_method")), (200, "attested"), "a failed verification changes nothing");
    publish_text(&internet, &registered);
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.text("verification_method"), "dns_txt");
    assert_eq!(app.audited(owner).await.last().map(String::as_str), Some("domain.proved"));
    internet.forget();
    app.clock.advance(TimeDelta::days(30));
    assert_eq!(recheck(&app).await, looked(0, 1, 0));
    publish_text(&internet, &registered);
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.status, 200);
    app.clock.advance(TimeDelta::days(29));
    assert_eq!(recheck(&app).await, looked(0, 0, 0), "due again after thirty days");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_check_each_domain_once() {
    const DOMAINS_IN_ALL: u32 = 20;
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (org, key) = app.org("owner").await;
    for number in 0..DOMAINS_IN_ALL {
        own(&app, &internet, &key, &format!("host{number}.a.test")).await;
    }
    let others = [app.second_state().await, app.second_state().await];
    let all_look = async || {
        let (one, two, three) =
            tokio::join!(app.state.recheck_domains(), others[0].recheck_domains(), others[1].recheck_domains());
        let all = [one.unwrap(), two.unwrap(), three.unwrap()];
        let sum = |of: fn(&RecheckCounts) -> u32| all.iter().map(of).sum();
        looked(sum(|looked| looked.present), sum(|looked| looked.missing), sum(|looked| looked.lapsed))
    };
    app.clock.advance(TimeDelta::days(30));
    assert_eq!(all_look().await, looked(DOMAINS_IN_ALL, 0, 0));
    internet.forget();
    app.clock.advance(TimeDelta::days(30));
    for _ in 0..7 {
        assert_eq!(all_look().await, looked(0, DOMAINS_IN_ALL, 0));
        app.clock.advance(TimeDelta::days(1));
    }
    assert_eq!(all_look().await, looked(0, 0, DOMAINS_IN_ALL));
    let lapsed = app.audited(org).await.into_iter().filter(|action| action == "domain.lapsed").count();
    assert_eq!(lapsed, DOMAINS_IN_ALL as usize);
}
