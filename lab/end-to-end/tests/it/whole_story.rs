//! A publisher, an agent, an operator and a partner use the service from sign-up to a revoked delegation, with nothing but HTTP,
//! email and the publisher's DNS.

mod clicks;

use crate::demo::{Demo, caught_up};
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::testing::{Credentials, DnsRecord, TestDns, TestResponse, eventually, send_request};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const IDENTITY: &str = "/api/v1/identity";
const DOMAIN: &str = "story.test";

/// The TXT records in the publisher's DNS, by name.
type Zone = Arc<Mutex<HashMap<String, String>>>;

type TestApp = service_kit::testing::TestApp<Story>;

/// The service and the publisher's DNS.
struct Story {
    demo: Demo,
    zone: Zone,
    _dns: TestDns,
}

/// A signed-in person, identified by a session.
struct Person(String);

/// A program, identified by an API key.
struct Program(String);

impl Story {
    async fn start() -> TestApp {
        let zone = Zone::default();
        let published = Arc::clone(&zone);
        let dns =
            TestDns::start(move |name| published.lock().unwrap().get(name).cloned().map(DnsRecord::Text).into_iter().collect())
                .await;
        let app = Demo::start_with(&[("TELEMETRY_DNS_SERVER", dns.address.to_string())]).await;
        let url = app.url("");
        TestApp::new(app.stores, &url, Self { demo: app.service, zone, _dns: dns })
    }

    fn mailed_token(&self, email: &str) -> Option<String> {
        let mails = std::fs::read_dir(self.demo.folder().join("mail")).ok()?;
        let mails = mails.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let mut own = mails.filter(|mail| mail.contains(&format!("To: {email}")));
        // Use the link that is shown to people.
        own.next()?.split_once("?token=")?.1.split_whitespace().next().map(str::to_owned)
    }
}

trait Requests {
    fn app(&self) -> &TestApp;

    /// Requests a sign-in link and redeems it from the email.
    async fn sign_in(&self, email: &str) -> Person {
        let send = async |path: &str, body: Value| {
            self.app().post(Credentials::Nothing, &format!("{IDENTITY}/auth/{path}"), &body).await
        };
        let _ = send("magic-link", json!({"email": email})).await.expect(202);
        let token = eventually("the email arrives", || async { self.app().mailed_token(email) }).await;
        let verify = async || send("magic-link/verify", json!({"token": token})).await;
        let opened = verify().await.expect(200);
        assert_eq!(opened.body["user"]["email"], email);
        assert_eq!(verify().await.status, 401, "the link worked twice");
        Person(opened.body["session_id"].as_str().unwrap().to_owned())
    }

    async fn by(&self, person: &Person, method: Method, path: &str, body: Option<&Value>) -> TestResponse {
        let request = self.app().request(method, &format!("{IDENTITY}{path}"), Credentials::Session(&person.0));
        send_request(match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        })
        .await
    }

    /// Sends a request as a person and checks the status.
    async fn send_expecting(&self, person: &Person, method: Method, path: &str, body: Value, expected: u16) -> Value {
        let answer = self.by(person, method, path, Some(&body).filter(|body| !body.is_null())).await;
        assert_eq!(answer.status, expected, "{path}: {}", answer.body);
        answer.body
    }

    async fn create_key(&self, person: &Person) -> Program {
        let created = self.send_expecting(person, Method::POST, "/api-keys", json!({"name": "story"}), 201).await;
        Program(created["key"].as_str().unwrap().to_owned())
    }

    /// Creates an organization that an operator must approve.
    async fn create_approved_organization(&self, person: &Person, kind: &str) -> String {
        let request = json!({"org_name": format!("Story {kind}"), "admin_email": "admin@story.test", "use_case": "to tell it"});
        let self_serve = json!({"name": "Story", "org_type": kind, "domain": "elsewhere.test"});
        let pointed = self.send_expecting(person, Method::POST, "/organizations", self_serve, 403).await;
        assert!(pointed["detail"].as_str().unwrap().contains(&format!("{kind}-access-requests")), "{pointed}");
        let asked = self.send_expecting(person, Method::POST, &format!("/{kind}-access-requests"), request, 201).await;
        assert_eq!(asked["status"], "pending");
        let approve = format!("/operator/access-requests/{}/approve", asked["id"].as_str().unwrap());
        assert_eq!(self.by(person, Method::POST, &approve, None).await.status, 403, "the requester could approve");
        let operator = Person(self.app().demo.env("OPERATOR_SESSION").to_owned());
        let waiting =
            self.send_expecting(&operator, Method::GET, "/operator/access-requests?status=pending", Value::Null, 200).await;
        assert!(waiting.as_array().unwrap().iter().any(|request| request["id"] == asked["id"]), "{waiting}");
        self.send_expecting(&operator, Method::POST, &approve, json!({"note": "welcome"}), 201).await;
        let own = self.send_expecting(person, Method::GET, &format!("/{kind}-access-requests"), Value::Null, 200).await;
        assert_eq!((&own[0]["status"], &own[0]["reviewer_note"]), (&json!("approved"), &json!("welcome")), "{own}");
        own[0]["approved_org_id"].as_str().unwrap().to_owned()
    }

    async fn publish(&self, person: &Person) -> String {
        let founded = json!({"name": "Story Press", "org_type": "content_owner", "domain": DOMAIN});
        let org = self.send_expecting(person, Method::POST, "/organizations", founded, 201).await;
        let domains = self.send_expecting(person, Method::GET, "/domains", Value::Null, 200).await;
        assert_eq!((&domains[0]["domain"], &domains[0]["verified"]), (&json!(DOMAIN), &json!(false)));
        let verify = format!("/domains/{}/verify", domains[0]["id"].as_str().unwrap());
        self.send_expecting(person, Method::POST, &verify, Value::Null, 422).await;
        assert_eq!(self.resolve().await["handled"], false, "registration verified the domain");
        let text = format!("svc-verify={}", domains[0]["verification_token"].as_str().unwrap());
        self.app().zone.lock().unwrap().insert(format!("_content-telemetry.{DOMAIN}"), text);
        let verified = self.send_expecting(person, Method::POST, &verify, Value::Null, 200).await;
        assert_eq!((&verified["verified"], &verified["verification_method"]), (&json!(true), &json!("dns_txt")));
        assert_eq!(self.resolve().await["organization"]["id"], org["id"]);
        org["id"].as_str().unwrap().to_owned()
    }

    async fn resolve(&self) -> Value {
        self.app().get("", &format!("/resolve?domain={DOMAIN}")).await.body
    }

    /// Reports a session: the agent fetches and cites a page, and the publisher's server reports the fetch too.
    async fn report_session(&self, agent: &Program, publisher: &Program) {
        let session = self.app().start_session(&agent.0, &json!({"agent_id": "teller"})).await;
        let page = |event: Value| {
            let mut event = event;
            event["timestamp"] = json!("2026-11-01T10:00:00Z");
            event["content_url"] = json!(format!("https://www.{DOMAIN}/tale"));
            event
        };
        let retrieved =
            |role: &str| page(json!({"type": "content_retrieved", "source_role": role, "content_telemetry_id": "one-retrieval"}));
        let cited = page(json!({"type": "content_cited", "id": "one-citation", "data": {"citation_type": "paraphrase"}}));
        let batch = json!({"session_id": session, "events": [retrieved("agent"), cited]});
        for (program, batch) in [(agent, batch), (publisher, json!({"events": [retrieved("origin")]}))] {
            let _ = self.app().report(&program.0, &batch).await.expect(201);
        }
    }

    /// Returns status and body of a read.
    async fn read_as(&self, program: &Program, path: &str) -> (u16, String) {
        let answer = self.app().get(&program.0, path).await;
        (answer.status, answer.raw)
    }
}

