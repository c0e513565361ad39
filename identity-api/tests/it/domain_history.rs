//! Who owns a host from when to when, and which of its history they see (threat rows R7, D2, I3; S4).

use crate::desk::{DOMAINS, Desk, Shows};
use crate::domains::{desk_on, own, register, release, verify};
use crate::internet::Internet;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::json;
use service_kit::directory::{Directory, OwnedSite};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

fn site(domain: &str) -> Site {
    Site::from_domain(domain).unwrap()
}

/// What reads go by.
async fn owned(desk: &Desk, org: OrgId) -> Vec<OwnedSite> {
    Directory::new(desk.stores.pool.clone()).owned_sites(org).await.unwrap()
}

async fn owner_of(desk: &Desk, domain: &str) -> Option<OrgId> {
    Directory::new(desk.stores.pool.clone()).owner_of(&site(domain)).await.unwrap().map(|owner| owner.id)
}

/// The hosts of an organisation, each with the time since when it sees its events.
async fn sees(desk: &Desk, org: OrgId) -> Vec<(String, Option<DateTime<Utc>>)> {
    owned(desk, org).await.into_iter().map(|owned| (owned.site.domain(), owned.visible_from)).collect()
}

fn later(desk: &Desk) -> DateTime<Utc> {
    desk.clock.advance(TimeDelta::hours(1));
    chrono::SubsecRound::trunc_subsecs(desk.clock.now(), 6)
}

#[tokio::test]
async fn i3_d2_a_registration_alone_shows_nothing_and_stops_nobody() {
    let internet = Internet::new().await;
    let desk = desk_on(&internet).await;
    let ((squatter, squatting), (owner, key)) = (desk.org("squatter").await, desk.org("owner").await);
    let squatted = register(&desk, &squatting, "a.test").await;
    assert_eq!((owner_of(&desk, "a.test").await, sees(&desk, squatter).await), (None, vec![]));
    own(&desk, &internet, &key, "a.test").await;
    assert_eq!(owner_of(&desk, "www.a.test").await, Some(owner));
    assert_eq!(sees(&desk, owner).await, [("a.test".to_owned(), None)], "the first owner sees all history");
    let refused = verify(&desk, &squatting, &squatted, &["dns_txt"]).await;
    assert_eq!(refused.refusal(), (409, "conflict"));
    // Even with a proof of their own beside the owner's.
    let token = squatted.text("verification_token");
    internet.publish_text("_content-telemetry.a.test", &format!("svc-verify={token}"));
    assert_eq!(verify(&desk, &squatting, &squatted, &["dns_txt"]).await.refusal(), (409, "conflict"));
    assert_eq!((owner_of(&desk, "a.test").await, sees(&desk, squatter).await), (Some(owner), vec![]));
}

#[tokio::test]
async fn r7_whoever_comes_after_another_owner_inherits_nothing_and_whoever_comes_back_sees_their_own_again() {
    let internet = Internet::new().await;
    let desk = desk_on(&internet).await;
    let ((first, first_key), (second, second_key)) = (desk.org("first").await, desk.org("second").await);
    let registered = own(&desk, &internet, &first_key, "a.test").await;
    later(&desk);
    assert_eq!(release(&desk, &first_key, &registered).await, 204);
    assert_eq!((owner_of(&desk, "a.test").await, sees(&desk, first).await), (None, vec![]), "at once");
    // Nobody had it meanwhile.
    later(&desk);
    let registered = own(&desk, &internet, &first_key, "a.test").await;
    assert_eq!(sees(&desk, first).await, [("a.test".to_owned(), None)]);
    assert_eq!(release(&desk, &first_key, &registered).await, 204);

    let bought_at = later(&desk);
    let registered = own(&desk, &internet, &second_key, "a.test").await;
    assert_eq!(sees(&desk, second).await, [("a.test".to_owned(), Some(bought_at))]);
    assert_eq!((owner_of(&desk, "a.test").await, sees(&desk, first).await), (Some(second), vec![]));
    later(&desk);
    assert_eq!(release(&desk, &second_key, &registered).await, 204);
    later(&desk);
    let registered = own(&desk, &internet, &second_key, "a.test").await;
    assert_eq!(sees(&desk, second).await, [("a.test".to_owned(), Some(bought_at))], "as before");
    assert_eq!(release(&desk, &second_key, &registered).await, 204);

    let bought_back_at = later(&desk);
    own(&desk, &internet, &first_key, "a.test").await;
    assert_eq!(sees(&desk, first).await, [("a.test".to_owned(), Some(bought_back_at))], "not what the second owner had");
}

