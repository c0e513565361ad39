//! Test support: a running query-api with its own stores, and reports to store in them.

use clickhouse::Client;
use local::test_servers::ClickHouse;
use query_api::{ReadSettings, ResolveSettings, Settings, State, router};
use reqwest::Method;
use schemas::click_tokens::LinkRelation;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, FetchedContent, OwnId};
use schemas::ids::{DrainId, OrgId, SessionId};
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION, RecordKind};
use schemas::report_keys::ReportKeys;
use schemas::shard::Shard;
use schemas::site::Site;
use serde_json::value::RawValue;
use service_kit::databases;
use service_kit::roles::Role;
use service_kit::settings::{BotSettings, ClickHouseSettings};
use service_kit::testing::{TestServer, TestStores, send_request, size};
use std::collections::BTreeSet;
use std::path::Path;
use store::facts::CONTENT_RETRIEVED;
use stream_workers::EventLoader;
use tokio::sync::Mutex;
use uuid::Uuid;

/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;

/// One report, with its click token resolved.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Reversed host; empty if it can't be verified.
    pub(crate) site: String,
    /// Reports of fetches with the same key on one host belong to one fetch. One organization's other reports with the same key on one host
    /// are copies of one report.
    pub(crate) event_key: u128,
    /// Distinguishes one observer's reports with the same `event_key`.
    pub(crate) own: u64,
    pub(crate) org_id: Uuid,
    pub(crate) drain: Option<DrainId>,
    /// Acceptance by the gateway in microseconds since 1970; by default the event's time.
    pub(crate) accepted_us: Option<i64>,
    pub(crate) source_role: i8,
    pub(crate) event_type: String,
    pub(crate) at: i64,
    /// Nil if there is no session.
    pub(crate) session_id: Uuid,
    /// The click token's issuer, or else the reporter.
    pub(crate) platform_id: Uuid,
    /// Stored code of the link in `reports`: 1 taken, 2 same, 3 other.
    pub(crate) link: i8,
    /// Host of the token's link, if the click is on another host.
    pub(crate) link_site: String,
    pub(crate) agent_id: String,
    pub(crate) content_url: String,
    pub(crate) content_telemetry_id: String,
    pub(crate) event_id: String,
    pub(crate) turn_id: String,
    pub(crate) output_id: String,
    pub(crate) data: String,
    pub(crate) extra: String,
    pub(crate) crawler: Option<Crawler>,
}

/// Returns a fetch on `host` at the new year, reported without a role by organization 1.
pub(crate) fn fetch_on(host: &str, event_key: u128) -> Observation {
    Observation {
        site: Site::from_domain(host).unwrap().as_str().to_owned(),
        event_key,
        own: 0,
        org_id: Uuid::from_u128(1),
        drain: None,
        accepted_us: None,
        source_role: 0,
        event_type: CONTENT_RETRIEVED.to_owned(),
        at: NEW_YEAR_MS,
        session_id: Uuid::nil(),
        platform_id: Uuid::from_u128(1),
        link: 0,
        link_site: String::new(),
        agent_id: String::new(),
        content_url: format!("https://{host}/"),
        content_telemetry_id: String::new(),
        event_id: String::new(),
        turn_id: String::new(),
        output_id: String::new(),
        data: String::new(),
        extra: String::new(),
        crawler: None,
    }
}

impl Observation {
    pub(crate) fn role(self, role: SourceRole) -> Self {
        let code = SourceRole::code(Some(role));
        Self { source_role: i8::try_from(code).unwrap(), ..self }
    }

    pub(crate) fn by(self, org: u128) -> Self {
        self.by_org(OrgId(Uuid::from_u128(org)))
    }

    pub(crate) fn by_org(self, org: OrgId) -> Self {
        Self { org_id: org.0, platform_id: org.0, ..self }
    }

    /// Adds another organization's click token; `link` is the stored code.
    pub(crate) fn bound(self, issuer: OrgId, link: i8) -> Self {
        Self { platform_id: issuer.0, link, ..self }
    }

    pub(crate) fn session(self, session: u128) -> Self {
        Self { session_id: Uuid::from_u128(session), ..self }
    }

    pub(crate) fn agent(self, agent_id: &str) -> Self {
        Self { agent_id: agent_id.to_owned(), ..self }
    }

    pub(crate) fn named(self, event_type: &str) -> Self {
        Self { event_type: event_type.to_owned(), ..self }
    }

