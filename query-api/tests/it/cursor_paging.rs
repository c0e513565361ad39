//! Paging with `after` while others report. Every event in the list at the start is returned once, whatever is reported in the meantime and
//! however many events have the same time. A report that was accepted earlier and is stored meanwhile moves only its own event.
//! `TEST_ROUNDS` sets the number of histories.

use crate::test_app::{Observation, Query, TestApp, fetch_on};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge, Origin};
use schemas::identity::OrgType;
use serde_json::Value;
use service_kit::testing::{client, random_seed, size};
use std::collections::BTreeMap;
use uuid::Uuid;

const EVENTS: &str = "/content-owners/events";
const OWN: &str = "/agent/events";
/// All events of these tests.
const FETCHES: &str = "/content-owners/events?event_type=content_retrieved";

/// Acceptance of reports before and during paging, in milliseconds after the new year.
const BEFORE: i64 = 0;
const DURING: i64 = 100;

/// Returns the ids of a page and its `x-next-after`.
async fn page(app: &TestApp, key: &str, path: &str, query: &[(&str, &str)]) -> (Vec<String>, Option<String>) {
    let mut url = reqwest::Url::parse(&format!("{}{path}", app.server.url)).unwrap();
    url.query_pairs_mut().extend_pairs(query);
    let answer = client().get(url).header("x-api-key", key).send().await.unwrap();
    let next = answer.headers().get("x-next-after").map(|next| next.to_str().unwrap().to_owned());
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, StatusCode::OK, "{path} {query:?}: {text}");
    let page: Value = serde_json::from_str(&text).unwrap();
    let ids = page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap().to_owned());
    (ids.collect(), next)
}

/// Returns a fetch as reported by `role`. Each observer gives it another id and another time.
fn reported_fetch(random: &mut StdRng, key: u128, role: schemas::event::SourceRole, accepted: i64) -> Observation {
    // There are few different times, so many events are tied.
    let row = fetch_on("example.com", key).role(role).by(1).accepted(accepted).after(random.random_range(0..20));
    row.id(&format!("{key}-{}", role.as_str()))
}

/// Returns the fetch that has this id.
fn key_of(id: &str) -> u128 {
    id.split('-').next().unwrap().parse().unwrap()
}

/// Pages through a list while others report. Checks that every fetch is returned once, including all of the first `stood`.
async fn walk_while_others_report(app: &TestApp, key: &str, path: &str, stood: u128, random: &mut StdRng, trace: &str) {
    let (limit, mut told_of, mut after) = (random.random_range(9..40).to_string(), BTreeMap::new(), None::<String>);
    for page_number in 0_u128.. {
        let mut query = vec![("limit", limit.as_str())];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let (ids, next) = page(app, key, path, &query).await;
        for id in ids {
            let again = told_of.insert(key_of(&id), id.clone());
            assert!(again.is_none(), "{id} is returned twice, before as {again:?}: limit {limit} {trace}");
        }
        let Some(next) = next else { break };
        after = Some(next);
        // If reports arrived faster than they are read, paging would never end.
        if page_number > 10 {
            continue;
        }
        // Add new fetches before, behind and on the pages, and later or repeated reports of known fetches.
        let fresh = 1_000_000 + page_number * 15;
        let mut rows: Vec<Observation> = (fresh..fresh + 15).map(|key| reported_fetch(random, key, Edge, DURING)).collect();
        for role in [Agent, Agent, Agent, Origin, Edge].repeat(5) {
            let key = random.random_range(0..stood);
            rows.push(reported_fetch(random, key, role, DURING));
        }
        app.insert(&rows).await;
        if page_number % 2 == 1 {
            app.merge().await;
        }
    }
    let missed: Vec<u128> = (0..stood).filter(|key| !told_of.contains_key(key)).collect();
    assert!(missed.is_empty(), "{missed:?} are missing: limit {limit} {trace}");
}

#[tokio::test]
async fn r12_paging_returns_each_fetch_once_while_others_report() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let stood = 120;
    for round in 0..size("TEST_ROUNDS", 2) {
        let app = Query::start().await;
        let owner = app.seed().owner_of("example.com").await;
        app.stop_merges().await;
        let mut rows: Vec<_> = (0..stood).map(|key| reported_fetch(&mut random, key, Edge, BEFORE)).collect();
        // In odd rounds, two observers of one role report some fetches.
        if round % 2 == 1 {
            rows.extend((0..20).map(|key| reported_fetch(&mut random, key, Edge, BEFORE).by(2)));
        }
        rows.extend((0..stood / 3).map(|key| reported_fetch(&mut random, key, Agent, BEFORE)));
        app.insert(&rows).await;
        let path = if round % 2 == 0 { EVENTS } else { FETCHES };
        walk_while_others_report(&app, &owner.key, path, stood, &mut random, &format!("seed {seed} round {round}")).await;
    }
}