#[tokio::test]
async fn r7_a_host_beneath_anothers_domain_goes_to_who_verifies_it_without_its_history() {
    let internet = Internet::new().await;
    let desk = desk_on(&internet).await;
    let ((above, above_key), (beneath, key)) = (desk.org("above").await, desk.org("beneath").await);
    own(&desk, &internet, &above_key, "a.test").await;
    let taken_at = later(&desk);
    let blog = own(&desk, &internet, &key, "blog.a.test").await;
    assert_eq!(sees(&desk, beneath).await, [("blog.a.test".to_owned(), Some(taken_at))], "the owner above saw its events");
    assert_eq!(owned(&desk, above).await[0].except, [site("blog.a.test")]);
    for (host, owner) in [("x.blog.a.test", beneath), ("blog.a.test", beneath), ("www.a.test", above), ("myblog.a.test", above)] {
        assert_eq!(owner_of(&desk, host).await, Some(owner), "{host}");
    }
    let left_at = later(&desk);
    assert_eq!(release(&desk, &key, &blog).await, 204);
    assert_eq!((owner_of(&desk, "x.blog.a.test").await, sees(&desk, beneath).await), (Some(above), vec![]));
    let of_above = owned(&desk, above).await.remove(0);
    assert_eq!((of_above.visible_from, &of_above.except), (None, &vec![]));
    assert_eq!(of_above.formerly, [(site("blog.a.test"), left_at)], "what happened there meanwhile stays with who had it");

    // The owner above sees what it saw, when it verifies the host beneath by itself.
    later(&desk);
    own(&desk, &internet, &above_key, "blog.a.test").await;
    own(&desk, &internet, &above_key, "deep.blog.a.test").await;
    let expected = [("a.test", None), ("blog.a.test", Some(left_at)), ("deep.blog.a.test", Some(left_at))];
    assert_eq!(sees(&desk, above).await, expected.map(|(domain, from)| (domain.to_owned(), from)));
}

#[tokio::test]
async fn r7_who_verifies_a_domain_does_not_see_what_others_had_beneath_it() {
    let internet = Internet::new().await;
    let desk = desk_on(&internet).await;
    let ((one, one_key), (_, two_key), (above, above_key)) = (desk.org("1").await, desk.org("2").await, desk.org("above").await);
    let blog = own(&desk, &internet, &one_key, "blog.a.test").await;
    let deep = own(&desk, &internet, &two_key, "deep.blog.a.test").await;
    later(&desk);
    assert_eq!(release(&desk, &two_key, &deep).await, 204);
    own(&desk, &internet, &above_key, "a.test").await;
    let of_one = owned(&desk, one).await;
    assert_eq!(of_one[0].formerly.len(), 1, "deep.blog.a.test was another's: {of_one:?}");
    assert_eq!(owned(&desk, above).await[0].except, [site("blog.a.test")]);
    let left_at = later(&desk);
    assert_eq!(release(&desk, &one_key, &blog).await, 204);
    // Beneath the blog everything was its owner's until now, also what a third one had left earlier.
    let formerly = owned(&desk, above).await.remove(0).formerly;
    assert_eq!(formerly, [(site("blog.a.test"), left_at), (site("deep.blog.a.test"), left_at)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_of_all_who_prove_a_host_at_once_one_gets_it() {
    let internet = Internet::new().await;
    let desk = Arc::new(desk_on(&internet).await);
    let mut keys = Vec::new();
    for number in 0..20 {
        keys.push(desk.org(&format!("org {number}")).await.1);
    }
    for round in 0..5 {
        let mut verifying = JoinSet::new();
        let (mut registrations, mut tokens) = (Vec::new(), Vec::new());
        for key in keys.clone() {
            let registered = register(&desk, &key, "a.test").await;
            tokens.push(registered.text("verification_token").to_owned());
            registrations.push((key, registered));
        }
        let manifest = json!({"verification_token": tokens}).to_string();
        internet.publish_page("a.test/.well-known/content-telemetry.json", 200, &manifest);
        for (key, registered) in registrations.clone() {
            let desk = Arc::clone(&desk);
            verifying.spawn(async move { verify(&desk, &key, &registered, &["well_known"]).await.status });
        }
        let mut statuses = BTreeMap::new();
        while let Some(status) = verifying.join_next().await {
            *statuses.entry(status.unwrap()).or_insert(0) += 1;
        }
        assert_eq!(statuses, BTreeMap::from([(200, 1), (409, 19)]), "round {round}");
        let owners = "SELECT count(*) FROM domains WHERE site = 'test.a' AND verified_at IS NOT NULL AND released_at IS NULL";
        assert_eq!(desk.count(owners).await, 1, "round {round}");
        for (key, registered) in registrations {
            assert_eq!(release(&desk, &key, &registered).await, 204);
        }
        desk.clock.advance(TimeDelta::seconds(1));
    }
}

/// The database decides even when code does not: two owners of a moment cannot be written down.
#[tokio::test]
async fn two_owners_of_one_moment_are_refused_by_the_table_and_a_clock_that_is_behind_makes_none() {
    let internet = Internet::new().await;
    let desk = desk_on(&internet).await;
    let ((_, first_key), (second, second_key)) = (desk.org("first").await, desk.org("second").await);
    let registered = own(&desk, &internet, &first_key, "a.test").await;
    let released_at = later(&desk);
    assert_eq!(release(&desk, &first_key, &registered).await, 204);
    desk.clock.advance(TimeDelta::minutes(-30));
    own(&desk, &internet, &second_key, "a.test").await;
    assert_eq!(sees(&desk, second).await, [("a.test".to_owned(), Some(released_at))], "from when the first one left");
    let overlap = sqlx::query("UPDATE domains SET released_at = NULL WHERE site = 'test.a' AND released_at IS NOT NULL")
        .execute(&desk.stores.pool)
        .await
        .unwrap_err();
    let constraint = overlap.as_database_error().and_then(|refusal| refusal.constraint().map(str::to_owned));
    assert_eq!(constraint.as_deref(), Some("domains_one_owner_at_a_time"));
    assert_eq!(desk.get(Shows::Key(&second_key), DOMAINS).await.body.as_array().unwrap().len(), 1);
}