    pub(crate) fn url(self, url: &str) -> Self {
        Self { content_url: url.to_owned(), ..self }
    }

    pub(crate) fn id(self, event_id: &str) -> Self {
        Self { event_id: event_id.to_owned(), ..self }
    }

    pub(crate) fn data(self, data: &str) -> Self {
        Self { data: data.to_owned(), ..self }
    }

    pub(crate) fn crawler(self, crawler: Crawler) -> Self {
        Self { crawler: Some(crawler), ..self }
    }

    /// Another report by the same observer with the same correlation id.
    pub(crate) fn again(self, own: u64) -> Self {
        Self { own, ..self }
    }

    /// Sets the time, in milliseconds after the new year.
    pub(crate) fn after(self, ms: i64) -> Self {
        Self { at: NEW_YEAR_MS + ms, ..self }
    }

    /// Sets the acceptance, in milliseconds after the new year.
    pub(crate) fn accepted(self, ms: i64) -> Self {
        Self { accepted_us: Some((NEW_YEAR_MS + ms) * 1_000), ..self }
    }

    pub(crate) fn accepted_us(&self) -> i64 {
        self.accepted_us.unwrap_or(self.at * 1_000)
    }

    pub(crate) fn org(&self) -> OrgId {
        OrgId(self.org_id)
    }

    pub(crate) fn role_reported(&self) -> Option<SourceRole> {
        SourceRole::from_code(self.source_role.unsigned_abs())
    }

    /// Returns the keys under which the report is stored.
    pub(crate) fn keys(&self) -> ReportKeys {
        ReportKeys::new(self.org(), self.drain, &self.log_event())
    }

    /// Returns its event's key as an id.
    pub(crate) fn key_id(&self) -> String {
        Uuid::from_u128(self.keys().event().0).to_string()
    }

    fn log_event(&self) -> LogEvent {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let raw = |text: &String| (!text.is_empty()).then(|| RawValue::from_string(text.clone()).unwrap());
        let id = format!("{} {}", self.event_key, self.own);
        // Observers may report different URLs, because the gateway determines which reports belong together.
        let joins = || EventKey::correlation(&self.event_key.to_string(), FetchedContent::Page(""));
        LogEvent {
            own_key: EventKey::own(&OwnId::Reported { org: self.org(), id: &id }),
            correlation_key: (self.event_type == CONTENT_RETRIEVED).then(joins),
            id: text(&self.event_id),
            event_type: self.event_type.clone(),
            at_ms: self.at,
            source_role: self.role_reported(),
            site: self.site.clone(),
            content_url: text(&self.content_url),
            content_id: None,
            content_telemetry_id: text(&self.content_telemetry_id),
            session_id: Some(SessionId(self.session_id)).filter(|session| !session.0.is_nil()),
            session_org: Some(OrgId(self.platform_id)).filter(|issuer| issuer.0 != self.org_id),
            link: [None, Some(LinkRelation::Taken), Some(LinkRelation::Same), Some(LinkRelation::Other)]
                [usize::try_from(self.link).unwrap()],
            link_site: self.link_site.clone(),
            ctx_hash: None,
            kept_ctx_hash: None,
            agent_id: text(&self.agent_id),
            turn_id: text(&self.turn_id),
            output_id: text(&self.output_id),
            crawler: self.crawler.clone().map(Box::new),
            signature: None,
            data: raw(&self.data),
            extra: raw(&self.extra),
        }
    }

    /// Returns a request with only this report.
    pub(crate) fn record(&self) -> LogRecord {
        Self::request(std::slice::from_ref(self))
    }

    /// Returns a request with one organization's reports.
    fn request(reports: &[Self]) -> LogRecord {
        let first = &reports[0];
        LogRecord {
            v: RECORD_VERSION,
            org: first.org(),
            is_owners: false,
            received_at_us: first.accepted_us(),
            kind: if first.drain.is_some() { RecordKind::Drain } else { RecordKind::Events },
            drain: first.drain,
            session: None,
            named_sessions: Vec::new(),
            events: reports.iter().map(Self::log_event).collect(),
            failed_fetches: Vec::new(),
            signature: None,
        }
    }
}

/// Makes acceptance times unique, because two copies with the same time would have to be equal.
pub(crate) fn accept_apart(rows: &mut [Observation]) {
    let mut used = BTreeSet::new();
    for row in rows {
        let identity = row.keys().identity;
        while !used.insert((identity, row.accepted_us())) {
            row.accepted_us = Some(row.accepted_us() + 1);
        }
    }
}