/// New reports of both kinds arrive in the meantime, and each party also reports the other's fetches.
#[tokio::test]
async fn r12_paging_by_reporter_returns_each_report_once() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Query::start().await;
    let agent = app.seed().org("agent", OrgType::Agent).await;
    let network = app.seed().org("network", OrgType::Platform).await;
    let own = |row: Observation| row.by_org(agent.id);
    let click = |row: Observation| row.by_org(network.id).bound(agent.id, 2).named("content_engaged");
    let stood = 120;
    for reported_by in ["self", "other"] {
        app.empty().await;
        let rows = (0..stood).map(|key| (key, reported_fetch(&mut random, key, Edge, BEFORE)));
        let rows: Vec<_> = rows.map(|(key, row)| if key.is_multiple_of(3) { click(row) } else { own(row) }).collect();
        app.insert(&rows).await;
        let (mut all, _) = page(&app, &agent.key, OWN, &[("limit", "1000")]).await;
        // A token's issuer doesn't see the reporter's ids.
        all.retain(|id| id.parse::<Uuid>().is_ok() == (reported_by == "other"));
        assert_eq!(all.len(), if reported_by == "other" { 40 } else { 80 });
        let (mut walked, mut after) = (Vec::new(), None::<String>);
        for arriving in 0.. {
            let mut query = vec![("limit", "7"), ("reported_by", reported_by)];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let (ids, next) = page(&app, &agent.key, OWN, &query).await;
            walked.extend(ids);
            let Some(next) = next else { break };
            after = Some(next);
            let fresh = 1_000 + 2 * arriving;
            let mut arrived =
                [fresh, random.random_range(0..stood)].map(|key| own(reported_fetch(&mut random, key, Agent, DURING))).to_vec();
            arrived.extend(
                [fresh + 1, random.random_range(0..stood)].map(|key| click(reported_fetch(&mut random, key, Agent, DURING))),
            );
            app.insert(&arrived).await;
        }
        walked.retain(|id| all.contains(id));
        assert_eq!(walked, all, "{reported_by}: seed {seed}");
    }
}

/// See docs/api/reads.md#after.
#[tokio::test]
async fn r12_late_reports_move_only_their_own_fetch() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let stood = 120;
    let rows: Vec<_> = (0..stood).map(|key| reported_fetch(&mut random, key, Edge, BEFORE)).collect();
    app.insert(&rows).await;
    // Move a returned fetch behind the cursor, and one that isn't returned yet before it.
    let (all, _) = page(&app, &owner.key, EVENTS, &[("limit", "1000")]).await;
    let (first, last) = (key_of(&all[0]), key_of(&all[119]));
    let moved = |key, ms| fetch_on("example.com", key).role(Agent).accepted(BEFORE - 1).after(ms).id(&format!("{key}-agent"));
    let (mut told_of, mut after, mut in_flight) = (BTreeMap::<u128, u32>::new(), None::<String>, vec![first, last]);
    for page_number in 0.. {
        let mut query = vec![("limit", "23")];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let (ids, next) = page(&app, &owner.key, EVENTS, &query).await;
        ids.iter().for_each(|id| *told_of.entry(key_of(id)).or_default() += 1);
        let Some(next) = next else { break };
        after = Some(next);
        let mut rows = vec![];
        if page_number == 0 {
            rows.extend([moved(first, -1_000), moved(last, 1_000)]);
        }
        for _ in 0..5 {
            let key = random.random_range(0..stood);
            // These two keep their new position.
            if key != first && key != last {
                rows.push(reported_fetch(&mut random, key, Agent, BEFORE));
                in_flight.push(key);
            }
        }
        app.insert(&rows).await;
    }
    assert_eq!((told_of.remove(&first), told_of.remove(&last)), (Some(2), None), "an exception: {told_of:?} seed {seed}");
    for key in 0..stood {
        let times = told_of.get(&key).copied();
        assert!(in_flight.contains(&key) || times == Some(1), "{key} didn't move, but was returned {times:?} times: seed {seed}");
    }
    assert!(told_of.keys().all(|key| *key < stood), "{told_of:?} seed {seed}");
}

#[tokio::test]
async fn rejects_invalid_and_unsupported_cursors() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("agent", OrgType::Agent).await;
    app.insert(&[fetch_on("example.com", 1), fetch_on("example.com", 2)]).await;
    let (_, next) = page(&app, &owner.key, EVENTS, &[("limit", "1")]).await;
    let next = next.unwrap();
    for (key, path, query) in [
        (&owner.key, EVENTS, vec![("after", "x")]),
        (&owner.key, EVENTS, vec![("after", "")]),
        (&agent.key, OWN, vec![("after", "1.2.3")]),
        (&owner.key, EVENTS, vec![("after", next.as_str()), ("offset", "1")]),
        (&owner.key, "/content-owners/urls", vec![("after", next.as_str())]),
        (&owner.key, "/content-owners/corroboration", vec![("after", next.as_str())]),
        (&owner.key, "/content-owners/funnel", vec![("after", next.as_str())]),
    ] {
        assert_eq!(app.read(key, path, &query).await.status, StatusCode::BAD_REQUEST, "{path} {query:?}");
    }
    let beside = page(&app, &owner.key, EVENTS, &[("after", next.as_str()), ("offset", "0")]).await;
    assert_eq!((beside.0.len(), beside.1), (1, None));
    // A cursor from another owner's list doesn't show anything outside the own list.
    let stranger = app.seed().owner_of("other.test").await;
    assert_eq!(page(&app, &stranger.key, EVENTS, &[("after", next.as_str())]).await.0, Vec::<String>::new());
}
