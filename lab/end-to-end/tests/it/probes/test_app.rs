//! An organization with data of every kind, and callers that can't access it.
//!
//! Every text in the organization contains the word `planted`, by which the probes recognize leaks.

use crate::demo::{Demo, send_request};
use chrono::TimeDelta;
use reqwest::Method;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use schemas::secrets::PlainClickToken;
use serde_json::{Value, json};
use service_kit::testing::{Seed, TestDns};
use uuid::Uuid;

const IDENTITY: &str = "/api/v1/identity";
const STATEMENTS: &str = "/content-owners/statements";
/// Rate limits are off, because they would hide other responses.
const UNLIMITED: [&str; 9] = [
    "TELEMETRY_IDENTITY_BYTES",
    "TELEMETRY_IDENTITY_RATE",
    "TELEMETRY_DELEGATIONS_PER_PAIR",
    "TELEMETRY_SIGN_IN_RATE",
    "TELEMETRY_KEY_RATE",
    "TELEMETRY_CLICK_LOOKUP_RATE",
    "TELEMETRY_RESOLVE_RATE",
    "TELEMETRY_VERIFICATIONS_PER_MINUTE",
    "TELEMETRY_INVITES",
];

/// Kinds of ids, names and secrets that requests can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Organization,
    Key,
    Delegation,
    Request,
    DomainId,
    /// A verified domain's name.
    Domain,
    /// A registered but unverified domain's name.
    Registered,
    Drain,
    Manifest,
    /// An analyst account's id.
    Analyst,
    Webhook,
    SavedView,
    Membership,
    Invite,
    AccessRequest,
    Session,
    /// A statement's id.
    Statement,
    /// The id that a reporter gave an event on the organization's domain.
    Event,
    /// A click token of an organization that doesn't share sessions.
    Token,
    /// An expired click token.
    ExpiredToken,
}

/// A caller's credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallerKind {
    OwnersKey,
    PlatformsKey,
    AgentsKey,
    /// API key of an agent that reports with others' session ids.
    ReportersKey,
    /// API key of a partner that an operator trusts.
    PartnersKey,
    /// Session of an owner in another organization.
    Member,
    /// Session of a person who isn't in any organization.
    NonMember,
}

pub(super) struct TestApp {
    pub(super) demo: Demo,
    /// An existing id or name of each kind.
    pub(super) theirs: Vec<(Kind, String)>,
    /// Each caller's header and value.
    pub(super) callers: Vec<(CallerKind, &'static str, String)>,
    /// The organization of `Member`.
    pub(super) own: OrgId,
    victim: String,
    _dns: TestDns,
}

impl TestApp {
    pub(super) async fn start() -> Self {
        let dns = TestDns::start(|_| Vec::new()).await;
        let unlimited = UNLIMITED.map(|name| (name, "0".to_owned()));
        let many = ("TELEMETRY_DOMAINS_PER_ORGANIZATION", "4000000000".to_owned());
        let settings: Vec<_> = unlimited.into_iter().chain([many, ("TELEMETRY_DNS_SERVER", dns.address.to_string())]).collect();
        let demo = Demo::start_with(&settings).await;
        let (callers, own) = callers(&demo).await;
        let seed = Seed(&demo.stores.pool);
        let owner = seed.org("Planted Press", OrgType::ContentOwner).await.id;
        let victim = seed.key(owner, OrgType::ContentOwner, &Scope::ALL).await;
        let mut scene = Self { demo, theirs: Vec::new(), callers, own, victim, _dns: dns };
        scene.plant_identity(owner).await;
        scene.plant_sessions().await;
        scene.plant_statement().await;
        scene
    }

    fn note(&mut self, kind: Kind, value: &Value) {
        self.theirs.push((kind, value.as_str().unwrap().to_owned()));
    }

    /// Creates something with the organization's own key.
    async fn create(&self, key: &str, path: &str, body: &Value) -> Value {
        let request = self.demo.client.post(self.demo.url(&format!("{IDENTITY}{path}"))).header("x-api-key", key);
        let made = send_request(request.header("content-type", "application/json").body(body.to_string())).await;
        assert_eq!(made.status, 201, "{path}: {}", made.body);
        made.body
    }