impl Requests for TestApp {
    fn app(&self) -> &TestApp {
        self
    }
}

#[tokio::test]
async fn publisher_agent_and_partner_work_over_http_only() {
    let world = Story::start().await;
    let publisher = world.sign_in("publisher@story.test").await;
    let org = world.publish(&publisher).await;
    let publisher_key = world.create_key(&publisher).await;

    let agent = world.sign_in("agent@story.test").await;
    world.create_approved_organization(&agent, "agent").await;
    let agent_key = world.create_key(&agent).await;
    world.report_session(&agent_key, &publisher_key).await;
    caught_up(&world, &world.demo).await;
    let (status, text) = world.read_as(&publisher_key, "/content-owners/summary").await;
    assert_eq!(status, 200);
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((summary["events_by_source"].as_array().unwrap().len(), &summary["total_events"]), (2, &json!(2)), "{summary}");
    assert_eq!(summary["agents"][0]["agent_id"], "teller", "expected one retrieval, two observers, one citation: {summary}");

    let partner = world.sign_in("partner@story.test").await;
    world.create_approved_organization(&partner, "platform").await;
    let partner_key = world.create_key(&partner).await;
    let delegated = format!("/content-owners/summary?delegated_from={org}");
    assert_eq!(world.read_as(&partner_key, &delegated).await.0, 403, "read before the delegation");

    let asked = world.send_expecting(&partner, Method::POST, "/delegation-requests", json!({"domain": DOMAIN}), 201).await;
    let approve = format!("/delegation-requests/{}/approve", asked["id"].as_str().unwrap());
    assert_eq!(world.by(&partner, Method::POST, &approve, None).await.status, 403, "the requester could approve");
    assert_eq!(world.by(&agent, Method::POST, &approve, None).await.status, 404, "another organization sees the request");
    let delegation = world.send_expecting(&publisher, Method::POST, &approve, Value::Null, 201).await;

    for path in ["summary", "events", "urls", "corroboration", "funnel"] {
        for period in ["", "since=2026-01-01", "until=2026-02-01", "domain=story.test"] {
            let path = format!("/content-owners/{path}?{period}");
            let (own, theirs) = (path.clone(), format!("{path}&delegated_from={org}"));
            let (own, theirs) = (world.read_as(&publisher_key, &own).await, world.read_as(&partner_key, &theirs).await);
            assert_eq!(own.0, 200, "{path}");
            assert_eq!(own, theirs, "{path}: differs from the owner's read");
        }
    }

    let revoke = format!("/delegations/{}", delegation["id"].as_str().unwrap());
    assert_eq!(world.by(&partner, Method::DELETE, &revoke, None).await.status, 403, "the grantee could revoke");
    world.send_expecting(&publisher, Method::DELETE, &revoke, Value::Null, 200).await;
    assert_eq!(world.read_as(&partner_key, &delegated).await.0, 403, "read after the revocation");
    assert_eq!(world.read_as(&publisher_key, "/content-owners/summary").await.0, 200);

    world.send_expecting(&publisher, Method::DELETE, "/auth/session", Value::Null, 204).await;
    assert_eq!(world.by(&publisher, Method::GET, "/api-keys", None).await.status, 401, "the session still works");
}
