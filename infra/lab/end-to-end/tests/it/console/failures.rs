//! What stands around the page of a failure: the ways on of who reads it.

use super::Reader;
use crate::demo::Demo;
use axum::http::{StatusCode, Uri};
use axum::{Json, Router};
use serde_json::{Value, json};
use service_kit::testing::{TestProcess, free_address};
use tokio::net::TcpListener;

fn home(demo: &Demo, variable: &str) -> String {
    format!("/console/o/{}", demo.env(variable))
}

/// An API that knows who somebody is, and answers nothing else.
async fn broken_api(demo: &Demo) -> String {
    let (whoami, client) = (demo.url("/api/v1/identity/auth/session"), demo.client.clone());
    let session = demo.env("OWNER_SESSION").to_owned();
    let answered = move |address: Uri| async move {
        if address.path().ends_with("/auth/session") {
            let told = client.get(&whoami).bearer_auth(&session).send().await.unwrap();
            return (StatusCode::OK, Json(told.json::<Value>().await.unwrap()));
        }
        let problem = json!({"type": "urn:problem:unavailable", "title": "Unavailable", "status": 503, "detail": "It is away.",
            "code": "unavailable", "request_id": "none"});
        (StatusCode::SERVICE_UNAVAILABLE, Json(problem))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answered)).await.unwrap() });
    base
}

#[tokio::test]
async fn a_page_of_a_failure_has_the_navigation_of_who_reads_it_and_of_no_other_organisation() {
    let demo = Demo::start().await;
    let (own, foreign) = (home(&demo, "OWNER_ORG_ID"), home(&demo, "AGENT_ORG_ID"));
    let nobody = "01900000-0000-7000-8000-000000000000";
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    for (path, status, is_about_own) in [
        (format!("{own}/overview?period=ever"), 400, true),
        (format!("{own}/overview?offset=none"), 400, true),
        (format!("{own}/overview?domain=other.example"), 403, true),
        (format!("{own}/webhooks/{nobody}"), 404, true),
        (format!("{own}/nothing/here"), 404, true),
        (format!("{own}/keys/{nobody}/revoke"), 405, true),
        (format!("{foreign}/overview"), 404, false),
        (format!("{foreign}/nothing"), 404, false),
        ("/console/operator/webhooks".to_owned(), 403, false),
        ("/console/nothing".to_owned(), 404, false),
    ] {
        let page = owner.open(&path).await;
        assert_eq!(page.status, status, "{path}: {}", page.html);
        assert_eq!(page.html.contains(&format!("href=\"{own}/overview\"")), is_about_own, "{path}: {}", page.html);
        assert!(
            page.html.contains("href=\"/console/requests\"") && page.html.contains("owner@example.com"),
            "{path}: {}",
            page.html
        );
        assert!(!page.html.contains(&format!("href=\"{foreign}")), "{path}: {}", page.html);
        assert!(page.html.contains("Request <code>"), "{path}: {}", page.html);
    }
    let address = free_address();
    let settings = [
        ("TELEMETRY_LISTEN", address.to_string()),
        ("TELEMETRY_API_URL", broken_api(&demo).await),
        ("TELEMETRY_PUBLIC_URL", format!("http://{address}")),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
    ];
    let mut process = TestProcess::service(&["console"], &settings);
    process.answers(&format!("http://{address}/health")).await;
    let page = owner.at(&format!("http://{address}")).open(&format!("{own}/overview")).await;
    let is_framed = page.html.contains(&format!("href=\"{own}/keys\""));
    assert!(page.status == 503 && page.html.contains("It is away.") && is_framed, "{}: {}", page.status, page.html);
    let page = Reader::nobody(&demo).open(&format!("{own}/keys/{nobody}/revoke")).await;
    assert!(page.status == 405 && !page.html.contains("<nav"), "{}", page.html);
}
