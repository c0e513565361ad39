//! Serves identity and reads from fresh stores, with a clock that only the tests advance, and creates the organizations for many histories.
//!
//! Reports go directly to the writer, without a log, and many histories share each block. This module doesn't check reads.

use chrono::{DateTime, TimeDelta};
use identity_api::domains::{self, DomainSettings};
use identity_api::mail::MailSettings;
use identity_api::sign_in::SignInSettings;
use identity_api::webhooks::DeliveryLogSettings;
use reqwest::Method;
use schemas::click_tokens::LinkRelation;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, FetchedContent, OwnId};
use schemas::identity::{OrgType, Scope};
use schemas::ids::{OrgId, SessionId};
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION, RecordKind};
use schemas::report_keys::ReportKeys;
use schemas::secrets::{PlainApiKey, PlainClickToken};
use schemas::site::Site;
use serde_json::Value;
use serde_json::value::RawValue;
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use service_kit::settings::{ClickHouseSettings, WebhookSettings};
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestServer, TestStores, eventually};
use stream_workers::EventLoader;
use tempfile::TempDir;
use tokio::sync::Mutex;
use uuid::Uuid;

/// 2026-01-01T00:00:00Z, the start of every history.
pub(super) const NEW_YEAR_MS: i64 = 1_767_225_600_000;
/// Clock step in microseconds. It is not a whole number of milliseconds, to test rounding.
pub(super) const STEP_US: i64 = 2 * 3_600 * 1_000_000 + 250;

pub(super) const OWNERS: usize = 3;
pub(super) const PARTNERS: usize = 2;

/// A report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) site: String,
    /// Reports by one organization on one host with the same number are copies, if they also have the same role or `joins` is false.
    pub(super) number: u128,
    /// Whether all observers' reports on one host with the same number belong to one fetch.
    pub(super) joins: bool,
    pub(super) org_id: Uuid,
    /// Whether a content owner reported it.
    pub(super) is_owners: bool,
    /// Time of acceptance in microseconds, unique for each report.
    pub(super) accepted_us: i64,
    pub(super) source_role: i8,
    /// Status of the response, or 0 if not reported.
    pub(super) status: u16,
    pub(super) event_type: String,
    pub(super) at: i64,
    pub(super) session_id: Uuid,
    pub(super) platform_id: Uuid,
    /// For events with another organization's click token: 1 for the token's URL, 2 for another URL on the same host, 3 for another host;
    /// otherwise 0.
    pub(super) link: i8,
    pub(super) agent_id: String,
    pub(super) content_url: String,
    pub(super) event_id: String,
    pub(super) data: String,
}

impl Observation {
    /// Returns the keys under which the report is stored.
    pub(super) fn keys(&self) -> ReportKeys {
        ReportKeys::new(OrgId(self.org_id), None, &self.log_event())
    }

    fn log_event(&self) -> LogEvent {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let (org, number) = (OrgId(self.org_id), self.number.to_string());
        let link = [None, Some(LinkRelation::Taken), Some(LinkRelation::Same), Some(LinkRelation::Other)];
        LogEvent {
            own_key: EventKey::own(&OwnId::Reported { org, id: &number }),
            correlation_key: self.joins.then(|| EventKey::correlation(&number, FetchedContent::Page(""))),
            id: text(&self.event_id),
            event_type: self.event_type.clone(),
            at_ms: self.at,
            source_role: SourceRole::from_code(self.source_role.unsigned_abs()),
            site: self.site.clone(),
            content_url: text(&self.content_url),
            content_id: None,
            content_telemetry_id: None,
            session_id: Some(SessionId(self.session_id)).filter(|session| !session.0.is_nil()),
            session_org: Some(OrgId(self.platform_id)).filter(|issuer| *issuer != org),
            link: link[usize::from(self.link.unsigned_abs())],
            link_site: String::new(),
            ctx_hash: None,
            kept_ctx_hash: None,
            agent_id: text(&self.agent_id),
            turn_id: None,
            output_id: None,
            crawler: Crawler { response_status: self.status, ..Crawler::default() }.known().map(Box::new),
            signature: None,
            data: RawValue::from_string(self.data.clone()).ok(),
            extra: None,
        }
    }

    /// Returns a log record with only this report.
    fn record(&self) -> LogRecord {
        LogRecord {
            v: RECORD_VERSION,
            org: OrgId(self.org_id),
            is_owners: self.is_owners,
            received_at_us: self.accepted_us,
            kind: RecordKind::Events,
            drain: None,
            session: None,
            named_sessions: Vec::new(),
            events: vec![self.log_event()],
            failed_fetches: Vec::new(),
            signature: None,
        }
    }
}

