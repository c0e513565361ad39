//! A15: security headers for browsers, which each test server checks on every response.

use axum::Router;
use axum::routing::get;
use service_kit::http::{Transport, with_request_middleware_over};
use service_kit::server::ServerLimits;
use service_kit::testing::{TestServer, client};

#[tokio::test]
async fn a15_responses_have_security_headers() {
    for (transport, hsts) in [(Transport::Plain, None), (Transport::Https, Some("max-age=63072000"))] {
        let router = with_request_middleware_over(transport, Router::new().route("/a", get(|| async { "a" })));
        let server = TestServer::with(ServerLimits::default().with_transport(transport), router).await;
        // The last one is rejected before it reaches the router.
        for (path, host) in [("/a", "a.test"), ("/nothing", "a.test"), ("/a", "a..test")] {
            let answer = client().get(format!("{}{path}", server.url)).header("host", host).send().await.unwrap();
            assert_eq!(answer.status() == 400, host == "a..test");
            let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
            assert!(header("content-security-policy").unwrap().starts_with("default-src 'none'; frame-ancestors 'none'"));
            assert_eq!(header("x-frame-options"), Some("DENY"));
            assert_eq!(header("x-content-type-options"), Some("nosniff"));
            assert_eq!(header("referrer-policy"), Some("no-referrer"));
            assert_eq!(header("strict-transport-security"), hsts, "{transport:?}");
        }
    }
}
