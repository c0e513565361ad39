//! An organization with data of every kind, and callers that can't access it.
//!
//! Every text in the organization contains the word `planted`, by which the probes recognize leaks.

use crate::demo::{Demo, DemoApp};
use chrono::TimeDelta;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use schemas::secrets::PlainClickToken;
use serde_json::{Value, json};
use service_kit::testing::{Credentials, TestDns};
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

pub(super) type TestApp = service_kit::testing::TestApp<Planted>;

pub(super) struct Planted {
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

pub(super) async fn start() -> TestApp {
    let dns = TestDns::start(|_| Vec::new()).await;
    let unlimited = UNLIMITED.map(|name| (name, "0".to_owned()));
    let many = ("TELEMETRY_DOMAINS_PER_ORGANIZATION", "4000000000".to_owned());
    let settings: Vec<_> = unlimited.into_iter().chain([many, ("TELEMETRY_DNS_SERVER", dns.address.to_string())]).collect();
    let demo = Demo::start_with(&settings).await;
    let (callers, own) = callers(&demo).await;
    let owner = demo.seed().org("Planted Press", OrgType::ContentOwner).await.id;
    let victim = demo.seed().key(owner, OrgType::ContentOwner, &Scope::ALL).await;
    let url = demo.url("");
    let planted = Planted { demo: demo.service, theirs: Vec::new(), callers, own, victim, _dns: dns };
    let mut scene = TestApp::new(demo.stores, &url, planted);
    plant_identity(&mut scene, owner).await;
    plant_sessions(&mut scene).await;
    let closed = scene.post(&scene.victim, STATEMENTS, &json!({"period": "2026-10"})).await.expect(201);
    scene.note(Kind::Statement, &closed.body["id"]);
    scene
}

impl Planted {
    fn note(&mut self, kind: Kind, value: &Value) {
        self.theirs.push((kind, value.as_str().unwrap().to_owned()));
    }

    pub(super) fn theirs(&self, kind: Kind) -> &str {
        let (_, value) = self.theirs.iter().find(|(planted, _)| *planted == kind).unwrap();
        value
    }
}

/// Creates something in identity-api.
async fn create(scene: &TestApp, by: Credentials<'_>, path: &str, body: &Value) -> Value {
    scene.post(by, &format!("{IDENTITY}{path}"), body).await.expect(201).body
}

async fn plant_identity(scene: &mut TestApp, owner: OrgId) {
    let key = scene.victim.clone();
    let seed = scene.seed();
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
    .fetch_one(&scene.stores.pool)
    .await
    .unwrap();
    let domain: Uuid = sqlx::query_scalar("SELECT id FROM domains WHERE domain = 'planted.example'")
        .fetch_one(&scene.stores.pool)
        .await
        .unwrap();
    let created = create(scene, Credentials::Key(&key), "/api-keys", &json!({"name": "planted"})).await;
    let analyst: Uuid = sqlx::query_scalar(
        "INSERT INTO analyst_accounts (organization_id, login, name, password_hash, created_by_kind, created_at) \
         VALUES ($1, 'telemetry_analyst_planted00000', 'planted', sha256('planted'), 'system', now()) RETURNING id",
    )
    .bind(owner.0)
    .fetch_one(&scene.stores.pool)
    .await
    .unwrap();
    let registered = create(scene, Credentials::Key(&key), "/domains", &json!({"domain": "planted-not-verified.example"})).await;
    let delegation = create(scene, Credentials::Key(&key), "/delegations", &json!({"grantee_org_id": granted.id})).await;
    let request = create(scene, Credentials::Key(&asking), "/delegation-requests", &json!({"domain": "planted.example"})).await;
    let hook = json!({"url": "https://planted.example/hook", "event_types": ["delegation.created"]});
    let hook = create(scene, Credentials::Key(&key), "/webhooks", &hook).await;
    let drain = create(scene, Credentials::Key(&key), "/drains", &json!({"name": "planted", "provider": "cloudflare"})).await;
    let manifest = json!({"url": "https://planted.example/.well-known/content-telemetry.json"});
    let manifest = create(scene, Credentials::Key(&key), "/manifests", &manifest).await;
    let view = create(scene, Credentials::Key(&key), "/saved-views", &json!({"name": "planted", "page": "overview"})).await;
    let send = async |path: &str, body: Value| create(scene, Credentials::Session(&person), path, &body).await;
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
        scene.note(kind, &value);
    }
}

async fn plant_sessions(scene: &mut TestApp) {
    let agent = scene.seed().org("Planted Agent", OrgType::Agent).await;
    let start = json!({"agent_id": "planted", "external_session_id": "planted", "privacy_level": "full"});
    let session = json!(scene.start_session(&agent.key, &start).await);
    let event_id = Uuid::new_v4().to_string();
    let event = json!({"session_id": session, "events": [{"id": event_id, "type": "content_cited", "timestamp": "2026-11-01T10:00:00Z",
        "content_url": "https://planted.example/page", "data": {"citation_type": "planted"}}]});
    assert_eq!(scene.report(&agent.key, &event).await.status, 201);
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
        .execute(&scene.stores.pool)
        .await
        .unwrap();
        scene.note(kind, &json!(token.reveal()));
    }
    scene.note(Kind::Session, &session);
    scene.note(Kind::Event, &json!(event_id));
}

/// Returns everything that the organization itself can read about the planted data. Probes must not change it.
pub(super) async fn holdings(scene: &TestApp) -> Vec<Value> {
    let mut holdings = Vec::new();
    let lists = "analysts api-keys delegations delegation-requests domains drains manifests webhooks settings".split(' ');
    for path in lists.map(|list| format!("{IDENTITY}/{list}")).chain([STATEMENTS.to_owned()]) {
        let mut read = scene.get(&scene.victim, &path).await.body;
        // These reads update the time of the last use.
        read.as_array_mut().into_iter().flatten().for_each(|item| item["last_used_at"] = Value::Null);
        holdings.push(read);
    }
    holdings
}

async fn callers(demo: &DemoApp) -> (Vec<(CallerKind, &'static str, String)>, OrgId) {
    let seed = demo.seed();
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
    seed.own("member@somebody.example", &[own]).await;
    (callers, own)
}