/// An organization with its API key.
pub(super) struct Organization {
    pub(super) id: OrgId,
    pub(super) key: String,
}

/// A history's organizations.
pub(super) struct HistoryOrganizations {
    pub(super) owners: Vec<Organization>,
    /// Platforms to which owners may delegate.
    pub(super) partners: Vec<Organization>,
    /// Reports events, and has one session with one click token.
    pub(super) agent: Organization,
    pub(super) session: Uuid,
    pub(super) token: String,
}

pub(super) type TestApp = service_kit::testing::TestApp<Histories>;

pub(super) struct Histories {
    clock: Clock,
    writer: Mutex<EventLoader>,
    /// Proxy between the reads and ClickHouse, if tests modify the requests.
    proxy: Option<ClickHouseProxy>,
    _server: TestServer,
    _mail: TempDir,
}

impl Histories {
    pub(super) async fn start() -> TestApp {
        Self::on(TestStores::fresh().await, None).await
    }

    /// Builds an app whose proxy enables the query condition cache for reads that disable it.
    pub(super) async fn with_query_condition_cache() -> TestApp {
        let stores = TestStores::fresh().await;
        let proxy = ClickHouseProxy::start_before(&stores.clickhouse.clickhouse_url, |request| {
            let settings = request.settings.iter_mut().filter(|(name, _)| name == "use_query_condition_cache");
            settings.for_each(|(_, value)| "1".clone_into(value));
        });
        let proxy = proxy.await;
        Self::on(stores, Some(proxy)).await
    }

    /// Returns the requests that reads sent to ClickHouse, without health and version checks.
    pub(super) fn clickhouse_reads(&self) -> Vec<ClickHouseRequest> {
        let asked = self.proxy.iter().flat_map(ClickHouseProxy::take_requests);
        let tables = ["FROM events", "FROM reports"];
        asked.filter(|request| tables.iter().any(|table| request.statement.contains(table))).collect()
    }

    async fn on(stores: TestStores, proxy: Option<ClickHouseProxy>) -> TestApp {
        let clock = Clock::manual(DateTime::from_timestamp_millis(NEW_YEAR_MS).unwrap());
        let mail = tempfile::tempdir().unwrap();
        // Thousands of keys are used from one address, without rate limits.
        let clients = ClientSettings { refused_rate: 0, ..ClientSettings::default() };
        let identity = identity_api::Settings {
            postgres: stores.postgres.clone(),
            secrets: SecretsSettings { secrets_key: Some(SecretsKey::generate()) },
            webhooks: WebhookSettings::default(),
            mail: MailSettings { mail_dir: Some(mail.path().to_owned()), ..MailSettings::default() },
            sign_in: SignInSettings {
                public_url: Some("http://telemetry.test".parse().unwrap()),
                identity_rate: 0,
                delegations_per_pair: 0,
                clients: clients.clone(),
                ..SignInSettings::default()
            },
            domains: DomainSettings::default(),
            delivery_log: DeliveryLogSettings::default(),
        };
        let url = proxy.as_ref().map_or(&*stores.clickhouse.clickhouse_url, ClickHouseProxy::url).to_owned();
        let read = ClickHouseSettings { clickhouse_url: url, ..stores.clickhouse.clone() };
        let query = query_api::Settings { clients, ..query_api::Settings::with_stores(read, stores.postgres.clone()) };
        let identity = identity_api::State::connect(&identity, clock.clone()).await.unwrap();
        let query = query_api::State::connect_at(&query, clock.clone()).await.unwrap();
        let router = query_api::routes(query).merge(identity_api::routes(identity));
        let writer = Mutex::new(EventLoader::connect(&stores.clickhouse).await.unwrap());
        let server = TestServer::start(http::with_request_middleware(router)).await;
        TestApp::new(stores, &server.url.clone(), Self { clock, writer, proxy, _server: server, _mail: mail })
    }

    /// Resets the clock to the beginning of a history.
    pub(super) fn reset_clock(&self) {
        let begin = DateTime::from_timestamp_millis(NEW_YEAR_MS).unwrap();
        self.clock.advance(begin - self.clock.now());
    }

    pub(super) fn advance_clock(&self) {
        self.clock.advance(TimeDelta::microseconds(STEP_US));
    }

    pub(super) fn now_us(&self) -> i64 {
        self.clock.now().timestamp_micros()
    }

    /// Stores reports as one block.
    pub(super) async fn insert(&self, reports: &[Observation]) {
        self.writer.lock().await.insert(reports.iter().map(Observation::record).collect()).await.unwrap();
    }
}

