//! S4, R5, C10: once a process has acknowledged a revocation, no process grants access to requests that start later. Tested under
//! continuous requests and without other requests. `TEST_ROUNDS` sets the number of rounds (1000 before a release).

use crate::demo::{Demo, DemoApp, wait_for_events};
use chrono::TimeDelta;
use reqwest::{Client, Method};
use schemas::ids::UserId;
use serde_json::{Value, json};
use service_kit::testing::{Seed, TestResponse, eventually, send_request, size};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Number of rounds by default: every kind, granted and revoked at either process.
const USUAL: usize = 4 * KINDS;
/// Number of kinds of revocable access.
const KINDS: usize = 6;
/// Number of consecutive reads from the other process after the response.
const UPON_THE_ANSWER: usize = 4;
const IDENTITY: &str = "/api/v1/identity";

/// A request that needs the access, for each process.
#[derive(Clone)]
struct ProtectedRequest {
    client: Client,
    urls: [String; 2],
    credentials: (&'static str, String),
}

impl ProtectedRequest {
    /// Returns the start time of the request if the process granted access. A response without data doesn't count as access.
    async fn granted_at(&self, process: usize) -> Option<Instant> {
        // Retry if an idle connection was closed, a store is overloaded or a rate limit was exceeded.
        let (started, status, body) = eventually("the service returns a final response", async || {
            let started = Instant::now();
            let response =
                self.client.get(&self.urls[process]).header(self.credentials.0, &self.credentials.1).send().await.ok()?;
            let status = response.status().as_u16();
            let body = response.json::<Value>().await.ok()?;
            (!matches!(status, 429 | 503)).then_some((started, status, body))
        })
        .await;
        assert!(matches!(status, 200 | 401 | 403 | 404), "{}: {status} {body}", self.urls[process]);
        let is_given = status == 200 && body["events"].as_array().is_none_or(|events| !events.is_empty());
        is_given.then_some(started)
    }

    /// Sends requests until stopped. Returns the start time of each successful request.
    async fn keep_requesting(self, process: usize, given: Arc<AtomicUsize>, stop: Arc<AtomicBool>) -> Vec<Instant> {
        let mut starts = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if let Some(started) = self.granted_at(process).await {
                starts.push(started);
                given.fetch_add(1, Ordering::Relaxed);
            }
        }
        starts
    }
}

/// Two processes at which access is granted and revoked.
struct TwoProcesses {
    demos: [DemoApp; 2],
    /// Uses a new connection for every change, because an idle connection might close at that moment, and changes aren't idempotent.
    changer: Client,
    token: String,
}

impl TwoProcesses {
    async fn start() -> Self {
        let unlimited = ["TELEMETRY_IDENTITY_RATE", "TELEMETRY_CLICK_LOOKUP_RATE", "TELEMETRY_DELEGATIONS_PER_PAIR"];
        let unlimited = unlimited.map(|name| (name, "0".to_owned()));
        let one = Demo::start_with(&unlimited).await;
        let two = Demo::start_second(&one, &unlimited).await;
        let changer = Client::builder().pool_max_idle_per_host(0).no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
        let mut pair = Self { demos: [one, two], changer, token: String::new() };
        pair.token = pair.cited().await;
        pair
    }

    /// Creates a citation in a session, and a click token that shows the session.
    async fn cited(&self) -> String {
        let demo = &self.demos[0];
        let agent = demo.env("AGENT_KEY");
        let session = demo.start_session(agent, &json!({})).await;
        let page = "https://www.example.com/page";
        let cited = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": page});
        let _ = demo.report(agent, &json!({"session_id": session, "events": [cited]})).await.expect(201);
        let token = demo.create_token(agent, &session, page).await;
        wait_for_events(demo, 1).await;
        token
    }

    /// Sends a change to a process, with a key or a session.
    async fn change(
        &self,
        process: usize,
        method: Method,
        path: &str,
        (header, value): (&str, String),
        body: &Value,
    ) -> TestResponse {
        let demo = &self.demos[process];
        let request = self.changer.request(method, demo.url(&format!("{IDENTITY}{path}"))).header(header, value);
        send_request(request.header("content-type", "application/json").body(body.to_string())).await
    }

