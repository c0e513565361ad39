//! R4: a partner gets the same bytes as the grantor for any request, and so does an owner that reads as a partner. `TEST_ROUNDS` sets the
//! number of requests, 1000 in full runs.

use crate::random_reports::{Read, owners, random_rows, refill};
use crate::test_app::{Query, TestApp, get_as};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::identity::OrgType;
use service_kit::testing::{SeededOrg, eventually, random_seed, size};

const READS: [&str; 10] =
    ["summary", "events", "urls", "corroboration", "reconciliation", "funnel", "series", "crawlers", "coverage", "robots"];
const FORMATS: [&str; 4] = ["application/json", "text/csv", "application/x-ndjson", "*/*"];

/// Returns a query string with random parameters, valid and invalid.
fn query_of(read: &Read, list: &str, random: &mut StdRng) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(&read.query);
    if !["summary", "series", "coverage"].contains(&list) {
        let numbers = ["0", "1", "2", "3", "7", "1000", "5000", "-1", "x"];
        for name in ["limit", "offset"] {
            if random.random_bool(0.5) {
                query.append_pair(name, numbers.choose(random).unwrap());
            }
        }
    }
    if list != "coverage" {
        for (name, values) in [
            ("event_type", ["content_retrieved", "content_cited", ""]),
            ("agent_id", ["alpha", "beta", ""]),
            ("path", ["/blog/*", "/b", "blog"]),
            ("evidence", ["claimed", "observed", "x"]),
            ("bot", ["GPTBot", "", "x"]),
            ("status", ["2xx", "404", "x"]),
        ] {
            if random.random_bool(0.1) {
                query.append_pair(name, values.choose(random).unwrap());
            }
        }
    }
    if list == "urls" && random.random_bool(0.4) {
        query.append_pair("by", ["section", "url", "page,agent", "day", ""].choose(random).unwrap());
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

/// Returns a response. Repeats requests that fail because the store is busy.
async fn answered_as(app: &TestApp, accept: &str, key: &str, path: &str) -> (u16, String, String, String) {
    let ask = async || Some(get_as(app, accept, key, path).await).filter(|answer| answer.0 != StatusCode::SERVICE_UNAVAILABLE);
    eventually("the service responds", ask).await
}

/// Grants a missing delegation or revokes an existing one. Returns whether it exists now.
async fn turn(app: &TestApp, owner: &SeededOrg, partner: &SeededOrg) -> bool {
    let revoked = sqlx::query(
        "UPDATE delegations SET revoked_at = now() WHERE grantor_org_id = $1 AND grantee_org_id = $2 AND revoked_at IS NULL",
    )
    .bind(owner.id.0)
    .bind(partner.id.0)
    .execute(&app.stores.pool);
    let was_granted = revoked.await.unwrap().rows_affected() > 0;
    if !was_granted {
        app.seed().delegate(owner.id, partner.id).await;
    }
    !was_granted
}

#[tokio::test]
async fn r4_delegated_responses_equal_the_owners() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Query::start().await;
    let owners = owners(&app).await;
    let partners = [app.seed().org("P", OrgType::Platform).await, app.seed().org("Q", OrgType::Agent).await];
    let (mut granted, mut answered, mut refused) = ([[false; 2]; 2], 0, 0);
    for round in 0..size("TEST_ROUNDS", 120) {
        if round % 50 == 0 {
            let rows = random_rows(&mut random, &[partners[0].id.0.as_u128(), 1, 1 << 64, 1 << 127]);
            refill(&app, &rows, &mut random).await;
        }
        let (read, list) = (Read::random(&mut random), *READS.choose(&mut random).unwrap());
        let (query, with) = (query_of(&read, list, &mut random), random.random_range(0..2));
        let (owner, partner, is_granted) = (&owners[read.owner], &partners[with], &mut granted[read.owner][with]);
        if random.random_bool(0.4) {
            *is_granted = turn(&app, owner, partner).await;
        }
        let accept = FORMATS.choose(&mut random).unwrap();
        let path = format!("/content-owners/{list}?{query}");
        let own = answered_as(&app, accept, &owner.key, &path).await;
        let delegated = answered_as(&app, accept, &partner.key, &format!("{path}&delegated_from={}", owner.id)).await;
        let seen = answered_as(&app, accept, &owner.key, &format!("{path}&seen_by={}", partner.id)).await;
        let trace = format!("seed {seed} round {round} {path} {accept} granted: {is_granted}");
        if own.0 == StatusCode::OK && *is_granted {
            answered += 1;
            assert_eq!((&delegated, &seen), (&own, &own), "{trace}");
            continue;
        }
        let expected = if own.0 == StatusCode::OK { 403 } else { own.0 };
        assert!((400..500).contains(&expected), "{trace}: {}", own.3);
        for answer in [delegated, seen] {
            assert_eq!((answer.0, answer.1.as_str()), (expected, "application/problem+json"), "{trace}");
        }
        refused += usize::from(own.0 == StatusCode::OK);
    }
    assert!(answered > 5 && refused > 5, "{answered} accepted, {refused} rejected: seed {seed}");
}