/// Creates the organizations, keys, sessions and tokens for this many histories.
pub(super) async fn create_organizations(app: &TestApp, histories: usize) -> Vec<HistoryOrganizations> {
    let party = |org_type: OrgType| (Organization { id: OrgId(Uuid::now_v7()), key: new_key(org_type) }, org_type);
    let mut parties = Vec::new();
    for _ in 0..histories {
        parties.extend((0..OWNERS).map(|_| party(OrgType::ContentOwner)));
        parties.extend((0..PARTNERS).map(|_| party(OrgType::Platform)));
        parties.push(party(OrgType::Agent));
    }
    insert_organizations(app, &parties).await;
    let mut parties = parties.into_iter().map(|(party, _)| party);
    let mut casts = Vec::new();
    for _ in 0..histories {
        let owners = parties.by_ref().take(OWNERS).collect();
        let partners = parties.by_ref().take(PARTNERS).collect();
        let agent = parties.next().unwrap();
        let (session, token) = (Uuid::new_v4(), PlainClickToken::generate().reveal().to_owned());
        casts.push(HistoryOrganizations { owners, partners, agent, session, token });
    }
    begin_sessions(app, &casts).await;
    casts
}

async fn insert_organizations(app: &TestApp, parties: &[(Organization, OrgType)]) {
    let ids: Vec<Uuid> = parties.iter().map(|(party, _)| party.id.0).collect();
    let kinds: Vec<&str> = parties.iter().map(|(_, org_type)| org_type.as_str()).collect();
    let founded = sqlx::query(
        "INSERT INTO organizations (id, name, org_type) SELECT id, 'party', kind FROM unnest($1::uuid[], $2::text[]) AS p (id, kind)",
    );
    founded.bind(&ids).bind(kinds).execute(&app.stores.pool).await.unwrap();
    let keys: Vec<PlainApiKey> = parties.iter().map(|(party, _)| PlainApiKey::parse(&party.key).unwrap()).collect();
    let hashes: Vec<Vec<u8>> = keys.iter().map(|key| key.hash().as_bytes().to_vec()).collect();
    let prefixes: Vec<String> = keys.iter().map(|key| key.visible_prefix().to_owned()).collect();
    let scopes: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let created = sqlx::query(
        "INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes) \
         SELECT id, 'test', prefix, hash, $4 FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS k (id, prefix, hash)",
    );
    created.bind(ids).bind(prefixes).bind(hashes).bind(scopes).execute(&app.stores.pool).await.unwrap();
}

async fn begin_sessions(app: &TestApp, casts: &[HistoryOrganizations]) {
    let agents: Vec<Uuid> = casts.iter().map(|cast| cast.agent.id.0).collect();
    let sessions: Vec<Uuid> = casts.iter().map(|cast| cast.session).collect();
    let tokens: Vec<Vec<u8>> =
        casts.iter().map(|cast| PlainClickToken::presented(&cast.token).hash().as_bytes().to_vec()).collect();
    let begun = sqlx::query(
        "INSERT INTO sessions (organization_id, session_id, privacy_level, started_at) \
         SELECT agent, session, 3, '2026-01-01T00:00:00Z' FROM unnest($1::uuid[], $2::uuid[]) AS s (agent, session)",
    );
    begun.bind(&agents).bind(&sessions).execute(&app.stores.pool).await.unwrap();
    let made = sqlx::query(
        "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
         SELECT hash, agent, session, 'https://a.test/', '2026-01-01T00:00:00Z', '2026-03-01T00:00:00Z' \
         FROM unnest($1::bytea[], $2::uuid[], $3::uuid[]) AS t (hash, agent, session)",
    );
    made.bind(tokens).bind(agents).bind(sessions).execute(&app.stores.pool).await.unwrap();
}

/// Verifies a domain as an operator would. Returns whether that succeeded.
pub(super) async fn verify(app: &TestApp, owner: &Organization, domain: &str) -> bool {
    let site = Site::from_domain(domain).unwrap();
    domains::ensure_verified(&app.stores.pool, owner.id, &site, app.clock.now()).await.is_ok()
}

/// Reads, and retries on 503, which an overloaded store causes.
pub(super) async fn get(app: &TestApp, key: &str, path: &str, query: &[(&str, String)]) -> (u16, String) {
    let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let read = async || Some(app.read(key, path, &query).await).filter(|answer| answer.status != 503);
    let answer = eventually("the service returns no 503", read).await;
    (answer.status, answer.raw)
}

pub(super) async fn change(app: &TestApp, method: Method, key: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = app.send(method, key, &format!("/api/v1/identity{path}"), body.to_string()).await;
    (answer.status, answer.body)
}

fn new_key(org_type: OrgType) -> String {
    PlainApiKey::generate(org_type).reveal().to_owned()
}
