//! `www.a.test` is `a.test`: registered, proved and owned by the shorter host, and what was registered before that rule.

use crate::domains::{app_on, own, register, verify};
use crate::internet::Internet;
use crate::test_app::{DOMAINS, Shows, TestApp};
use serde_json::json;
use service_kit::directory::Directory;

const MIGRATION: &str = include_str!("../../../schemas/postgres/0025_domains_without_www.sql");

#[tokio::test]
async fn e5_a_domain_with_www_is_the_domain_without_it_and_is_proved_there() {
    let internet = Internet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    let registered = register(&app, &key, "www.a.test").await;
    assert_eq!((registered.status, registered.text("domain")), (201, "a.test"));
    let proof = format!("svc-verify={}", registered.text("verification_token"));
    internet.publish_text("_content-telemetry.www.a.test", &proof);
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.status, 422, "that proves nothing of a.test");
    internet.publish_text("_content-telemetry.a.test", &proof);
    let verified = verify(&app, &key, &registered, &["dns_txt"]).await;
    assert_eq!((verified.status, verified.text("domain")), (200, "a.test"));
    let (_, rival) = app.org("rival").await;
    let theirs = register(&app, &rival, "WWW.a.test.").await;
    assert_eq!(verify(&app, &rival, &theirs, &["dns_txt"]).await.refusal().0, 409, "it has an owner");
    let twice = register(&app, &key, "www.www.a.test").await;
    assert_eq!(twice.refusal(), (422, "invalid_request"));
}

/// As a build from before the rule has stored it.
async fn registered_before(app: &TestApp, org: schemas::ids::OrgId, domain: &str, site: &str, is_verified: bool) {
    let verified_at = is_verified.then(|| app.clock.now());
    sqlx::query("INSERT INTO domains (organization_id, domain, site, verification_method, verified_at) VALUES ($1, $2, $3, 'dns_txt', $4)")
        .bind(org.0)
        .bind(domain)
        .bind(site)
        .bind(verified_at)
        .execute(&app.stores.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn e5_what_was_registered_with_www_before_is_released_and_seen_again_once_the_host_is_proved() {
    let internet = Internet::new().await;
    let app = app_on(&internet).await;
    let ((org, key), (other, other_key)) = (app.org("owner").await, app.org("other").await);
    registered_before(&app, org, "www.a.test", "test.a.www", true).await;
    registered_before(&app, other, "www.a.test", "test.a.www", false).await;
    registered_before(&app, org, "wwwa.test", "test.wwwa", true).await;
    sqlx::raw_sql(MIGRATION).execute(&app.stores.pool).await.unwrap();
    let left = app.get(Shows::Key(&key), DOMAINS).await.body;
    assert_eq!((left.as_array().map(Vec::len), &left[0]["domain"]), (Some(1), &json!("wwwa.test")));
    assert_eq!(app.get(Shows::Key(&other_key), DOMAINS).await.body, json!([]));
    assert_eq!(
        (app.audited(org).await, app.audited(other).await),
        (vec!["domain.released".to_owned()], vec!["domain.released".to_owned()])
    );
    own(&app, &internet, &key, "a.test").await;
    let owned = Directory::new(app.stores.pool.clone()).owned_sites(org).await.unwrap();
    let of_the_host = owned.iter().find(|owned| owned.site.domain() == "a.test").unwrap();
    assert_eq!((of_the_host.visible_from, &of_the_host.formerly), (None, &Vec::new()), "all of its history");
}