    async fn plant_identity(&mut self, owner: OrgId) {
        let key = self.victim.clone();
        let seed = Seed(&self.demo.stores.pool);
        seed.verify(owner, "planted.example").await;
        let (granted, asking) = ("Planted Network", "Planted Partner");
        let (granted, asking) = (seed.org(granted, OrgType::Platform).await, seed.org(asking, OrgType::Platform).await.id);
        let asking = seed.key(asking, OrgType::Platform, &Scope::ALL).await;
        let person = seed.session("person@planted.example", TimeDelta::days(1)).await;
        let member: Uuid = sqlx::query_scalar(
            "INSERT INTO memberships (organization_id, user_id, role) \
             SELECT $1, id, 'owner' FROM users WHERE email = 'person@planted.example' RETURNING user_id",
        )
        .bind(owner.0)
        .fetch_one(&self.demo.stores.pool)
        .await
        .unwrap();
        let domain: Uuid = sqlx::query_scalar("SELECT id FROM domains WHERE domain = 'planted.example'")
            .fetch_one(&self.demo.stores.pool)
            .await
            .unwrap();
        let created = self.create(&key, "/api-keys", &json!({"name": "planted"})).await;
        let analyst: Uuid = sqlx::query_scalar(
            "INSERT INTO analyst_accounts (organization_id, login, name, password_hash, created_by_kind, created_at) \
             VALUES ($1, 'telemetry_analyst_planted00000', 'planted', sha256('planted'), 'system', now()) RETURNING id",
        )
        .bind(owner.0)
        .fetch_one(&self.demo.stores.pool)
        .await
        .unwrap();
        let registered = self.create(&key, "/domains", &json!({"domain": "planted-not-verified.example"})).await;
        let delegation = self.create(&key, "/delegations", &json!({"grantee_org_id": granted.id})).await;
        let request = self.create(&asking, "/delegation-requests", &json!({"domain": "planted.example"})).await;
        let hook = json!({"url": "https://planted.example/hook", "event_types": ["delegation.created"]});
        let hook = self.create(&key, "/webhooks", &hook).await;
        let drain = self.create(&key, "/drains", &json!({"name": "planted", "provider": "cloudflare"})).await;
        let manifest = json!({"url": "https://planted.example/.well-known/content-telemetry.json"});
        let manifest = self.create(&key, "/manifests", &manifest).await;
        let view = self.create(&key, "/saved-views", &json!({"name": "planted", "page": "overview"})).await;
        let send = async |path: &str, body: Value| {
            let request = self.demo.client.post(self.demo.url(&format!("{IDENTITY}{path}"))).bearer_auth(&person);
            let made = send_request(request.header("content-type", "application/json").body(body.to_string())).await;
            assert_eq!(made.status, 201, "{path}: {}", made.body);
            made.body
        };
        let members = format!("/organizations/{owner}/members");
        let invite = send(&members, json!({"email": "invited@planted.example", "role": "member"})).await;
        let wish = json!({"org_name": "Planted Wish", "admin_email": "admin@planted.example", "use_case": "planted"});
        let wish = send("/platform-access-requests", wish).await;
        for (kind, value) in [
            (Kind::Organization, json!(owner)),
            (Kind::Key, created["id"].clone()),
            (Kind::Delegation, delegation["id"].clone()),
            (Kind::Request, request["id"].clone()),
            (Kind::DomainId, json!(domain)),
            (Kind::Domain, json!("planted.example")),
            (Kind::Registered, registered["domain"].clone()),
            (Kind::Drain, drain["id"].clone()),
            (Kind::Manifest, manifest["id"].clone()),
            (Kind::Analyst, json!(analyst)),
            (Kind::Webhook, hook["id"].clone()),
            (Kind::SavedView, view["id"].clone()),
            (Kind::Membership, json!(member)),
            (Kind::Invite, invite["id"].clone()),
            (Kind::AccessRequest, wish["id"].clone()),
        ] {
            self.note(kind, &value);
        }
    }

