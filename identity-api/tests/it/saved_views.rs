//! Saved views of the console, which belong to one organization.

use crate::test_app::{Credentials, Identity, Requests as _};
use serde_json::{Value, json};

const VIEWS: &str = "/api/v1/identity/saved-views";

#[tokio::test]
async fn saved_views_belong_to_one_organization() {
    let app = Identity::open().await;
    let ((_, key), (_, other)) = (app.org("owner").await, app.org("other").await);
    let save = async |key: &str, name: &str, query: &str| {
        let body = json!({"name": name, "page": "assistants", "query": query});
        app.post(Credentials::Key(key), VIEWS, &body).await.expect(201).body
    };
    let list = async |key: &str| app.get(Credentials::Key(key), VIEWS).await.expect(200).body;
    let names = |list: &Value| list.as_array().unwrap().iter().map(|view| view["name"].clone()).collect::<Vec<_>>();
    save(&key, "Monthly", "period=30d").await;
    let saved = save(&key, "daily", "period=today&operator=A%20B").await;
    save(&key, "Monthly", "period=90d").await;
    let listed = list(&key).await;
    assert_eq!((&listed[0], names(&listed)), (&saved, vec![json!("daily"), json!("Monthly")]));
    assert_eq!(listed[1]["query"], "period=90d", "the view with the same name is replaced");

    save(&other, "Monthly", "").await;
    let delete = format!("{VIEWS}/{}", saved["id"].as_str().unwrap());
    assert_eq!(app.delete(Credentials::Key(&other), &delete).await.refusal(), (404, "not_found"));
    assert_eq!(app.delete(Credentials::Key(&key), &delete).await.status, 204);
    assert_eq!((names(&list(&key).await), names(&list(&other).await)), (vec![json!("Monthly")], vec![json!("Monthly")]));
    let trail = app.get(Credentials::Key(&key), "/api/v1/identity/audit?action=saved_view.deleted").await.body;
    assert_eq!(trail[0]["detail"], json!({"name": "daily"}));
}

#[tokio::test]
async fn organizations_save_at_most_100_views() {
    let app = Identity::open().await;
    let (org, key) = app.org("owner").await;
    let planted = "INSERT INTO saved_views (id, organization_id, name, page, query, created_at) \
                   SELECT gen_random_uuid(), $1, n::text, 'overview', '', now() FROM generate_series(1, 100) n";
    sqlx::query(planted).bind(org.0).execute(&app.stores.pool).await.unwrap();
    let save =
        async |name: &str| app.post(Credentials::Key(&key), VIEWS, &json!({"name": name, "page": "overview"})).await.status;
    assert_eq!((save("101").await, save("100").await), (409, 201), "replacing a view is possible");
}
