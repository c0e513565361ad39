//! A publisher, an agent, an operator and a partner use the service from sign-up to a revoked delegation, with nothing but HTTP,
//! email and the publisher's DNS.

mod clicks;

use crate::demo::{Demo, Response, send_request};
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::testing::{DnsRecord, TestDns, client, eventually};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const IDENTITY: &str = "/api/v1/identity";
const DOMAIN: &str = "story.test";

/// The TXT records in the publisher's DNS, by name.
type Zone = Arc<Mutex<HashMap<String, String>>>;

/// The service and the publisher's DNS.
struct TestApp {
    demo: Demo,
    zone: Zone,
    _dns: TestDns,
}

/// A signed-in person, identified by a session.
struct Person(String);

/// A program, identified by an API key.
struct Program(String);

impl TestApp {
    async fn start() -> Self {
        let zone = Zone::default();
        let published = Arc::clone(&zone);
        let dns =
            TestDns::start(move |name| published.lock().unwrap().get(name).cloned().map(DnsRecord::Text).into_iter().collect())
                .await;
        let demo = Demo::start_with(&[("TELEMETRY_DNS_SERVER", dns.address.to_string())]).await;
        Self { demo, zone, _dns: dns }
    }

    async fn send(&self, method: Method, path: &str, (header, value): (&str, String), body: Option<&Value>) -> Response {
        let request = self.demo.client.request(method, self.demo.url(path)).header(header, value);
        send_request(match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        })
        .await
    }

    /// Requests a sign-in link and redeems it from the email.
    async fn sign_in(&self, email: &str) -> Person {
        let nobody = || ("x-nobody", String::new());
        let asked =
            self.send(Method::POST, &format!("{IDENTITY}/auth/magic-link"), nobody(), Some(&json!({"email": email}))).await;
        assert_eq!(asked.status, 202, "{}", asked.body);
        let token = eventually("the email arrives", || async { self.mailed_token(email) }).await;
        let redeem = json!({"token": token});
        let verify = format!("{IDENTITY}/auth/magic-link/verify");
        let opened = self.send(Method::POST, &verify, nobody(), Some(&redeem)).await;
        assert_eq!((opened.status, &opened.body["user"]["email"]), (200, &json!(email)), "{}", opened.body);
        assert_eq!(self.send(Method::POST, &verify, nobody(), Some(&redeem)).await.status, 401, "the link worked twice");
        Person(opened.body["session_id"].as_str().unwrap().to_owned())
    }

    fn mailed_token(&self, email: &str) -> Option<String> {
        let mails = std::fs::read_dir(self.demo.folder().join("mail")).ok()?;
        let mails = mails.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let mut own = mails.filter(|mail| mail.contains(&format!("To: {email}")));
        // Use the link that is shown to people.
        own.next()?.split_once("?token=")?.1.split_whitespace().next().map(str::to_owned)
    }

    async fn by(&self, person: &Person, method: Method, path: &str, body: Option<&Value>) -> Response {
        self.send(method, &format!("{IDENTITY}{path}"), ("authorization", format!("Bearer {}", person.0)), body).await
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
        let operator = Person(self.demo.env("OPERATOR_SESSION").to_owned());
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
        self.zone.lock().unwrap().insert(format!("_content-telemetry.{DOMAIN}"), text);
        let verified = self.send_expecting(person, Method::POST, &verify, Value::Null, 200).await;
        assert_eq!((&verified["verified"], &verified["verification_method"]), (&json!(true), &json!("dns_txt")));
        assert_eq!(self.resolve().await["organization"]["id"], org["id"]);
        org["id"].as_str().unwrap().to_owned()
    }

    async fn resolve(&self) -> Value {
        send_request(self.demo.client.get(self.demo.url(&format!("/resolve?domain={DOMAIN}")))).await.body
    }

    /// Reports a session: the agent fetches and cites a page, and the publisher's server reports the fetch too.
    async fn report(&self, agent: &Program, publisher: &Program) {
        let by = |program: &Program| ("x-api-key", program.0.clone());
        let started = self.send(Method::POST, "/sessions/start", by(agent), Some(&json!({"agent_id": "teller"}))).await;
        assert_eq!(started.status, 201, "{}", started.body);
        let page = |event: Value| {
            let mut event = event;
            event["timestamp"] = json!("2026-11-01T10:00:00Z");
            event["content_url"] = json!(format!("https://www.{DOMAIN}/tale"));
            event
        };
        let retrieved =
            |role: &str| page(json!({"type": "content_retrieved", "source_role": role, "content_telemetry_id": "one-retrieval"}));
        let cited = page(json!({"type": "content_cited", "id": "one-citation", "data": {"citation_type": "paraphrase"}}));
        let batch = json!({"session_id": started.body["session_id"], "events": [retrieved("agent"), cited]});
        for (program, batch) in [(agent, batch), (publisher, json!({"events": [retrieved("origin")]}))] {
            let accepted = self.send(Method::POST, "/events", by(program), Some(&batch)).await;
            assert_eq!(accepted.status, 201, "{}", accepted.body);
        }
    }

    /// Returns status and body of a read.
    async fn read(&self, program: &Program, path: &str) -> (u16, Vec<u8>) {
        let response = client().get(self.demo.url(path)).header("x-api-key", &program.0).send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
    }
}

