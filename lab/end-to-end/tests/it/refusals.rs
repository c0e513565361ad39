//! All APIs return errors in the same format. S8: `lab/schemathesis/run.sh` checks random requests.

use crate::demo::{Demo, retrieval, total_events};
use reqwest::Method;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use serde_json::{Value, json};
use service_kit::testing::{TestResponse, send_request};

/// Checks every member of a problem response. In equal rejections, only the request id may differ.
fn assert_problem(refused: &TestResponse, status: u16, code: &str) {
    assert_eq!((refused.status, refused.header("content-type")), (status, "application/problem+json"), "{}", refused.body);
    let body = refused.body.as_object().expect("the problem is not an object");
    assert_eq!((&body["status"], &body["code"]), (&json!(status), &json!(code)), "{body:?}");
    assert_eq!(body["type"], format!("urn:problem:{code}"));
    for member in ["title", "detail", "request_id"] {
        assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {body:?}");
    }
    let allowed = ["type", "title", "status", "detail", "code", "request_id", "errors"];
    assert!(body.keys().all(|member| allowed.contains(&member.as_str())), "{body:?}");
}

fn without_id(mut refused: TestResponse) -> Value {
    refused.body["request_id"].take();
    refused.body
}

#[tokio::test]
async fn rejections_have_the_same_format() {
    let demo = Demo::start().await;
    let agent = demo.env("AGENT_KEY");
    let report = retrieval("agent", "one");

    let stranger = PlainApiKey::generate(OrgType::Agent);
    for refused in [demo.report(stranger.reveal(), &report).await, demo.get(stranger.reveal(), "/content-owners/summary").await] {
        assert_problem(&refused, 401, "unauthenticated");
    }
    let theirs = demo.get(demo.env("OTHER_OWNER_KEY"), "/content-owners/summary?domain=example.com").await;
    assert_problem(&theirs, 403, "forbidden");
    let nobodys = demo.get(demo.env("OTHER_OWNER_KEY"), "/content-owners/summary?domain=nobody.example").await;
    assert_eq!(without_id(theirs), without_id(nobodys), "the response reveals whether a domain has an owner");
    let foreign_host = demo.report(demo.env("OTHER_OWNER_KEY"), &retrieval("origin", "one")).await;
    assert_problem(&foreign_host, 403, "forbidden");

    for broken in ["", "{", "[]", "null", "{\"events\":[}", "\u{0}"] {
        assert_problem(&demo.send(Method::POST, agent, "/events", broken.to_owned()).await, 400, "invalid_body");
    }
    let mut without_url = report.clone();
    without_url["events"][0]["content_url"].take();
    let broken_rule = demo.report(agent, &without_url).await;
    assert_problem(&broken_rule, 422, "invalid_event");
    assert_eq!(broken_rule.body["errors"][0]["index"], 0, "{}", broken_rule.body);

    assert_problem(&demo.get(agent, "/nowhere").await, 404, "not_found");
    assert_problem(&demo.get(agent, "/events").await, 405, "method_not_allowed");
    let as_text = demo.client.post(demo.url("/events")).header("x-api-key", agent).header("content-type", "text/plain");
    assert_problem(&send_request(as_text.body("x")).await, 415, "unsupported_media_type");
    assert_eq!(total_events(&demo).await, 0, "events of a rejected request are visible");
}
