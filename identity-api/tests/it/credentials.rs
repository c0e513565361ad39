//! The organizations that a member acts for.

use crate::test_app::{Credentials, Identity, KEYS, Requests as _, TestApp, TestResponse, send_request};
use reqwest::Method;
use serde_json::json;

/// Returns the responses to list, create and revoke.
async fn all_three(app: &TestApp, shows: Credentials<'_>, query: &str, id: &str) -> [TestResponse; 3] {
    let create = app.request(Method::POST, &format!("{KEYS}{query}"), shows).header("content-type", "application/json");
    [
        send_request(app.request(Method::GET, &format!("{KEYS}{query}"), shows)).await,
        send_request(create.body("{}")).await,
        send_request(app.request(Method::DELETE, &format!("{KEYS}/{id}{query}"), shows)).await,
    ]
}

fn statuses(answers: &[TestResponse; 3]) -> [u16; 3] {
    answers.each_ref().map(|answer| answer.status)
}

#[tokio::test]
async fn members_of_several_organizations_must_name_one() {
    let app = Identity::open().await;
    let ((one, one_key), (two, two_key), (other, other_key)) =
        (app.org("one").await, app.org("two").await, app.org("other").await);
    let generate = async |key: &str| app.create(Credentials::Key(key), &json!({})).await.body["id"].as_str().unwrap().to_owned();

    let single = app.session("single@a.test", &[one]).await;
    for query in [String::new(), format!("?organization_id={one}")] {
        let answers = all_three(&app, Credentials::Session(&single), &query, &generate(&one_key).await).await;
        assert_eq!(statuses(&answers), [200, 201, 200], "{query}");
        assert!(answers[1].body["key"].as_str().unwrap().starts_with("svc_pub_"));
    }

    let several = app.session("several@a.test", &[one, two]).await;
    let id = generate(&two_key).await;
    let unnamed = all_three(&app, Credentials::Session(&several), "", &id).await;
    assert!(unnamed.iter().all(|refused| refused.refusal() == (400, "invalid_parameter")), "{unnamed:?}");
    let answers = all_three(&app, Credentials::Session(&several), &format!("?organization_id={two}"), &id).await;
    assert_eq!(statuses(&answers), [200, 201, 200]);
    assert_eq!(answers[1].body["organization_id"], json!(two));
    let elsewhere =
        all_three(&app, Credentials::Session(&several), &format!("?organization_id={one}"), &generate(&two_key).await).await;
    assert_eq!(statuses(&elsewhere), [200, 201, 404], "the other organization's keys are unknown");

    let stranger = app.session("stranger@a.test", &[]).await;
    let id = generate(&other_key).await;
    let expected =
        send_request(app.request(Method::GET, &format!("{KEYS}?organization_id={other}"), Credentials::Session(&single))).await;
    assert_eq!(expected.refusal(), (403, "forbidden"));
    let absent = "01900000-0000-7000-8000-000000000000".to_owned();
    for (session, org) in
        [(&single, other.to_string()), (&several, other.to_string()), (&stranger, other.to_string()), (&single, absent)]
    {
        for refused in all_three(&app, Credentials::Session(session), &format!("?organization_id={org}"), &id).await {
            assert_eq!(refused, expected, "the response is the same for unknown organizations");
        }
    }
    assert_eq!(app.list(Credentials::Session(&stranger)).await.refusal(), (403, "forbidden"));
    for malformed in ["x", "%00", "", "1"] {
        let path = format!("{KEYS}?organization_id={malformed}");
        let refused = send_request(app.request(Method::GET, &path, Credentials::Session(&single))).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{malformed:?}");
    }
    let twice = format!("{KEYS}?organization_id={one}&organization_id={two}");
    let refused = send_request(app.request(Method::GET, &twice, Credentials::Session(&several))).await;
    assert_eq!(refused.refusal(), (400, "invalid_parameter"), "naming two organizations is invalid");
}