#[tokio::test]
async fn publisher_agent_and_partner_work_over_http_only() {
    let world = TestApp::start().await;
    let publisher = world.sign_in("publisher@story.test").await;
    let org = world.publish(&publisher).await;
    let publisher_key = world.create_key(&publisher).await;

    let agent = world.sign_in("agent@story.test").await;
    world.create_approved_organization(&agent, "agent").await;
    let agent_key = world.create_key(&agent).await;
    world.report(&agent_key, &publisher_key).await;
    let summary = eventually("what was reported is counted", || async {
        let (status, bytes) = world.read(&publisher_key, "/content-owners/summary").await;
        assert_eq!(status, 200);
        let summary: Value = serde_json::from_slice(&bytes).unwrap();
        let is_whole = summary["events_by_source"].as_array().unwrap().len() == 2 && summary["total_events"] == 2;
        is_whole.then_some(summary)
    })
    .await;
    assert_eq!(summary["agents"][0]["agent_id"], "teller", "expected one retrieval, two observers, one citation: {summary}");

    let partner = world.sign_in("partner@story.test").await;
    world.create_approved_organization(&partner, "platform").await;
    let partner_key = world.create_key(&partner).await;
    let delegated = format!("/content-owners/summary?delegated_from={org}");
    assert_eq!(world.read(&partner_key, &delegated).await.0, 403, "read before the delegation");

    let asked = world.send_expecting(&partner, Method::POST, "/delegation-requests", json!({"domain": DOMAIN}), 201).await;
    let approve = format!("/delegation-requests/{}/approve", asked["id"].as_str().unwrap());
    assert_eq!(world.by(&partner, Method::POST, &approve, None).await.status, 403, "the requester could approve");
    assert_eq!(world.by(&agent, Method::POST, &approve, None).await.status, 404, "another organization sees the request");
    let delegation = world.send_expecting(&publisher, Method::POST, &approve, Value::Null, 201).await;

    for path in ["summary", "events", "urls", "corroboration", "funnel"] {
        for period in ["", "since=2026-01-01", "until=2026-02-01", "domain=story.test"] {
            let path = format!("/content-owners/{path}?{period}");
            let (own, theirs) = (path.clone(), format!("{path}&delegated_from={org}"));
            let (own, theirs) = (world.read(&publisher_key, &own).await, world.read(&partner_key, &theirs).await);
            assert_eq!(own.0, 200, "{path}");
            assert_eq!(own, theirs, "{path}: differs from the owner's read");
        }
    }

    let revoke = format!("/delegations/{}", delegation["id"].as_str().unwrap());
    assert_eq!(world.by(&partner, Method::DELETE, &revoke, None).await.status, 403, "the grantee could revoke");
    world.send_expecting(&publisher, Method::DELETE, &revoke, Value::Null, 200).await;
    assert_eq!(world.read(&partner_key, &delegated).await.0, 403, "read after the revocation");
    assert_eq!(world.read(&publisher_key, "/content-owners/summary").await.0, 200);

    world.send_expecting(&publisher, Method::DELETE, "/auth/session", Value::Null, 204).await;
    assert_eq!(world.by(&publisher, Method::GET, "/api-keys", None).await.status, 401, "the session still works");
}