pub(crate) type TestApp = service_kit::testing::TestApp<Query>;

pub(crate) struct Query {
    pub(crate) server: TestServer,
    shards: Vec<Store>,
    /// The shards' writers, created for the first report.
    loaders: Mutex<Vec<EventLoader>>,
    /// Separate servers, if there are several shards.
    servers: Option<ShardServers>,
}

struct Store {
    shard: Shard,
    settings: ClickHouseSettings,
    client: Client,
}

impl Store {
    fn all(shards: &[ClickHouseSettings]) -> Vec<Self> {
        let shard = |number: usize| format!("{number}/{}", shards.len()).parse().unwrap();
        let store = |(n, settings): (usize, &ClickHouseSettings)| Self {
            shard: shard(n + 1),
            settings: settings.clone(),
            client: databases::clickhouse(settings).unwrap(),
        };
        shards.iter().enumerate().map(store).collect()
    }
}

impl Query {
    pub(crate) async fn start() -> TestApp {
        Self::with(ResolveSettings::default()).await
    }

    pub(crate) async fn with(resolving: ResolveSettings) -> TestApp {
        Self::set(resolving, BotSettings::default()).await
    }

    pub(crate) async fn naming_bots_by(file: &Path) -> TestApp {
        Self::set(ResolveSettings::default(), BotSettings { bots_file: Some(file.to_owned()) }).await
    }

    async fn set(resolving: ResolveSettings, bots: BotSettings) -> TestApp {
        match size("TEST_SHARDS", 1) {
            1 => Self::serving(TestStores::fresh().await, resolving, bots).await,
            count => {
                let app = over_shards(&TestStores::with_topics().await, start_shards(count).await).await;
                let other = Self::serving(app.stores.clone(), resolving, bots).await;
                Self::served_by(app, other.service.server)
            }
        }
    }

    pub(crate) async fn limited(reads: ReadSettings) -> TestApp {
        let app = Self::start().await;
        let settings = Settings { reads, ..Self::settings(&app) };
        Self::served_by(app, serve(&settings).await)
    }

    /// Returns the settings of a service that uses these stores.
    pub(crate) fn settings(app: &TestApp) -> Settings {
        Settings::with_stores(app.stores.clickhouse.clone(), app.stores.postgres.clone())
    }

    /// Reads ClickHouse through another address.
    pub(crate) async fn through(app: TestApp, clickhouse: ClickHouseSettings) -> TestApp {
        let server = serve(&Settings { clickhouse, ..Self::settings(&app) }).await;
        Self::served_by(app, server)
    }

    /// Starts an app on a single server, whatever `TEST_SHARDS` is.
    pub(crate) async fn on_one_server() -> TestApp {
        Self::serving(TestStores::fresh().await, ResolveSettings::default(), BotSettings::default()).await
    }

    async fn serving(stores: TestStores, resolving: ResolveSettings, bots: BotSettings) -> TestApp {
        let own = stores.signed_in_as(Role::Query);
        let settings = Settings { resolving, bots, ..Settings::with_stores(own.clickhouse, own.postgres) };
        Self::on(stores, serve(&settings).await)
    }

    /// Returns an app with these stores and a running server.
    pub(crate) fn on(stores: TestStores, server: TestServer) -> TestApp {
        let shards = Store::all(std::slice::from_ref(&stores.clickhouse));
        TestApp::new(stores, &server.url.clone(), Self { server, shards, loaders: Mutex::default(), servers: None })
    }

    pub(crate) fn served_by(mut app: TestApp, server: TestServer) -> TestApp {
        app.server = server;
        let url = app.server.url.clone();
        app.served_at(&url)
    }

    /// Stores further reports in this ClickHouse.
    pub(crate) fn store_in(&mut self, store: &ClickHouseSettings) {
        self.shards = Store::all(std::slice::from_ref(store));
        self.loaders = Mutex::default();
    }

    /// Kills the server of a shard, counted from 0.
    pub(crate) fn kill_shard(&mut self, shard: usize) {
        self.servers.as_mut().unwrap().servers[shard].kill_9();
    }

    pub(crate) fn restart_shard(&mut self, shard: usize) {
        self.servers.as_mut().unwrap().servers[shard].restart().unwrap();
    }

