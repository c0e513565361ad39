//! The vocabulary of the tests: a served query-api with stores of its own, and observations to put into them.

use clickhouse::Client;
use local::private::ClickHouse;
use query_api::{ResolveSettings, Settings, State, router};
use reqwest::StatusCode;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::reads::Summary;
use schemas::site::Site;
use serde::Serialize;
use serde_json::Value;
use service_kit::retrieval_index::Compactor;
use service_kit::roles::Role;
use service_kit::settings::{BotSettings, ClickHouseSettings, ClickHouseShards};
use service_kit::stores;
use service_kit::testing::{Seed, TestServer, TestStores, client, size};
use std::path::Path;
use tokio::sync::OnceCell;
use uuid::Uuid;

/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;

/// One row, as the workers write it.
#[derive(Clone, Debug, PartialEq, Eq, clickhouse::Row, Serialize)]
pub(crate) struct Observation {
    pub(crate) site: String,
    pub(crate) event_key: u128,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) org_id: Uuid,
    pub(crate) observer: u8,
    pub(crate) version: u64,
    pub(crate) source_role: i8,
    pub(crate) event_type: String,
    pub(crate) at: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) session_id: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform_id: Uuid,
    pub(crate) link: i8,
    /// Where the token's link leads, of a click on another host.
    pub(crate) link_site: String,
    pub(crate) agent_id: String,
    pub(crate) content_url: String,
    pub(crate) content_telemetry_id: String,
    pub(crate) event_id: String,
    pub(crate) data: String,
    pub(crate) extra: String,
}

/// A retrieval on `host`, at new year, reported without a role by an organisation named 1.
pub(crate) fn seen(host: &str, event_key: u128) -> Observation {
    Observation {
        site: Site::from_domain(host).unwrap().as_str().to_owned(),
        event_key,
        org_id: Uuid::from_u128(1),
        observer: 0,
        version: 100,
        source_role: 0,
        event_type: "content_retrieved".to_owned(),
        at: NEW_YEAR_MS,
        session_id: Uuid::nil(),
        platform_id: Uuid::from_u128(1),
        link: 0,
        link_site: String::new(),
        agent_id: String::new(),
        content_url: format!("https://{host}/"),
        content_telemetry_id: String::new(),
        event_id: String::new(),
        data: String::new(),
        extra: String::new(),
    }
}