    fn owner(&self) -> (&'static str, String) {
        by_key(self.demos[0].env("OWNER_KEY"))
    }

    fn agents_person(&self) -> (&'static str, String) {
        ("authorization", format!("Bearer {}", self.demos[0].env("AGENT_SESSION")))
    }

    fn protected_request(&self, path: &str, by: (&'static str, String)) -> ProtectedRequest {
        let urls = [self.demos[0].url(path), self.demos[1].url(path)];
        ProtectedRequest { client: self.demos[0].client.clone(), urls, credentials: by }
    }

    /// Creates a member in the owner's organization. Returns the member's reads and session.
    async fn member(&self, round: usize) -> (Vec<ProtectedRequest>, String, UserId) {
        let seed = Seed(&self.demos[0].stores.pool);
        let (owner, email) = (self.demos[0].env("OWNER_ORG_ID"), format!("{round}-{}@example.net", Uuid::new_v4()));
        let session = seed.session(&email, TimeDelta::days(1)).await;
        let person = seed.join(&email, owner.parse().unwrap()).await;
        let asks = ["/content-owners/summary?", "/content-owners/events?limit=1&", "/api/v1/identity/settings?"];
        let by = || ("authorization", format!("Bearer {session}"));
        (asks.map(|path| self.protected_request(&format!("{path}organization_id={owner}"), by())).into(), session, person)
    }

    async fn set(&self, process: usize, by: (&str, String), flag: &str, value: bool) {
        let set = self.change(process, Method::PATCH, "/settings", by, &json!({flag: value})).await;
        assert_eq!(set.status, 200, "{}", set.body);
    }

    /// Grants access at one process. Returns the requests that need it, and how to revoke it.
    async fn grant(&self, round: usize, at: usize) -> (Vec<ProtectedRequest>, Revocation) {
        let network = self.demos[0].env("NETWORK_KEY");
        match round % KINDS {
            0 => {
                let scopes = json!({"scopes": ["telemetry:read", "identity:read"]});
                let created = self.change(at, Method::POST, "/api-keys", self.owner(), &scopes).await.body;
                let key = created["key"].as_str().unwrap();
                let asks = ["/content-owners/summary", "/content-owners/events?limit=1", "/api/v1/identity/settings"];
                (
                    asks.map(|path| self.protected_request(path, by_key(key))).into(),
                    Revocation::Key(created["id"].as_str().unwrap().to_owned()),
                )
            }
            1 => {
                let grant = json!({"grantee_org_id": self.demos[0].env("NETWORK_ORG_ID")});
                let granted = self.change(at, Method::POST, "/delegations", self.owner(), &grant).await;
                assert_eq!(granted.status, 201, "{}", granted.body);
                let grantor = self.demos[0].env("OWNER_ORG_ID");
                let asks = ["/content-owners/summary?", "/content-owners/urls?limit=1&offset=1&"];
                let asks = asks.map(|path| self.protected_request(&format!("{path}delegated_from={grantor}"), by_key(network)));
                (asks.into(), Revocation::Delegation(granted.body["id"].as_str().unwrap().to_owned()))
            }
            2 => {
                let (asks, session, _) = self.member(round).await;
                (asks, Revocation::Session(session))
            }
            3 => {
                let (asks, _, person) = self.member(round).await;
                (asks, Revocation::Membership(person))
            }
            flag => {
                self.set(at, self.agents_person(), "share_sessions_via_click_tokens", true).await;
                self.set(at, self.owner(), "visible_in_click_token_lookups", true).await;
                let ask = self.protected_request(&format!("/ctx/{}", self.token), by_key(network));
                (vec![ask], if flag == 4 { Revocation::Sharing } else { Revocation::Showing })
            }
        }
    }

    async fn revoke(&self, taking: &Revocation, at: usize) {
        match taking {
            Revocation::Key(id) => {
                let revoked = self.change(at, Method::DELETE, &format!("/api-keys/{id}"), self.owner(), &Value::Null).await;
                assert_eq!(revoked.status, 200, "{}", revoked.body);
            }
            Revocation::Delegation(id) => {
                let revoked = self.change(at, Method::DELETE, &format!("/delegations/{id}"), self.owner(), &Value::Null).await;
                assert_eq!(revoked.status, 200, "{}", revoked.body);
            }
            Revocation::Session(session) => {
                let by = ("authorization", format!("Bearer {session}"));
                let ended = self.change(at, Method::DELETE, "/auth/session", by, &Value::Null).await;
                assert_eq!(ended.status, 204, "{}", ended.body);
            }
            Revocation::Membership(person) => {
                let path = format!("/organizations/{}/members/{person}", self.demos[0].env("OWNER_ORG_ID"));
                let by = ("authorization", format!("Bearer {}", self.demos[0].env("OWNER_SESSION")));
                let removed = self.change(at, Method::DELETE, &path, by, &Value::Null).await;
                assert_eq!(removed.status, 204, "{}", removed.body);
            }
            Revocation::Sharing => self.set(at, self.agents_person(), "share_sessions_via_click_tokens", false).await,
            Revocation::Showing => self.set(at, self.owner(), "visible_in_click_token_lookups", false).await,
        }
    }

    /// Revokes access during continuous requests to both processes.
    async fn revoke_under_load(&self, round: usize, given_at: usize, taken_at: usize) {
        let (asks, taking) = self.grant(round, given_at).await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut asking = Vec::new();
        for process in 0..2 {
            let given = Arc::new(AtomicUsize::new(0));
            let ask = asks[round / KINDS % asks.len()].clone();
            asking.push((tokio::spawn(ask.keep_requesting(process, Arc::clone(&given), Arc::clone(&stop))), given));
        }
        for (_, given) in &asking {
            eventually("access is granted", || async { (given.load(Ordering::Relaxed) > 0).then_some(()) }).await;
        }
        self.revoke(&taking, taken_at).await;
        let taken = Instant::now();
        for ask in &asks {
            let (one, two) = tokio::join!(ask.granted_at(0), ask.granted_at(1));
            let is_given = (one.is_some(), two.is_some());
            assert_eq!(is_given, (false, false), "round {round}: {taking:?} taken at {taken_at}: {}", ask.urls[0]);
        }
        stop.store(true, Ordering::Relaxed);
        for (starts, _) in asking {
            let late = starts.await.unwrap().into_iter().filter(|started| *started > taken).count();
            assert_eq!(late, 0, "round {round}: {taking:?} taken at {taken_at}");
        }
    }

    /// Revokes access while nothing else is requested, so that the other process's cache entry is as young as possible at the next request.
    /// With many concurrent requests, each would take longer than a short cache lifetime.
    async fn revoke_when_idle(&self, round: usize, taken_at: usize) {
        let (asks, taking) = self.grant(round, taken_at).await;
        let (ask, other) = (&asks[round / KINDS % asks.len()], 1 - taken_at);
        eventually("access is granted", || ask.granted_at(other)).await;
        self.revoke(&taking, taken_at).await;
        for nth in 0..UPON_THE_ANSWER {
            let given = ask.granted_at(other).await;
            assert!(given.is_none(), "round {round}: {taking:?} taken at {taken_at}, read {nth}: {}", ask.urls[other]);
        }
    }
}

fn by_key(key: &str) -> (&'static str, String) {
    ("x-api-key", key.to_owned())
}

#[derive(Debug)]
enum Revocation {
    Key(String),
    Delegation(String),
    Session(String),
    Membership(UserId),
    Sharing,
    Showing,
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_revocations_apply_immediately_in_every_process() {
    let pair = TwoProcesses::start().await;
    for round in 0..size("TEST_ROUNDS", USUAL) {
        pair.revoke_under_load(round, round / KINDS % 2, round / KINDS / 2 % 2).await;
        for taken_at in 0..2 {
            pair.revoke_when_idle(round, taken_at).await;
        }
    }
}
