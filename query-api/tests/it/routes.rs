//! S3: every route's response to every credential.

use crate::test_app::Query;
use chrono::TimeDelta;
use reqwest::RequestBuilder;
use schemas::identity::{DrainProvider, OrgType, Scope};
use schemas::ids::OrgId;
use schemas::secrets::PlainApiKey;
use service_kit::testing::{Seed, client};

/// Every route with its required parameters.
#[rustfmt::skip]
const GOLDEN: [(&str, [u16; 12]); 25] = [
    // none, unknown key, revoked key, expired session, session without a membership, session of an owner's, a platform's and an
    // agent's member, key without telemetry:read, owner, platform, agent
    ("/content-owners/summary", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/events", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/events/{id}", [401, 401, 401, 401, 403, 404, 403, 403, 403, 404, 403, 403]),
    ("/content-owners/documents", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/urls", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/corroboration", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/reconciliation", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/funnel", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/series", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/crawlers", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/robots", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/coverage", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/statements", [401, 401, 401, 401, 403, 200, 403, 403, 403, 200, 403, 403]),
    ("/content-owners/statements/{id}", [401, 401, 401, 401, 403, 404, 403, 403, 403, 404, 403, 403]),
    ("/content-owners/statements/{id}/evidence", [401, 401, 401, 401, 403, 404, 403, 403, 403, 404, 403, 403]),
    ("/agent/events", [401, 401, 401, 401, 403, 403, 200, 200, 403, 403, 200, 200]),
    ("/agent/summary", [401, 401, 401, 401, 403, 403, 200, 200, 403, 403, 200, 200]),
    ("/agent/series", [401, 401, 401, 401, 403, 403, 200, 200, 403, 403, 200, 200]),
    ("/sessions/{id}/document", [401, 401, 401, 401, 403, 404, 404, 404, 403, 404, 404, 404]),
    ("/ctx/{token}", [401, 401, 401, 401, 401, 401, 401, 401, 403, 403, 404, 404]),
    ("/operator/usage", [401, 401, 401, 401, 403, 403, 403, 403, 401, 401, 401, 401]),
    ("/resolve?url=https://a.test/", [200; 12]),
    ("/.well-known/content-telemetry.json", [200; 12]),
    ("/health", [200; 12]),
    ("/ready", [200; 12]),
];

/// The route that also accepts POST.
const CLOSING: &str = "/content-owners/statements";

/// Returns the route with an unknown token or id.
fn of_nothing(route: &str) -> String {
    route.replace("{token}", "ctx_none").replace("{id}", "01900000-0000-7000-8000-000000000000")
}

enum Credentials {
    Nothing,
    Key(String),
    Session(String),
}

impl Credentials {
    fn on(&self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Nothing => request,
            Self::Key(key) => request.header("x-api-key", key),
            Self::Session(session) => request.bearer_auth(session),
        }
    }
}

/// Returns the session of a person in one organization.
async fn member(seed: &Seed<'_>, email: &str, org: OrgId) -> String {
    let session = seed.session(email, TimeDelta::days(1)).await;
    seed.join(email, org).await;
    session
}

