//! A webhook endpoint is tried, paused and deleted from its page.

use super::Reader;
use super::pages::link;
use super::reader::Page;
use crate::demo::{Demo, answer};
use serde_json::{Value, json};
use service_kit::testing::eventually;

fn home(demo: &Demo) -> String {
    format!("/console/o/{}", demo.env("OWNER_ORG_ID"))
}

async fn identity(demo: &Demo, path: &str) -> Value {
    demo.get(demo.env("OWNER_KEY"), &format!("/api/v1/identity/{path}")).await.body
}

#[tokio::test]
async fn an_endpoint_is_tried_paused_and_deleted_from_its_page() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let made = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let create = demo.client.post(demo.url("/api/v1/identity/webhooks")).header("x-api-key", demo.env("OWNER_KEY")).json(&made);
    let id = answer(create).await.body["id"].as_str().unwrap().to_owned();
    let path = format!("{}/webhooks/{id}", home(&demo));

    let page = owner.open(&path).await;
    let page = owner.press(&page, "/test", &[]).await;
    assert!(page.address == path && page.html.contains("webhook.test"), "{}", page.html);
    let sent = identity(&demo, &format!("webhooks/{id}/deliveries")).await;
    assert_eq!(sent.as_array().map(Vec::len), Some(1), "{sent}");
    eventually("the test failed", || async { identity(&demo, "webhooks").await[0]["last_attempt"].is_object().then_some(()) })
        .await;
    let list = owner.open(&format!("{}/webhooks", home(&demo))).await;
    assert!(list.html.contains("Failing</span>") && list.html.contains("no public address"), "{}", list.html);

    let page = owner.press(&page, "/disable", &[]).await;
    assert!(page.html.contains("Disabled") && !page.actions().iter().any(|action| action.ends_with("/test")), "{}", page.html);
    assert!(identity(&demo, &format!("webhooks/{id}")).await["disabled_at"].is_string());
    let list = owner.open(&format!("{}/webhooks", home(&demo))).await;
    assert!(list.html.contains("Disabled</span>") && !list.html.contains("Failing</span>"), "{}", list.html);
    let page = owner.press(&page, "/enable", &[]).await;
    assert!(page.actions().iter().any(|action| action.ends_with("/test")), "{}", page.html);
    assert!(identity(&demo, &format!("webhooks/{id}")).await["disabled_at"].is_null());
    let page = owner.press(&page, "/delete", &[]).await;
    assert!(page.address.ends_with("/webhooks") && !page.html.contains("receiver.example.net"), "{}", page.html);
    assert_eq!(identity(&demo, "webhooks").await, json!([]));
}

/// A test is a delivery; the oldest is given up here by hand, because it would be after a day and a half.
#[tokio::test]
async fn every_delivery_of_a_long_log_is_reached_and_one_that_was_given_up_is_sent_again() {
    const MORE_THAN_A_PAGE: usize = 53;
    let demo = Demo::start().await;
    let made = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let post = |path: String| demo.client.post(demo.url(&path)).header("x-api-key", demo.env("OWNER_KEY"));
    let hook = answer(post("/api/v1/identity/webhooks".to_owned()).json(&made)).await.body["id"].as_str().unwrap().to_owned();
    let test = answer(post(format!("/api/v1/identity/webhooks/{hook}/test"))).await;
    assert_eq!(test.status, 202, "{}", test.body);
    let sent_first = test.body["id"].as_str().unwrap().to_owned();
    // Later ones like it, written by hand because an endpoint may have five tests a minute.
    let more = "INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at) \
        SELECT more.id, endpoint_id, organization_id, event_type, replace(body, d.id::text, more.id::text), \
            created_at + n * interval '1 millisecond' \
        FROM webhook_deliveries d CROSS JOIN (SELECT uuidv7() AS id, n FROM generate_series(1, $2) AS n) AS more \
        WHERE d.id = $1::uuid";
    let more = sqlx::query(more).bind(&sent_first).bind(i32::try_from(MORE_THAN_A_PAGE - 1).unwrap());
    assert_eq!(more.execute(&demo.stores.pool).await.unwrap().rows_affected(), MORE_THAN_A_PAGE as u64 - 1);
    let given_up = "UPDATE webhook_queue SET status = 'dead_letter', ended_at = now(), attempts = 8 WHERE delivery_id = $1::uuid";
    eventually("the oldest was tried, and is tried again in a minute", || async {
        let oldest = format!("webhooks/{hook}/deliveries?limit=1&offset={}", MORE_THAN_A_PAGE - 1);
        identity(&demo, &oldest).await[0]["last_attempt"].is_object().then_some(())
    })
    .await;
    sqlx::query(given_up).bind(&sent_first).execute(&demo.stores.pool).await.unwrap();

    let (mut owner, mut operator) = (Reader::signed_in(&demo, "OWNER_SESSION"), Reader::signed_in(&demo, "OPERATOR_SESSION"));
    let rows = |page: &Page| page.all_between("<th scope=\"row\">webhook.test</th>", "</tr>").count();
    for (reader, path) in
        [(&mut owner, format!("{}/webhooks/{hook}", home(&demo))), (&mut operator, format!("/console/operator/webhooks/{hook}"))]
    {
        let first = reader.open(&path).await;
        let second = reader.open(&link(&first, "Next")).await;
        assert_eq!((rows(&first), rows(&second)), (50, MORE_THAN_A_PAGE - 50), "{path}: {}", second.html);
        assert_eq!(rows(&reader.open(&link(&second, "Previous")).await), 50, "{path}");
        let waiting = reader.open(&link(&first, "Pending")).await;
        let rest = reader.open(&link(&waiting, "Next")).await;
        assert_eq!((rows(&waiting), rows(&rest)), (50, MORE_THAN_A_PAGE - 51), "{path}: the next part is of the same choice");
        let given_up = reader.open(&link(&second, "Failed")).await;
        assert!(rows(&given_up) == 1 && given_up.html.contains("/deliveries?status=dead_letter"), "{path}: {}", given_up.html);
        let file = reader.open(&link(&given_up, "CSV")).await.html;
        assert!(file.lines().count() == 2 && file.contains(&sent_first), "{path}: {file}");
        let delivered = reader.open(&link(&first, "Delivered")).await;
        assert!(rows(&delivered) == 0 && delivered.html.contains("No deliveries with this status"), "{path}: {}", delivered.html);
    }
    let given_up = owner.open(&format!("{}/webhooks/{hook}?status=dead_letter", home(&demo))).await;
    owner.press(&given_up, "/redeliver", &[]).await;
    eventually("it is sent again", || async {
        (identity(&demo, &format!("webhooks/{hook}/deliveries?status=dead_letter")).await == json!([])).then_some(())
    })
    .await;
}
