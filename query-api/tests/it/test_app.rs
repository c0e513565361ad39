//! The vocabulary of the tests: a served query-api with stores of its own, and reports to store in them.

use clickhouse::Client;
use local::private::ClickHouse;
use query_api::{ReadSettings, ResolveSettings, Settings, State, router};
use reqwest::StatusCode;
use schemas::clicks::ClickLink;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::{EventKey, FetchedContent, OwnId};
use schemas::ids::{DrainId, OrgId, SessionId};
use schemas::log::{LogEvent, LogRecord, RECORD_VERSION, RecordKind};
use schemas::reads::Summary;
use schemas::report_keys::ReportKeys;
use schemas::shard::Shard;
use schemas::site::Site;
use serde_json::Value;
use serde_json::value::RawValue;
use service_kit::roles::Role;
use service_kit::settings::{BotSettings, ClickHouseSettings};
use service_kit::stores;
use service_kit::testing::{Seed, TestServer, TestStores, client, size};
use std::collections::BTreeSet;
use std::path::Path;
use store::facts::CONTENT_RETRIEVED;
use stream_workers::EventLoader;
use tokio::sync::Mutex;
use uuid::Uuid;

/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;

/// One report, with its click token looked up.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Reversed host; empty if nobody can own it.
    pub(crate) site: String,
    /// Reports of fetches on one host that have the same are of one fetch. Other reports that one organization makes on one host with the
    /// same are copies of one report.
    pub(crate) event_key: u128,
    /// Tells reports of one observer with the same `event_key` apart.
    pub(crate) own: u64,
    pub(crate) org_id: Uuid,
    pub(crate) drain: Option<DrainId>,
    /// When the gateway accepted it, in microseconds since 1970; by default in the moment in which it happened.
    pub(crate) accepted_us: Option<i64>,
    pub(crate) source_role: i8,
    pub(crate) event_type: String,
    pub(crate) at: i64,
    /// Nil if it has none.
    pub(crate) session_id: Uuid,
    /// Who issued the click token that bound it, else the reporter.
    pub(crate) platform_id: Uuid,
    /// As the table `reports` stores it: 1 taken, 2 same, 3 other.
    pub(crate) link: i8,
    /// Where the token's link leads, of a click on another host.
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

/// A fetch on `host`, at new year, reported without a role by an organization named 1.
pub(crate) fn seen(host: &str, event_key: u128) -> Observation {
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
        self.of(OrgId(Uuid::from_u128(org)))
    }

    pub(crate) fn of(self, org: OrgId) -> Self {
        Self { org_id: org.0, platform_id: org.0, ..self }
    }

    /// Bound by a click token of another; `link` as it is stored.
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

    /// Another report of the same observer with the same correlation id.
    pub(crate) fn again(self, own: u64) -> Self {
        Self { own, ..self }
    }

    /// Milliseconds after new year.
    pub(crate) fn after(self, ms: i64) -> Self {
        Self { at: NEW_YEAR_MS + ms, ..self }
    }

    /// Accepted so many milliseconds after new year.
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

    /// The keys under which it is stored.
    pub(crate) fn keys(&self) -> ReportKeys {
        ReportKeys::new(self.org(), self.drain, &self.log_event())
    }

    /// The key of its event as an id.
    pub(crate) fn key_id(&self) -> String {
        Uuid::from_u128(self.keys().event().0).to_string()
    }

    fn log_event(&self) -> LogEvent {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let raw = |text: &String| (!text.is_empty()).then(|| RawValue::from_string(text.clone()).unwrap());
        let id = format!("{} {}", self.event_key, self.own);
        // Observers may report different URLs: what joins them is for the gateway to decide.
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
            link: [None, Some(ClickLink::Taken), Some(ClickLink::Same), Some(ClickLink::Other)]
                [usize::try_from(self.link).unwrap()],
            link_site: self.link_site.clone(),
            ctx_hash: None,
            kept_ctx_hash: None,
            agent_id: text(&self.agent_id),
            turn_id: text(&self.turn_id),
            output_id: text(&self.output_id),
            crawler: self.crawler.clone().map(Box::new),
            data: raw(&self.data),
            extra: raw(&self.extra),
        }
    }

    /// A request of its own.
    fn record(&self) -> LogRecord {
        Self::request(std::slice::from_ref(self))
    }

    /// Reports of one organization in one request.
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
        }
    }
}