#[tokio::test]
async fn s3_responses_equal_the_table() {
    let app = Query::start().await;
    let (seed, owner) = (app.seed(), app.seed().owner_of("a.test").await);
    let gone = seed.owner_of("gone.test").await;
    seed.revoke_keys(gone.id).await;
    let (platform, agent) = (seed.org("platform", OrgType::Platform).await, seed.org("agent", OrgType::Agent).await);
    let unscoped = [Scope::TelemetryWrite, Scope::IdentityRead, Scope::IdentityWrite];
    let credentials = [
        Credentials::Nothing,
        Credentials::Key(PlainApiKey::generate(OrgType::ContentOwner).reveal().to_owned()),
        Credentials::Key(gone.key),
        Credentials::Session(seed.session("late@a.test", TimeDelta::seconds(-1)).await),
        Credentials::Session(seed.session("nobody@a.test", TimeDelta::days(1)).await),
        Credentials::Session(member(&seed, "ada@a.test", owner.id).await),
        Credentials::Session(member(&seed, "bob@a.test", platform.id).await),
        Credentials::Session(member(&seed, "eve@a.test", agent.id).await),
        Credentials::Key(seed.key(owner.id, OrgType::ContentOwner, &unscoped).await),
        Credentials::Key(owner.key),
        Credentials::Key(platform.key),
        Credentials::Key(agent.key),
    ];
    let client = client();
    let mut wrong = Vec::new();
    for (route, expected) in GOLDEN {
        let mut found = Vec::new();
        for shows in &credentials {
            let request = shows.on(client.get(format!("{}{}", app.server.url, of_nothing(route))));
            found.push(request.send().await.unwrap().status().as_u16());
        }
        if found != expected {
            wrong.push(format!("{route} {found:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "responses that differ from the table");
}

#[tokio::test]
async fn s3_drain_keys_cannot_read() {
    let app = Query::start().await;
    let client = client();
    for org_type in [OrgType::ContentOwner, OrgType::Platform, OrgType::Agent] {
        let org = app.seed().org("feeds", org_type).await.id;
        let (_, key) = app.seed().drain(org, org_type, DrainProvider::Ndjson).await;
        for (route, expected) in GOLDEN {
            let url = format!("{}{}", app.server.url, of_nothing(route));
            let status = client.get(url).header("x-api-key", &key).send().await.unwrap().status().as_u16();
            assert_eq!(status, expected[8], "{route}: same as other keys without telemetry:read");
        }
    }
}

/// R19: only the exact path works, and only with GET and HEAD. Other methods and spellings don't bypass authentication.
#[tokio::test]
async fn r19_other_path_spellings_do_not_bypass_the_key() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    let agent = app.seed().org("agent", OrgType::Agent).await;
    let client = client();
    for (route, expected) in GOLDEN {
        let path = of_nothing(route.split('?').next().unwrap());
        let send = async |method: &str, path: &str, key: Option<&str>| {
            let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
            let request = client.request(method, format!("{}{path}", app.server.url));
            let request = key.into_iter().fold(request, |request, key| request.header("x-api-key", key));
            let response = request.send().await.unwrap();
            let allows = response.headers().get("allow").map(|methods| methods.to_str().unwrap().to_owned());
            (response.status().as_u16(), allows, response.text().await.unwrap())
        };
        // HEAD returns the same status as GET, without a body.
        for key in [None, Some(owner.key.as_str()), Some(agent.key.as_str())] {
            let (got, head) = (send("GET", &path, key).await, send("HEAD", &path, key).await);
            assert_eq!((head.0, head.2.as_str()), (got.0, ""), "{path}");
        }
        assert_eq!(send("HEAD", &path, None).await.0, if expected[0] == 401 { 401 } else { send("GET", &path, None).await.0 });
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"] {
            for key in [None, Some(owner.key.as_str()), Some(agent.key.as_str())] {
                let (status, allows, text) = send(method, &path, key).await;
                // Closing a month is the only change (`tests/it/statements.rs`).
                let methods = if path == CLOSING { "GET,HEAD,POST" } else { "GET,HEAD" };
                if method == "POST" && path == CLOSING {
                    continue;
                }
                assert_eq!((status, allows.as_deref()), (405, Some(methods)), "{method} {path}: {text}");
                assert!(text.contains("method_not_allowed"), "{method} {path}: {text}");
            }
        }
        let (upper, last) = (path.to_uppercase(), path.rsplit('/').next().unwrap());
        let capital = path.replacen(last, &format!("{}{}", last[..1].to_uppercase(), &last[1..]), 1);
        let others = [
            format!("{path}/"),
            format!("/{path}"),
            format!("{path}//"),
            path.replacen('/', "//", 1),
            format!("{path}/x"),
            format!("{path}%20"),
            format!("{path}%2f"),
            format!("{path};a=b"),
            format!("{path}.json"),
            format!("/x/..{path}x"),
            upper,
            capital,
        ];
        // Tokens and event ids can have any spelling, so unknown ones are not found.
        let is_any = |other: &str| {
            route.contains("/ctx/")
                || ["events/", "statements/"].iter().any(|list| {
                    let list = format!("/content-owners/{list}");
                    other.starts_with(&list) || other.starts_with(&format!("/x/..{list}"))
                })
        };
        for other in others.iter().filter(|other| **other != path && !is_any(other)) {
            for key in [None, Some(owner.key.as_str()), Some(agent.key.as_str())] {
                let (status, _, text) = send("GET", other, key).await;
                assert_eq!(status, 404, "{other}: {text}");
            }
        }
    }
    for other in ["/ctx/", "/ctx", "//ctx/ctx_none", "/CTX/ctx_none", "/ctx/ctx_none/", "/ctx/ctx_none/x"] {
        let url = format!("{}{other}", app.server.url);
        assert_eq!(client.get(url).header("x-api-key", &agent.key).send().await.unwrap().status(), 404, "{other}");
    }
}

#[test]
fn every_route_is_in_the_table() {
    let source = include_str!("../../src/routes.rs");
    let registered = source.split(".route(\"").skip(1).map(|registration| registration.split('"').next().unwrap());
    let expected: Vec<_> = registered.chain(["/health", "/ready"]).collect();
    let table: Vec<_> = GOLDEN.iter().map(|(route, _)| route.split('?').next().unwrap()).collect();
    assert_eq!(table, expected, "add the new route to GOLDEN, with the status for each credential");
    assert_eq!(source.matches("get(").count(), expected.len() - 2, "every route has a GET");
}