impl Observation {
    pub(crate) fn role(self, role: SourceRole) -> Self {
        let code = SourceRole::code(Some(role));
        Self { source_role: i8::try_from(code).unwrap(), observer: code, ..self }
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

    /// The role it counts as: a type that only agents report is the agent's.
    pub(crate) fn counted_role(&self) -> i8 {
        let is_agents = ["content_grounded", "content_cited", "content_presented", "content_engaged", "turn_started"];
        if self.source_role == 0 && is_agents.contains(&self.event_type.as_str()) { 1 } else { self.source_role }
    }

    /// Platform, session and agent as an owner is shown them: a click on another host than the token's is its reporter's.
    pub(crate) fn as_owners_see(&self) -> (Uuid, Uuid, &str) {
        match self.link {
            3 => (self.org_id, Uuid::nil(), ""),
            _ => (self.platform_id, self.session_id, &self.agent_id),
        }
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

    /// The reporter's own id.
    pub(crate) fn id(self, event_id: &str) -> Self {
        Self { event_id: event_id.to_owned(), ..self }
    }

    pub(crate) fn data(self, data: &str) -> Self {
        Self { data: data.to_owned(), ..self }
    }

    pub(crate) fn version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// Milliseconds after new year.
    pub(crate) fn after(self, ms: i64) -> Self {
        Self { at: NEW_YEAR_MS + ms, ..self }
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
    /// Where rows are put: one client for each shard.
    shards: Vec<Client>,
    http: reqwest::Client,
}

/// The servers of a run over shards (`TEST_SHARDS`), which end with this process.
static SHARDS: OnceCell<Vec<ClickHouse>> = OnceCell::const_new();

async fn fresh_stores() -> TestStores {
    match size("TEST_SHARDS", 1) {
        1 => TestStores::fresh().await,
        count => TestStores::over_shards(SHARDS.get_or_init(|| start_shards(count)).await).await,
    }
}

/// So many servers, with their data in a folder that is left behind where this process does not drop them.
pub(crate) async fn start_shards(count: usize) -> Vec<ClickHouse> {
    let start = move || ClickHouse::shards(&tempfile::tempdir().unwrap().keep(), count);
    tokio::task::spawn_blocking(start).await.unwrap().unwrap()
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
        let stores = fresh_stores().await;
        let own = stores.signed_in_as(Role::Query);
        let settings = Settings { resolving, bots, ..Settings::on(own.clickhouse, own.postgres) };
        let state = State::connect(&settings).await.unwrap();
        Self::on(stores, TestServer::start(router(state)).await)
    }

    /// These stores, asked through a server that is there.
    pub(crate) fn on(stores: TestStores, server: TestServer) -> Self {
        let shards = stores::clickhouse_shards(&stores.clickhouse).unwrap();
        Self { stores, server, shards, http: client() }
    }

    /// Rows are put into this store from here on.
    pub(crate) fn storing_in(self, store: &ClickHouseSettings) -> Self {
        Self { shards: stores::clickhouse_shards(store).unwrap(), ..self }
    }

    /// The store that rows are put into; of several shards the first.
    pub(crate) fn clickhouse(&self) -> &Client {
        &self.shards[0]
    }

    /// The same stores, asked through another server.
    pub(crate) fn served_by(self, server: TestServer) -> Self {
        Self { server, ..self }
    }

    pub(crate) fn seed(&self) -> Seed<'_> {
        Seed(&self.stores.pool)
    }

    /// Puts rows into the store, as one block on each shard.
    pub(crate) async fn insert(&self, rows: &[Observation]) {
        self.insert_into("observations", rows).await;
    }

    /// The same of rows that stand at this offset of a partition, on shards.
    pub(crate) async fn insert_at(&self, rows: &[Observation], (partition, offset): (i32, i64)) {
        self.command("CREATE TABLE IF NOT EXISTS staged AS observations ENGINE = MergeTree ORDER BY tuple()").await;
        self.insert_into("staged", rows).await;
        self.command(&format!(
            "INSERT INTO observations SELECT * REPLACE ({partition} AS log_partition, {offset} AS log_offset) FROM staged \
             SETTINGS deduplicate_insert_select = 'disable'"
        ))
        .await;
        self.command("TRUNCATE TABLE staged").await;
    }

    async fn insert_into(&self, table: &str, rows: &[Observation]) {
        for (place, client) in self.shards.iter().enumerate() {
            // Without validation, because only the columns that count are given.
            let client = client.clone().with_validation(false).with_setting("async_insert", "0");
            let mut insert = client.insert::<Observation>(table).await.unwrap();
            let is_there = |row: &&Observation| ClickHouseShards::place_of(row.event_key, self.shards.len()) == place;
            for row in rows.iter().filter(is_there) {
                insert.write(row).await.unwrap();
            }
            insert.end().await.unwrap();
        }
    }

    /// Compacts what has been put into the store.
    pub(crate) async fn compact(&self) {
        for shard in self.stores.clickhouse.each_shard() {
            Compactor::connect(&shard).unwrap().compact_all().await.unwrap();
        }
    }

    /// Nothing is in the store any more.
    pub(crate) async fn empty(&self) {
        self.command("TRUNCATE TABLE observations").await;
        self.command("TRUNCATE TABLE retrieval_index").await;
    }

    pub(crate) async fn command(&self, statement: &str) {
        for client in &self.shards {
            client.query(statement).execute().await.unwrap();
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

/// A ClickHouse of the test's own, with the tables: it can be killed and paused.
pub(crate) async fn own_clickhouse(folder: &Path) -> (ClickHouse, ClickHouseSettings) {
    let folder = folder.to_owned();
    let own = tokio::task::spawn_blocking(move || ClickHouse::start(&folder)).await.unwrap().unwrap();
    let settings = ClickHouseSettings::at(own.url(), "telemetry");
    stores::apply_clickhouse_ddl(&settings).await.unwrap();
    (own, settings)
}
