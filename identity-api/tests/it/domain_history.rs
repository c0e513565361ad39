//! A host's ownership periods, and the history that owners see (R7, RS2, I3; S4).

use crate::domains::{app_on, own, register, release, verify};
use crate::fake_internet::FakeInternet;
use crate::test_app::{Credentials, DOMAINS, Requests as _, TestApp, until_served};
use chrono::{DateTime, TimeDelta, Utc};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::json;
use service_kit::identity_tables::{IdentityTables, OwnedSite};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

fn site(domain: &str) -> Site {
    Site::from_domain(domain).unwrap()
}

/// Returns the sites as reads see them.
async fn owned(app: &TestApp, org: OrgId) -> Vec<OwnedSite> {
    IdentityTables::new(app.stores.pool.clone()).owned_sites(org).await.unwrap()
}

async fn owner_of(app: &TestApp, domain: &str) -> Option<OrgId> {
    IdentityTables::new(app.stores.pool.clone()).owner_of(&site(domain)).await.unwrap().map(|owner| owner.id)
}

/// Returns an organization's hosts, each with the start of the history it sees.
async fn sees(app: &TestApp, org: OrgId) -> Vec<(String, Option<DateTime<Utc>>)> {
    owned(app, org).await.into_iter().map(|owned| (owned.site.domain(), owned.visible_from)).collect()
}

fn later(app: &TestApp) -> DateTime<Utc> {
    app.clock.advance(TimeDelta::hours(1));
    chrono::SubsecRound::trunc_subsecs(app.clock.now(), 6)
}

#[tokio::test]
async fn i3_unverified_domains_neither_show_data_nor_block_others() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let ((squatter, squatting), (owner, key)) = (app.org("squatter").await, app.org("owner").await);
    let squatted = register(&app, &squatting, "a.test").await;
    assert_eq!((owner_of(&app, "a.test").await, sees(&app, squatter).await), (None, vec![]));
    own(&app, &internet, &key, "a.test").await;
    assert_eq!(owner_of(&app, "www.a.test").await, Some(owner));
    assert_eq!(sees(&app, owner).await, [("a.test".to_owned(), None)], "the first owner sees the full history");
    let refused = verify(&app, &squatting, &squatted, &["dns_txt"]).await;
    assert_eq!(refused.refusal(), (409, "conflict"));
    // Even with its own token next to the owner's, the organization doesn't become the owner.
    let token = squatted.text("verification_token");
    internet.publish_text("_content-telemetry.a.test", &format!("svc-verify={token}"));
    assert_eq!(verify(&app, &squatting, &squatted, &["dns_txt"]).await.refusal(), (409, "conflict"));
    assert_eq!((owner_of(&app, "a.test").await, sees(&app, squatter).await), (Some(owner), vec![]));
}

#[tokio::test]
async fn r7_later_owners_do_not_see_earlier_history() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let ((first, first_key), (second, second_key)) = (app.org("first").await, app.org("second").await);
    let registered = own(&app, &internet, &first_key, "a.test").await;
    later(&app);
    assert_eq!(release(&app, &first_key, &registered).await, 204);
    assert_eq!((owner_of(&app, "a.test").await, sees(&app, first).await), (None, vec![]), "takes effect immediately");
    // There was no other owner in between.
    later(&app);
    let registered = own(&app, &internet, &first_key, "a.test").await;
    assert_eq!(sees(&app, first).await, [("a.test".to_owned(), None)]);
    assert_eq!(release(&app, &first_key, &registered).await, 204);

    let bought_at = later(&app);
    let registered = own(&app, &internet, &second_key, "a.test").await;
    assert_eq!(sees(&app, second).await, [("a.test".to_owned(), Some(bought_at))]);
    assert_eq!((owner_of(&app, "a.test").await, sees(&app, first).await), (Some(second), vec![]));
    later(&app);
    assert_eq!(release(&app, &second_key, &registered).await, 204);
    later(&app);
    let registered = own(&app, &internet, &second_key, "a.test").await;
    assert_eq!(sees(&app, second).await, [("a.test".to_owned(), Some(bought_at))], "as before");
    assert_eq!(release(&app, &second_key, &registered).await, 204);

    let bought_back_at = later(&app);
    own(&app, &internet, &first_key, "a.test").await;
    assert_eq!(sees(&app, first).await, [("a.test".to_owned(), Some(bought_back_at))], "without the second owner's period");
}