    /// The store of the reports, or the first shard.
    pub(crate) fn clickhouse(&self) -> &Client {
        &self.shards[0].client
    }

    /// Stores reports as the writer does, as one block.
    pub(crate) async fn insert(&self, reports: &[Observation]) {
        self.store(&reports.iter().map(Observation::record).collect::<Vec<_>>()).await;
    }

    /// Stores requests as one block. All reports in a request are from one organization.
    pub(crate) async fn insert_requests(&self, requests: &[Vec<Observation>]) {
        self.store(&requests.iter().map(|reports| Observation::request(reports)).collect::<Vec<_>>()).await;
    }

    /// Stores records as the writer does, as one block.
    pub(crate) async fn store(&self, records: &[LogRecord]) {
        let mut loaders = self.loaders.lock().await;
        if loaders.is_empty() {
            for store in &self.shards {
                loaders.push(EventLoader::connect_shard(&store.settings, store.shard).await.unwrap());
            }
        }
        for loader in loaders.iter_mut() {
            loader.insert(records.to_vec()).await.unwrap();
        }
    }

    /// Replaces the writer by a new one.
    pub(crate) async fn restart_writer(&self) {
        self.loaders.lock().await.clear();
    }

    pub(crate) async fn empty(&self) {
        self.restart_writer().await;
        for table in ["events", "reports", "failed_fetches", "sites", "progress", "writers"] {
            self.command(&format!("TRUNCATE TABLE {table}")).await;
        }
    }

    /// Stops merges, so every block stays a separate part.
    pub(crate) async fn stop_merges(&self) {
        self.command("SYSTEM STOP MERGES events").await;
        self.command("SYSTEM STOP MERGES reports").await;
    }

    /// Merges the parts of each partition.
    pub(crate) async fn merge(&self) {
        for table in ["events", "reports"] {
            self.command(&format!("SYSTEM START MERGES {table}")).await;
            self.command(&format!("OPTIMIZE TABLE {table} FINAL")).await;
        }
    }

    pub(crate) async fn command(&self, statement: &str) {
        for store in &self.shards {
            store.client.query(statement).execute().await.unwrap();
        }
    }
}

/// Sends an `Accept` header. Returns the status, content type, `x-total-count` and body.
pub(crate) async fn get_as(app: &TestApp, accept: &str, key: &str, path: &str) -> (u16, String, String, String) {
    let answer = send_request(app.request(Method::GET, path, key).header("accept", accept)).await;
    let (kind, total) = (answer.header("content-type").to_owned(), answer.header("x-total-count").to_owned());
    (answer.status, kind, total, answer.raw)
}

/// Returns the id of the organization with this number in [`Observation::by`].
pub(crate) fn platform(org: u128) -> String {
    OrgId(Uuid::from_u128(org)).to_string()
}

pub(crate) async fn serve(settings: &Settings) -> TestServer {
    TestServer::start(router(State::connect(settings).await.unwrap())).await
}

/// Starts a separate ClickHouse with the tables, which the test can kill and pause.
pub(crate) async fn own_clickhouse(folder: &Path) -> (ClickHouse, ClickHouseSettings) {
    let folder = folder.to_owned();
    let own = tokio::task::spawn_blocking(move || ClickHouse::start(&folder)).await.unwrap().unwrap();
    let settings = ClickHouseSettings::at(own.url(), "telemetry");
    databases::apply_clickhouse_ddl(&settings).await.unwrap();
    (own, settings)
}

/// Separate servers that are shards of one cluster.
pub(crate) struct ShardServers {
    servers: Vec<ClickHouse>,
    _folder: tempfile::TempDir,
}

pub(crate) async fn start_shards(count: usize) -> ShardServers {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_owned();
    let servers = tokio::task::spawn_blocking(move || ClickHouse::shards(&at, count)).await.unwrap().unwrap();
    ShardServers { servers, _folder: folder }
}

/// Starts a service that reads these servers as one store, with the other stores from `stores`.
pub(crate) async fn over_shards(stores: &TestStores, servers: ShardServers) -> TestApp {
    let shards = stores.prepare_shards(&servers.servers).await;
    let stores = TestStores { clickhouse: databases::for_all_shards(&shards[0]), ..stores.clone() };
    let mut app = Query::serving(stores, ResolveSettings::default(), BotSettings::default()).await;
    app.shards = Store::all(&shards);
    app.servers = Some(servers);
    app
}
