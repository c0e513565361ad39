//! Rejected reports, as listed for their organization.

use crate::test_app::{Credentials, Identified, Identity, Requests as _, TestApp};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use schemas::ids::OrgId;
use serde_json::{Value, json};

const REFUSED: &str = "/api/v1/identity/refused-reports";

pub(crate) trait RefusedReports: Identified {
    async fn plant_refusal(&self, org: OrgId, hours_ago: i32, rule: &str, requests: i64) {
        sqlx::query(
            "INSERT INTO refused_reports SELECT $1, date_trunc('hour', at, 'UTC'), '/events', 422, 'invalid_event', 'type', $3, $4, \
             at, 'id-' || $2::int FROM (SELECT now() - make_interval(hours => $2::int) AS at) AS moment",
        )
        .bind(org.0)
        .bind(hours_ago)
        .bind(rule)
        .bind(requests)
        .execute(&self.app().stores.pool)
        .await
        .unwrap();
    }

    async fn refused(&self, key: &str, query: &str) -> Vec<Value> {
        let answered = self.app().get(Credentials::Key(key), &format!("{REFUSED}{query}")).await;
        assert_eq!(answered.status, 200, "{}", answered.body);
        answered.body.as_array().unwrap().clone()
    }
}

impl RefusedReports for TestApp {}

#[tokio::test]
async fn lists_rejected_reports_newest_first() {
    let app = Identity::open().await;
    let ((org, key), (other, other_key)) = (app.org("own").await, app.org("other").await);
    for (hours_ago, rule, requests) in [(3, "required", 2), (50, "required", 5), (1, "unknown_type", 1), (24 * 8, "empty", 9)] {
        app.plant_refusal(org, hours_ago, rule, requests).await;
    }
    app.plant_refusal(other, 2, "required", 70).await;
    let figures = |listed: &[Value]| {
        let figure = |one: &Value| (one["rule"].as_str().unwrap().to_owned(), one["requests"].as_i64().unwrap());
        listed.iter().map(figure).collect::<Vec<_>>()
    };
    let told = |figures: &[(&str, i64)]| figures.iter().map(|(rule, count)| ((*rule).to_owned(), *count)).collect::<Vec<_>>();
    let week = app.refused(&key, "").await;
    assert_eq!(figures(&week), told(&[("unknown_type", 1), ("required", 7)]), "the last seven days");
    let mut newest = week[0].clone();
    assert!(newest["last_at"].take().is_string());
    assert_eq!(
        newest,
        json!({"route": "/events", "status": 422, "code": "invalid_event", "field": "type", "rule": "unknown_type",
               "requests": 1, "last_at": null, "last_request_id": "id-1"})
    );
    assert_eq!(week[1]["last_request_id"], "id-3", "the latest request of the reason");
    let all = app.refused(&key, "?since=2026-01-01T00:00:00Z").await;
    assert_eq!(figures(&all), told(&[("unknown_type", 1), ("required", 7), ("empty", 9)]));
    assert_eq!(figures(&app.refused(&key, "?limit=1&offset=1").await), told(&[("required", 7)]));
    assert_eq!(figures(&app.refused(&other_key, "").await), told(&[("required", 70)]));
    for wrong in ["since=x", "since=2026-01-01", "limit=0", "offset=-1"] {
        let refused = app.get(Credentials::Key(&key), &format!("{REFUSED}?{wrong}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{wrong}");
    }
}

#[tokio::test]
async fn since_includes_the_whole_hour() {
    let app = Identity::open().await;
    let (org, key) = app.org("own").await;
    app.plant_refusal(org, 3, "required", 2).await;
    let hour: DateTime<Utc> = sqlx::query_scalar("SELECT hour FROM refused_reports").fetch_one(&app.stores.pool).await.unwrap();
    for (seconds, told) in [(-1, 1), (0, 1), (3_599, 1), (3_600, 0)] {
        let since = (hour + TimeDelta::seconds(seconds)).to_rfc3339_opts(SecondsFormat::Secs, true);
        assert_eq!(app.refused(&key, &format!("?since={since}")).await.len(), told, "{seconds} seconds into it");
    }
}
