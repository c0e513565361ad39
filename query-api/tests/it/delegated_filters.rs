//! R4: whatever is asked, a partner's answer is the grantor's to the byte, and what an owner sees as a partner is the partner's. How many: `TEST_ROUNDS` (1000 as it is meant).

use crate::model::{Read, owners, random_rows, refill};
use crate::test_app::TestApp;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::identity::OrgType;
use service_kit::testing::{SeededOrg, eventually, random_seed, size};

const READS: [&str; 8] = ["summary", "events", "urls", "corroboration", "funnel", "series", "crawlers", "coverage"];
const FORMATS: [&str; 4] = ["application/json", "text/csv", "application/x-ndjson", "*/*"];

/// A query string of any parameters, right and wrong.
fn query_of(read: &Read, list: &str, random: &mut StdRng) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(read.query());
    if !["summary", "series", "coverage"].contains(&list) {
        let numbers = ["0", "1", "2", "3", "7", "1000", "5000", "-1", "x"];
        for name in ["limit", "offset"] {
            if random.random_bool(0.5) {
                query.append_pair(name, numbers.choose(random).unwrap());
            }
        }
    }
    if list == "events" {
        for (name, values) in [("event_type", ["content_retrieved", "content_cited", ""]), ("agent_id", ["alpha", "beta", ""])] {
            if random.random_bool(0.3) {
                query.append_pair(name, values.choose(random).unwrap());
            }
        }
    }
    if list == "urls" {
        let values =
            [("path", ["/", "/*", "/blog/*", "/b", "blog", "/b*/"]), ("by", ["section", "url", "day", "", "section", "url"])];
        for (name, values) in values {
            if random.random_bool(0.4) {
                query.append_pair(name, values.choose(random).unwrap());
            }
        }
    }
    if list == "funnel" && random.random_bool(0.7) {
        query.append_pair("by", ["agent", "url", "day", "week"].choose(random).unwrap());
    }
    if list == "series" {
        query.append_pair("by", ["hour", "day", "day", "week"].choose(random).unwrap());
        query.append_pair("split", ["none", "type", "role", "agent", "platform", "bot", "status", "url"].choose(random).unwrap());
    }
    query.finish()
}

/// An answer; a store that is too busy to give one is asked again.
async fn answered_as(app: &TestApp, accept: &str, key: &str, path: &str) -> (StatusCode, String, String, String) {
    let ask = async || Some(app.get_as(accept, key, path).await).filter(|answer| answer.0 != StatusCode::SERVICE_UNAVAILABLE);
    eventually("the service answers", ask).await
}

#[tokio::test]
async fn r4_a_delegated_answer_is_the_grantors_to_the_byte_for_random_filters() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    let partners = [app.seed().org("P", OrgType::Platform).await, app.seed().org("Q", OrgType::Agent).await];
    for owner in &owners {
        for partner in &partners {
            app.seed().delegate(owner.id, partner.id).await;
        }
    }
    let mut answered = 0;
    for round in 0..size("TEST_ROUNDS", 60) {
        if round % 50 == 0 {
            let rows = random_rows(&mut random, &[partners[0].id.0.as_u128(), 1, 1 << 64, 1 << 127]);
            refill(&app, &rows, &mut random).await;
        }
        let (read, list) = (Read::random(&mut random), *READS.choose(&mut random).unwrap());
        let query = query_of(&read, list, &mut random);
        let (grantor, partner) = (&owners[read.owner], partners.choose(&mut random).unwrap());
        let accept = FORMATS.choose(&mut random).unwrap();
        let own = answered_as(&app, accept, &grantor.key, &format!("/content-owners/{list}?{query}")).await;
        let delegated = format!("/content-owners/{list}?{query}&delegated_from={}", grantor.id);
        let delegated = answered_as(&app, accept, &partner.key, &delegated).await;
        let trace = format!("seed {seed} round {round} {list} {query} {accept}");
        if own.0 == StatusCode::OK {
            answered += 1;
            assert_eq!(delegated, own, "{trace}");
        } else {
            assert!(own.0.is_client_error(), "{trace}: {}", own.3);
            assert_eq!((delegated.0, delegated.1), (own.0, own.1), "{trace}");
        }
    }
    assert!(answered > 10, "hardly any question was answered: seed {seed}");
}

/// Grants what is not granted, and takes back what is.
async fn turn(app: &TestApp, owner: &SeededOrg, partner: &SeededOrg) {
    let revoked = sqlx::query(
        "UPDATE delegations SET revoked_at = now() WHERE grantor_org_id = $1 AND grantee_org_id = $2 AND revoked_at IS NULL",
    )
    .bind(owner.id.0)
    .bind(partner.id.0)
    .execute(&app.stores.pool);
    if revoked.await.unwrap().rows_affected() == 0 {
        app.seed().delegate(owner.id, partner.id).await;
    }
}

#[tokio::test]
async fn r4_what_an_owner_sees_as_a_partner_is_the_partners_answer_to_the_byte() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    let partners = [app.seed().org("P", OrgType::Platform).await, app.seed().org("Q", OrgType::Agent).await];
    let (mut answered, mut refused) = (0, 0);
    for round in 0..size("TEST_ROUNDS", 80) {
        if round % 50 == 0 {
            let rows = random_rows(&mut random, &[partners[0].id.0.as_u128(), 1, 1 << 64, 1 << 127]);
            refill(&app, &rows, &mut random).await;
        }
        let (read, list) = (Read::random(&mut random), *READS.choose(&mut random).unwrap());
        let query = query_of(&read, list, &mut random);
        let (owner, partner) = (&owners[read.owner], partners.choose(&mut random).unwrap());
        if random.random_bool(0.4) {
            turn(&app, owner, partner).await;
        }
        let accept = FORMATS.choose(&mut random).unwrap();
        let path = format!("/content-owners/{list}?{query}");
        let delegated = answered_as(&app, accept, &partner.key, &format!("{path}&delegated_from={}", owner.id)).await;
        let seen = answered_as(&app, accept, &owner.key, &format!("{path}&seen_by={}", partner.id)).await;
        let trace = format!("seed {seed} round {round} {path} {accept}");
        if delegated.0 == StatusCode::OK {
            answered += 1;
            assert_eq!(seen, delegated, "{trace}");
        } else {
            refused += usize::from(delegated.0 == StatusCode::FORBIDDEN);
            assert_eq!((seen.0, seen.1), (delegated.0, delegated.1), "{trace}");
        }
    }
    assert!(answered > 5 && refused > 5, "{answered} answered, {refused} refused: seed {seed}");
}
