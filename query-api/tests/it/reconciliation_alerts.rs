//! Alerts about reconciliation: which days and licensees have an exception.

use crate::test_app::{NEW_YEAR_MS, Observation, Query, TestApp, fetch_on};
use chrono::{DateTime, NaiveDate, TimeDelta};
use query_api::State;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use service_kit::clock::Clock;

const HOUR_MS: i64 = 3_600_000;
/// Day after the new year, licensee, and its differing and compared fetches.
type Exception = (i64, String, i64, i64);

/// A fetch of an operator's bot that only the owner saw.
fn unclaimed(owner: OrgId, key: u128, operator: &str) -> Observation {
    let crawler = Crawler { bot: format!("{operator} bot"), operator: operator.to_owned(), ..Crawler::default() };
    fetch_on("a.test", key).role(SourceRole::Edge).by_org(owner).crawler(crawler)
}

async fn exceptions(app: &TestApp) -> Vec<Exception> {
    let found = "SELECT day, operator, differing, compared FROM reconciliation_exceptions ORDER BY day, operator";
    let found: Vec<(NaiveDate, String, i64, i64)> = sqlx::query_as(found).fetch_all(&app.stores.pool).await.unwrap();
    let new_year = DateTime::from_timestamp_millis(NEW_YEAR_MS).unwrap().date_naive();
    found
        .into_iter()
        .map(|(day, operator, differing, compared)| ((day - new_year).num_days(), operator, differing, compared))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_each_exception_once_per_day_and_licensee() {
    let app = Query::start().await;
    let (owner, other) = (app.seed().owner_of("a.test").await, app.seed().owner_of("b.test").await);
    let clock = Clock::manual(DateTime::from_timestamp_millis(NEW_YEAR_MS + 20 * HOUR_MS).unwrap());
    let connect = async || State::connect_at(&Query::settings(&app), clock.clone()).await.unwrap();
    let (state, second) = (connect().await, connect().await);
    let reports: Vec<_> = (1..).zip(["x", "x", "x", "y", "y"]).map(|(key, of)| unclaimed(owner.id, key, of)).collect();
    app.insert(&reports).await;
    app.insert(&[fetch_on("b.test", 1).role(SourceRole::Edge).by_org(other.id)]).await;
    assert_eq!(state.check_alerts().await.unwrap(), 0, "nobody set thresholds");

    let set = "INSERT INTO reconciliation_alerts (organization_id, min_events, share) VALUES ($1, 3, 0.75)";
    sqlx::query(set).bind(owner.id.0).execute(&app.stores.pool).await.unwrap();
    let (one, two) = tokio::join!(state.check_alerts(), second.check_alerts());
    assert_eq!(one.unwrap() + two.unwrap(), 1, "processes share one exception");
    assert_eq!(exceptions(&app).await, [(0, "x".to_owned(), 3, 3)]);

    // No process checks an alert again within ten minutes.
    let more: Vec<_> = (6..9).map(|key| unclaimed(owner.id, key, "u")).collect();
    app.insert(&more).await;
    clock.advance(TimeDelta::minutes(9));
    assert_eq!(second.check_alerts().await.unwrap(), 0);
    clock.advance(TimeDelta::minutes(1));
    let (one, two) = tokio::join!(state.check_alerts(), second.check_alerts());
    assert_eq!(one.unwrap() + two.unwrap(), 1);

    // Yesterday is checked too, and a stored exception doesn't change.
    clock.advance(TimeDelta::hours(20));
    let u = (0, "u".to_owned(), 3, 3);
    let late = [unclaimed(owner.id, 11, "x"), unclaimed(owner.id, 12, "y")];
    app.insert(&late).await;
    let claim = |key| fetch_on("a.test", key).role(SourceRole::Agent).by(9).session(1).agent("z/1.0");
    let today = (20..24).map(|key| unclaimed(owner.id, key, "z").after(25 * HOUR_MS));
    app.insert(&today.chain([claim(20), claim(21)].map(|claim| claim.after(25 * HOUR_MS))).collect::<Vec<_>>()).await;
    assert_eq!(second.check_alerts().await.unwrap(), 1);
    let found = [u, (0, "x".to_owned(), 3, 3), (0, "y".to_owned(), 3, 3)];
    assert_eq!(exceptions(&app).await, found, "half of z's fetches match");

    clock.advance(TimeDelta::days(1));
    app.insert(&[unclaimed(owner.id, 13, "w"), unclaimed(owner.id, 14, "w"), unclaimed(owner.id, 15, "w")]).await;
    assert_eq!(state.check_alerts().await.unwrap(), 0, "older days aren't checked");
}