    async fn plant_sessions(&mut self) {
        let agent = Seed(&self.demo.stores.pool).org("Planted Agent", OrgType::Agent).await;
        let start = json!({"agent_id": "planted", "external_session_id": "planted", "privacy_level": "full"});
        let request = self.demo.client.post(self.demo.url("/sessions/start")).header("x-api-key", &agent.key);
        let started = send_request(request.header("content-type", "application/json").body(start.to_string())).await;
        let session = started.body["session_id"].clone();
        let event_id = Uuid::new_v4().to_string();
        let event = json!({"session_id": session, "events": [{"id": event_id, "type": "content_cited", "timestamp": "2026-11-01T10:00:00Z",
            "content_url": "https://planted.example/page", "data": {"citation_type": "planted"}}]});
        assert_eq!(self.demo.post(&agent.key, &event).await.status, 201);
        for (kind, lifetime) in [(Kind::Token, 30), (Kind::ExpiredToken, -1)] {
            let token = PlainClickToken::generate();
            sqlx::query(
                "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
                 VALUES ($1, $2, $3, 'https://planted.example/', now() - interval '2 days', now() + make_interval(days => $4))",
            )
            .bind(token.hash().as_bytes().as_slice())
            .bind(agent.id.0)
            .bind(session.as_str().unwrap().parse::<Uuid>().unwrap())
            .bind(lifetime)
            .execute(&self.demo.stores.pool)
            .await
            .unwrap();
            self.note(kind, &json!(token.reveal()));
        }
        self.note(Kind::Session, &session);
        self.note(Kind::Event, &json!(event_id));
    }

    async fn plant_statement(&mut self) {
        let request = self.demo.client.post(self.demo.url(STATEMENTS)).header("x-api-key", &self.victim);
        let closed = send_request(request.json(&json!({"period": "2026-10"}))).await;
        assert_eq!(closed.status, 201, "{}", closed.body);
        self.note(Kind::Statement, &closed.body["id"]);
    }

    pub(super) fn theirs(&self, kind: Kind) -> &str {
        let (_, value) = self.theirs.iter().find(|(planted, _)| *planted == kind).unwrap();
        value
    }

    /// Returns everything that the organization itself can read about the planted data. Probes must not change it.
    pub(super) async fn holdings(&self) -> Vec<Value> {
        let mut holdings = Vec::new();
        let identity = [
            "/analysts",
            "/api-keys",
            "/delegations",
            "/delegation-requests",
            "/domains",
            "/drains",
            "/manifests",
            "/webhooks",
            "/settings",
        ];
        for path in identity.map(|path| format!("{IDENTITY}{path}")).iter().map(String::as_str).chain([STATEMENTS]) {
            let url = self.demo.url(path);
            let mut read = send_request(self.demo.client.request(Method::GET, url).header("x-api-key", &self.victim)).await.body;
            // These reads update the time of the last use.
            read.as_array_mut().into_iter().flatten().for_each(|item| item["last_used_at"] = Value::Null);
            holdings.push(read);
        }
        holdings
    }
}

async fn callers(demo: &Demo) -> (Vec<(CallerKind, &'static str, String)>, OrgId) {
    let seed = Seed(&demo.stores.pool);
    let mut callers = Vec::new();
    for (who, org_type) in [
        (CallerKind::OwnersKey, OrgType::ContentOwner),
        (CallerKind::PlatformsKey, OrgType::Platform),
        (CallerKind::AgentsKey, OrgType::Agent),
        (CallerKind::ReportersKey, OrgType::Agent),
        (CallerKind::PartnersKey, OrgType::Platform),
    ] {
        let org = seed.org("Somebody", org_type).await.id;
        if who == CallerKind::PartnersKey {
            let trust = sqlx::query("UPDATE organizations SET is_trusted_partner = true WHERE id = $1");
            trust.bind(org.0).execute(&demo.stores.pool).await.unwrap();
        }
        if who == CallerKind::OwnersKey {
            seed.verify(org, "somebody.example").await;
        }
        callers.push((who, "x-api-key", seed.key(org, org_type, &Scope::ALL).await));
    }
    let own = seed.org("Own", OrgType::ContentOwner).await.id;
    for (who, email) in [(CallerKind::Member, "member@somebody.example"), (CallerKind::NonMember, "stranger@somebody.example")] {
        callers.push((who, "authorization", format!("Bearer {}", seed.session(email, TimeDelta::days(1)).await)));
    }
    let joined = sqlx::query(
        "INSERT INTO memberships (organization_id, user_id, role) SELECT $1, id, 'owner' FROM users WHERE email = 'member@somebody.example'",
    );
    joined.bind(own.0).execute(&demo.stores.pool).await.unwrap();
    (callers, own)
}
