//! Unbounded lists return their total.

use crate::people::People as _;
use crate::test_app::{Credentials, Identity, Requests as _, TestApp, WEBHOOKS};
use crate::webhook_endpoint_states::EndpointStates as _;

/// Returns the number of items on a page, and the total.
async fn numbers(app: &TestApp, shows: Credentials<'_>, path: &str) -> (usize, usize) {
    let (items, total) = app.listed_with_total(shows, &format!("/api/v1/identity/{path}")).await;
    (items.len(), total.parse().unwrap())
}

#[tokio::test]
async fn unbounded_lists_return_their_total() {
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    let ((org, owner), _) = (app.org("owner").await, app.org("other").await);
    let endpoint = app.subscribe(&owner, &["delegation.created"]).await;
    app.subscribe(&owner, &["delegation.created"]).await;
    for _ in 0..3 {
        assert_eq!(app.test_webhook(&owner, &endpoint).await.status, 202);
    }
    sqlx::query(
        "INSERT INTO refused_reports \
         SELECT $1, date_trunc('hour', now(), 'UTC'), '/events', 422, 'invalid_event', 'type', 'rule ' || n, 1, now(), 'id' \
         FROM generate_series(1, 4) n",
    )
    .bind(org.0)
    .execute(&app.stores.pool)
    .await
    .unwrap();
    let entries = app.audited(org).await.len();
    let deliveries = format!("{}/{}/deliveries", WEBHOOKS.rsplit_once('/').unwrap().1, endpoint.text("id"));
    for (path, total) in [("audit", entries), ("refused-reports", 4), (deliveries.as_str(), 3)] {
        for (limit, offset) in [(2, 0), (2, total)] {
            let path = format!("{path}?limit={limit}&offset={offset}");
            let items = limit.min(total - offset);
            assert_eq!(numbers(&app, Credentials::Key(&owner), &path).await, (items, total), "{path}");
        }
    }
    let filtered = [
        ("audit?action=webhook.created", 2),
        ("audit?action=%00", 0),
        ("refused-reports?since=2100-01-01T00:00:00Z", 0),
        (&format!("{deliveries}?status=delivered"), 0),
    ];
    for (path, total) in filtered {
        assert_eq!(numbers(&app, Credentials::Key(&owner), path).await, (total, total), "{path}");
    }
    for (path, total) in [
        ("organizations", 2),
        ("organizations?q=own", 1),
        ("organizations?trusted_partner=true", 0),
        ("webhooks", 2),
        ("webhooks?failing=false", 2),
        ("webhooks?failing=true", 0),
        (&format!("{deliveries}?status=pending"), 3),
    ] {
        assert_eq!(numbers(&app, operator.credentials(), &format!("operator/{path}")).await, (total, total), "{path}");
    }
}