/// A report has one acceptance: two copies that were accepted in one microsecond would have to be equal.
pub(crate) fn accept_apart(rows: &mut [Observation]) {
    let mut used = BTreeSet::new();
    for row in rows {
        let identity = row.keys().identity;
        while !used.insert((identity, row.accepted_us())) {
            row.accepted_us = Some(row.accepted_us() + 1);
        }
    }
}

/// A status and a body.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// An error without what differs from request to request.
    pub(crate) fn problem(&self) -> (StatusCode, Value) {
        let mut body = self.json();
        assert!(body.as_object_mut().unwrap().remove("request_id").is_some());
        (self.status, body)
    }
}

pub(crate) struct TestApp {
    pub(crate) stores: TestStores,
    pub(crate) server: TestServer,
    shards: Vec<Store>,
    /// The writers of these, from the first report on.
    loaders: Mutex<Vec<EventLoader>>,
    /// Servers of its own, if it has several shards.
    servers: Option<ShardServers>,
    http: reqwest::Client,
}

/// The tables of a shard.
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
            client: stores::clickhouse(settings).unwrap(),
        };
        shards.iter().enumerate().map(store).collect()
    }
}

impl TestApp {
    pub(crate) async fn new() -> Self {
        Self::with(ResolveSettings::default()).await
    }

    /// With another rate of resolving.
    pub(crate) async fn with(resolving: ResolveSettings) -> Self {
        Self::set(resolving, BotSettings::default()).await
    }

    /// With a table of bots of one's own.
    pub(crate) async fn naming_bots_by(file: &Path) -> Self {
        Self::set(ResolveSettings::default(), BotSettings { bots_file: Some(file.to_owned()) }).await
    }

    async fn set(resolving: ResolveSettings, bots: BotSettings) -> Self {
        match size("TEST_SHARDS", 1) {
            1 => Self::serving(TestStores::fresh().await, resolving, bots).await,
            count => {
                let app = over_shards(&TestStores::with_topics().await, start_shards(count).await).await;
                let other = Self::serving(app.stores.clone(), resolving, bots).await;
                app.served_by(other.server)
            }
        }
    }

    /// With other limits of reads.
    pub(crate) async fn limited(reads: ReadSettings) -> Self {
        let app = Self::new().await;
        let settings = Settings { reads, ..app.settings() };
        app.served_by(serve(&settings).await)
    }

    /// Settings of a service on these stores.
    pub(crate) fn settings(&self) -> Settings {
        Settings::on(self.stores.clickhouse.clone(), self.stores.postgres.clone())
    }

    /// The same stores, read at another address of ClickHouse.
    pub(crate) async fn through(self, clickhouse: ClickHouseSettings) -> Self {
        let server = serve(&Settings { clickhouse, ..self.settings() }).await;
        self.served_by(server)
    }

    /// On one server, whatever the others are on.
    pub(crate) async fn on_one_server() -> Self {
        Self::serving(TestStores::fresh().await, ResolveSettings::default(), BotSettings::default()).await
    }

    async fn serving(stores: TestStores, resolving: ResolveSettings, bots: BotSettings) -> Self {
        let own = stores.signed_in_as(Role::Query);
        let settings = Settings { resolving, bots, ..Settings::on(own.clickhouse, own.postgres) };
        Self::on(stores, serve(&settings).await)
    }

    /// These stores, asked through a server that is there.
    pub(crate) fn on(stores: TestStores, server: TestServer) -> Self {
        let shards = Store::all(std::slice::from_ref(&stores.clickhouse));
        Self { stores, server, shards, loaders: Mutex::default(), servers: None, http: client() }
    }

    /// Reports are stored here from now on.
    pub(crate) fn storing_in(self, store: &ClickHouseSettings) -> Self {
        Self { shards: Store::all(std::slice::from_ref(store)), loaders: Mutex::default(), ..self }
    }

    /// Ends the server of a shard, counted from 0.
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

    /// The same stores, asked through another server.
    pub(crate) fn served_by(self, server: TestServer) -> Self {
        Self { server, ..self }
    }

