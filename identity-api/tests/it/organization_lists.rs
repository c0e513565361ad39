//! Limits on the lists of a person's organizations (threat row F51).

use crate::people::ORGANIZATIONS;
use crate::people::People as _;
use crate::test_app::{Credentials, DOMAINS, Identity, Requests as _, SESSION, TestApp};
use schemas::ids::OrgId;
use serde_json::json;
use std::collections::BTreeSet;

/// Registers `number` domains for each organization and verifies the last two.
async fn add_domains(app: &TestApp, orgs: &[OrgId], number: i64) {
    sqlx::query(
        "INSERT INTO domains (organization_id, domain, site, created_at, verified_at, verification_method) \
         SELECT o.id, 'h' || n || '.o' || o.at || '.test', 'test.o' || o.at || '.h' || n, now() + make_interval(secs => n), \
                CASE WHEN n > $2 - 2 THEN now() END, CASE WHEN n > $2 - 2 THEN 'operator' END \
         FROM unnest($1::uuid[]) WITH ORDINALITY AS o (id, at), generate_series(1, $2) n",
    )
    .bind(orgs.iter().map(|org| org.0).collect::<Vec<_>>())
    .bind(number)
    .execute(&app.stores.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn organization_lists_show_ten_domains_each() {
    let app = Identity::open().await;
    let mut own = Vec::new();
    for number in 0..20 {
        own.push(app.org(&format!("own {number}")).await.0);
    }
    let session = app.session("ann@example.com", &own).await;
    let person = Credentials::Session(&session);
    add_domains(&app, &own, 1_000).await;
    let (listed, total) = app.listed_with_total(person, ORGANIZATIONS).await;
    assert_eq!((listed.len(), total.as_str()), (20, "20"));
    let bytes = serde_json::to_vec(&listed).unwrap().len();
    assert!(bytes <= 256 * 1024, "{bytes} bytes");
    let first = &listed[0];
    assert_eq!(
        (first["id"].clone(), &first["domain_count"], &first["domain"]),
        (json!(own[0]), &json!(1_000), &json!("h1.o1.test"))
    );
    let shown: Vec<_> = first["domains"].as_array().unwrap().iter().map(|domain| domain["domain"].as_str().unwrap()).collect();
    let expected = [1, 2, 3, 4, 5, 6, 7, 8, 999, 1_000].map(|number| format!("h{number}.o1.test"));
    assert_eq!(shown, expected, "verified domains come first");
    let one = app.get(person, &format!("{ORGANIZATIONS}/{}", own[0])).await.body;
    assert_eq!((one["domains"].as_array().unwrap().len(), &one["domain"]), (1_000, &first["domain"]));
    let (domains, total) =
        app.listed_with_total(person, &format!("{DOMAINS}?organization_id={}&limit=100&offset=950", own[0])).await;
    assert_eq!((domains.len(), total.as_str()), (50, "1000"));
}

#[tokio::test]
async fn organization_lists_have_at_most_100_items() {
    let app = Identity::open().await;
    let session = app.session("ann@example.com", &[]).await;
    sqlx::query(
        "WITH many AS (INSERT INTO organizations (name, org_type) SELECT 'o' || n, 'content_owner' FROM generate_series(1, 999) n \
                       RETURNING id) \
         INSERT INTO memberships (organization_id, user_id, role, created_at) \
         SELECT many.id, users.id, 'owner', now() FROM many, users WHERE email = 'ann@example.com'",
    )
    .execute(&app.stores.pool)
    .await
    .unwrap();
    let person = Credentials::Session(&session);
    let mut walked = BTreeSet::new();
    for offset in (0..1_000).step_by(100) {
        let (items, total) = app.listed_with_total(person, &format!("{ORGANIZATIONS}?limit=1000&offset={offset}")).await;
        assert_eq!((items.len(), total.as_str()), (if offset < 900 { 100 } else { 99 }, "999"));
        walked.extend(items.iter().map(|item| item["id"].to_string()));
    }
    assert_eq!(walked.len(), 999);
}

#[tokio::test]
async fn people_can_join_at_most_1000_organizations() {
    let app = Identity::open().await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    sqlx::query(
        "WITH many AS (INSERT INTO organizations (name, org_type) SELECT 'o' || n, 'content_owner' FROM generate_series(1, 999) n \
                       RETURNING id) \
         INSERT INTO memberships (organization_id, user_id, role, created_at) SELECT id, $1, 'member', now() FROM many",
    )
    .bind(eve.id.0)
    .execute(&app.stores.pool)
    .await
    .unwrap();
    let mut statuses = Vec::new();
    for domain in ["a.test", "b.test"] {
        let org = app.create_organization(&ada, domain).await.text("id").to_owned();
        let invite = app.invite(&ada, &org, &eve.email, "member").await;
        let token = app.token_of(&invite.body).await;
        statuses.push(app.claim(&eve, &token).await.status);
    }
    assert_eq!(statuses, [200, 409]);
    let session = app.get(eve.credentials(), SESSION).await.body;
    assert_eq!(session["memberships"].as_array().unwrap().len(), 1_000);
}