#[tokio::test]
async fn new_subdomain_owners_do_not_get_its_history() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let ((above, above_key), (beneath, key)) = (app.org("above").await, app.org("beneath").await);
    own(&app, &internet, &above_key, "a.test").await;
    let taken_at = later(&app);
    let blog = own(&app, &internet, &key, "blog.a.test").await;
    assert_eq!(
        sees(&app, beneath).await,
        [("blog.a.test".to_owned(), Some(taken_at))],
        "earlier events belong to the parent's owner"
    );
    assert_eq!(owned(&app, above).await[0].excluded, [site("blog.a.test")]);
    for (host, owner) in [("x.blog.a.test", beneath), ("blog.a.test", beneath), ("www.a.test", above), ("myblog.a.test", above)] {
        assert_eq!(owner_of(&app, host).await, Some(owner), "{host}");
    }
    let left_at = later(&app);
    assert_eq!(release(&app, &key, &blog).await, 204);
    assert_eq!((owner_of(&app, "x.blog.a.test").await, sees(&app, beneath).await), (Some(above), vec![]));
    let of_above = owned(&app, above).await.remove(0);
    assert_eq!((of_above.visible_from, &of_above.excluded), (None, &vec![]));
    assert_eq!(of_above.formerly_owned, [(site("blog.a.test"), left_at)], "that period stays with its owner");

    // The parent's owner keeps its view when it verifies the subdomain itself.
    later(&app);
    own(&app, &internet, &above_key, "blog.a.test").await;
    own(&app, &internet, &above_key, "deep.blog.a.test").await;
    let expected = [("a.test", None), ("blog.a.test", Some(left_at)), ("deep.blog.a.test", Some(left_at))];
    assert_eq!(sees(&app, above).await, expected.map(|(domain, from)| (domain.to_owned(), from)));
}

#[tokio::test]
async fn owners_do_not_see_the_history_of_others_subdomains() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let ((one, one_key), (_, two_key), (above, above_key)) = (app.org("1").await, app.org("2").await, app.org("above").await);
    let blog = own(&app, &internet, &one_key, "blog.a.test").await;
    let deep = own(&app, &internet, &two_key, "deep.blog.a.test").await;
    later(&app);
    assert_eq!(release(&app, &two_key, &deep).await, 204);
    own(&app, &internet, &above_key, "a.test").await;
    let of_one = owned(&app, one).await;
    assert_eq!(of_one[0].formerly_owned.len(), 1, "deep.blog.a.test belonged to another organization: {of_one:?}");
    assert_eq!(owned(&app, above).await[0].excluded, [site("blog.a.test")]);
    let left_at = later(&app);
    assert_eq!(release(&app, &one_key, &blog).await, 204);
    // Until now, everything below the blog belonged to its owner, including what a third owner left earlier.
    let formerly = owned(&app, above).await.remove(0).formerly_owned;
    assert_eq!(formerly, [(site("blog.a.test"), left_at), (site("deep.blog.a.test"), left_at)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_concurrent_verification_wins() {
    let internet = FakeInternet::new().await;
    let app = Arc::new(app_on(&internet).await);
    let mut keys = Vec::new();
    for number in 0..20 {
        keys.push(app.org(&format!("org {number}")).await.1);
    }
    for round in 0..5 {
        let mut verifying = JoinSet::new();
        let (mut registrations, mut tokens) = (Vec::new(), Vec::new());
        for key in keys.clone() {
            let registered = register(&app, &key, "a.test").await;
            tokens.push(registered.text("verification_token").to_owned());
            registrations.push((key, registered));
        }
        let manifest = json!({"verification_token": tokens}).to_string();
        internet.publish_page("a.test/.well-known/content-telemetry.json", 200, &manifest);
        for (key, registered) in registrations.clone() {
            let app = Arc::clone(&app);
            verifying.spawn(async move { until_served(|| verify(&app, &key, &registered, &["well_known"])).await.status });
        }
        let mut statuses = BTreeMap::new();
        while let Some(status) = verifying.join_next().await {
            *statuses.entry(status.unwrap()).or_insert(0) += 1;
        }
        assert_eq!(statuses, BTreeMap::from([(200, 1), (409, 19)]), "round {round}");
        let owners = "SELECT count(*) FROM domains WHERE site = 'test.a' AND verified_at IS NOT NULL AND released_at IS NULL";
        assert_eq!(app.count(owners).await, 1, "round {round}");
        for (key, registered) in registrations {
            assert_eq!(release(&app, &key, &registered).await, 204);
        }
        app.clock.advance(TimeDelta::seconds(1));
    }
}

/// The database rejects overlapping owners even if the code allows them.
#[tokio::test]
async fn database_rejects_overlapping_owners() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let ((_, first_key), (second, second_key)) = (app.org("first").await, app.org("second").await);
    let registered = own(&app, &internet, &first_key, "a.test").await;
    let released_at = later(&app);
    assert_eq!(release(&app, &first_key, &registered).await, 204);
    app.clock.advance(TimeDelta::minutes(-30));
    own(&app, &internet, &second_key, "a.test").await;
    assert_eq!(sees(&app, second).await, [("a.test".to_owned(), Some(released_at))], "from the first owner's release on");
    let overlap = sqlx::query("UPDATE domains SET released_at = NULL WHERE site = 'test.a' AND released_at IS NOT NULL")
        .execute(&app.stores.pool)
        .await
        .unwrap_err();
    let constraint = overlap.as_database_error().and_then(|refusal| refusal.constraint().map(str::to_owned));
    assert_eq!(constraint.as_deref(), Some("domains_one_owner_at_a_time"));
    assert_eq!(app.get(Credentials::Key(&second_key), DOMAINS).await.body.as_array().unwrap().len(), 1);
}