    pub(crate) fn seed(&self) -> Seed<'_> {
        Seed(&self.stores.pool)
    }

    /// Stores reports as the writer does it, as one block.
    pub(crate) async fn insert(&self, reports: &[Observation]) {
        self.store(&reports.iter().map(Observation::record).collect::<Vec<_>>()).await;
    }

    /// Stores requests of one organization each, as one block.
    pub(crate) async fn insert_requests(&self, requests: &[Vec<Observation>]) {
        self.store(&requests.iter().map(|reports| Observation::request(reports)).collect::<Vec<_>>()).await;
    }

    /// Stores records as the writer does it, as one block.
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

    /// A writer that starts anew inserts what comes next.
    pub(crate) async fn restart_writer(&self) {
        self.loaders.lock().await.clear();
    }

    pub(crate) async fn empty(&self) {
        self.restart_writer().await;
        for table in ["events", "reports", "failed_fetches", "sites", "progress", "writers"] {
            self.command(&format!("TRUNCATE TABLE {table}")).await;
        }
    }

    /// Keeps every block a part of its own.
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

    pub(crate) async fn get(&self, key: &str, path: &str, query: &[(&str, &str)]) -> Answer {
        let mut url = reqwest::Url::parse(&format!("{}{path}", self.server.url)).unwrap();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http.get(url);
        if !key.is_empty() {
            request = request.header("x-api-key", key);
        }
        let response = request.send().await.unwrap();
        Answer { status: response.status(), text: response.text().await.unwrap() }
    }

    /// The same with an `Accept` header; the third is `x-total-count`.
    pub(crate) async fn get_as(&self, accept: &str, key: &str, path: &str) -> (StatusCode, String, String, String) {
        let request = self.http.get(format!("{}{path}", self.server.url)).header("x-api-key", key).header("accept", accept);
        let response = request.send().await.unwrap();
        let header =
            |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let (status, kind, total) = (response.status(), header("content-type"), header("x-total-count"));
        (status, kind, total, response.text().await.unwrap())
    }

    /// A page that must be there.
    pub(crate) async fn page(&self, key: &str, path: &str, query: &[(&str, &str)]) -> Value {
        let answer = self.get(key, path, query).await;
        assert_eq!(answer.status, StatusCode::OK, "{path} {query:?}: {}", answer.text);
        answer.json()
    }

    pub(crate) async fn ask(&self, key: &str, query: &[(&str, &str)]) -> Answer {
        self.get(key, "/content-owners/summary", query).await
    }

    pub(crate) async fn summary(&self, key: &str, query: &[(&str, &str)]) -> Summary {
        let answer = self.ask(key, query).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let summary: Summary = serde_json::from_str(&answer.text).unwrap();
        let by_type: u64 = summary.events_by_type.iter().map(|of| of.count).sum();
        assert_eq!(by_type, summary.total_events, "events_by_type adds up to total_events");
        summary
    }

    pub(crate) async fn total(&self, key: &str, query: &[(&str, &str)]) -> u64 {
        self.summary(key, query).await.total_events
    }
}

/// The id of an organisation that [`Observation::by`] names.
pub(crate) fn platform(org: u128) -> String {
    OrgId(Uuid::from_u128(org)).to_string()
}

pub(crate) async fn serve(settings: &Settings) -> TestServer {
    TestServer::start(router(State::connect(settings).await.unwrap())).await
}

/// A ClickHouse of the test's own, with the tables: it can be killed and paused.
pub(crate) async fn own_clickhouse(folder: &Path) -> (ClickHouse, ClickHouseSettings) {
    let folder = folder.to_owned();
    let own = tokio::task::spawn_blocking(move || ClickHouse::start(&folder)).await.unwrap().unwrap();
    let settings = ClickHouseSettings::at(own.url(), "telemetry");
    stores::apply_clickhouse_ddl(&settings).await.unwrap();
    (own, settings)
}

/// Servers of a test's own, which know each other as shards.
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

/// A service that reads these servers as one store, with the other stores of `stores`.
pub(crate) async fn over_shards(stores: &TestStores, servers: ShardServers) -> TestApp {
    let shards = stores.prepare_shards(&servers.servers).await;
    let stores = TestStores { clickhouse: stores::of_all_shards(&shards[0]), ..stores.clone() };
    let app = TestApp::serving(stores, ResolveSettings::default(), BotSettings::default()).await;
    TestApp { shards: Store::all(&shards), servers: Some(servers), ..app }
}
