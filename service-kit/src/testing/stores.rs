//! A database, topics and a ClickHouse database for one test, on servers that all tests share.

use crate::roles::{self, Role};
use crate::settings::{ClickHouseSettings, KafkaSettings, PostgresSettings};
use crate::{databases, kafka};
use local::stack::Endpoints;
use local::test_servers::ClickHouse;
use rdkafka::admin::AdminOptions;
use rdkafka::producer::Producer;
use sqlx::PgPool;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::OnceCell;

static NUMBER: AtomicU32 = AtomicU32::new(0);
static SWEPT: OnceCell<()> = OnceCell::const_new();
/// The database that test databases are copied from.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();

#[derive(Clone)]
pub struct TestStores {
    pub pool: PgPool,
    pub postgres: PostgresSettings,
    pub clickhouse: ClickHouseSettings,
    pub kafka: KafkaSettings,
    /// Prefix of all names above; unique among running tests.
    pub name: String,
}

impl TestStores {
    pub async fn fresh() -> Self {
        let stores = Self::with_topics().await;
        databases::apply_clickhouse_ddl(&stores.clickhouse).await.expect("the tables are created");
        stores
    }

    /// Creates a shard's tables on each of these servers, and tables that read all shards. Returns the shards in order;
    /// [`databases::for_all_shards`] of any of them reads all.
    pub async fn prepare_shards(&self, servers: &[ClickHouse]) -> Vec<ClickHouseSettings> {
        let shards: Vec<ClickHouseSettings> =
            servers.iter().map(|server| ClickHouseSettings::at(server.url(), &self.name)).collect();
        for shard in &shards {
            databases::apply_clickhouse_ddl(shard).await.expect("the tables are created");
            databases::create_distributed_tables(shard, "telemetry").await.expect("the cluster is configured");
        }
        shards
    }

    /// Creates stores without ClickHouse tables, which take the longest to create. For tests that don't read ClickHouse.
    pub async fn with_topics() -> Self {
        let stores = Self::unprepared().await;
        kafka::create_topics(&stores.kafka).await.expect("the topics are created");
        stores
    }

    /// Creates stores without ClickHouse tables and topics. For tests that use only PostgreSQL or run `prepare`.
    pub async fn unprepared() -> Self {
        let servers = servers().await;
        let (name, kafka) = settings(&servers);
        let clickhouse = ClickHouseSettings::at(&servers.clickhouse_url, &name);
        let (postgres, pool) = fresh_database(&servers, &name).await;
        Self { pool, postgres, clickhouse, kafka, name }
    }

    /// Returns the same stores with a service's account, so tests notice missing privileges. If `CLICKHOUSE_URL` doesn't contain a
    /// password, ClickHouse has no such accounts and the configured one is used.
    #[must_use]
    pub fn signed_in_as(&self, role: Role) -> Self {
        let postgres = self.postgres.signed_in_as(role).expect("DATABASE_URL is a URL");
        let has_accounts = url::Url::parse(&self.clickhouse.clickhouse_url).is_ok_and(|url| url.password().is_some());
        let clickhouse = match role {
            Role::Worker | Role::Query if has_accounts => self.clickhouse.signed_in_as(role).expect("CLICKHOUSE_URL is a URL"),
            _ => self.clickhouse.clone(),
        };
        Self { postgres, clickhouse, ..self.clone() }
    }

    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("DATABASE_URL", self.postgres.database_url.clone()),
            ("CLICKHOUSE_URL", self.clickhouse.clickhouse_url.clone()),
            ("TELEMETRY_CLICKHOUSE_DATABASE", self.clickhouse.clickhouse_database.clone()),
            ("KAFKA_BROKERS", self.kafka.kafka_brokers.clone()),
            ("TELEMETRY_TOPIC", self.kafka.topic.clone()),
            ("TELEMETRY_REJECTED_TOPIC", self.kafka.rejected_topic.clone()),
        ]
    }
}

async fn servers() -> Endpoints {
    let servers = Endpoints::of_running_stack().unwrap_or_else(|error| panic!("{error:#}"));
    SWEPT.get_or_init(|| sweep(&servers)).await;
    servers
}

/// Returns a unique name, and settings with topics of that name.
fn settings(servers: &Endpoints) -> (String, KafkaSettings) {
    let name = format!("test_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let kafka = KafkaSettings {
        topic: name.clone(),
        rejected_topic: format!("{name}.rejected"),
        ..KafkaSettings::at(&servers.kafka_brokers)
    };
    (name, kafka)
}

/// Copies the process's template database, which has all migrations.
async fn fresh_database(servers: &Endpoints, name: &str) -> (PostgresSettings, PgPool) {
    let template = TEMPLATE.get_or_init(|| migrated_template(servers)).await;
    create_database(servers, &format!("{name} TEMPLATE {template}")).await;
    database(servers, name)
}

async fn migrated_template(servers: &Endpoints) -> String {
    let name = format!("test_{}_template", std::process::id());
    create_database(servers, &name).await;
    let (settings, pool) = database(servers, &name);
    roles::create_for_development(&settings).await.expect("the roles of the services are created");
    databases::migrate_postgres(&pool).await.expect("the tables are created");
    // A database with connections can't be copied.
    pool.close().await;
    name
}

async fn create_database(servers: &Endpoints, what: &str) {
    let statement = format!("CREATE DATABASE {what}");
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&admin_pool(servers)).await.expect("a database is created");
}

fn database(servers: &Endpoints, name: &str) -> (PostgresSettings, PgPool) {
    let mut url = url::Url::parse(&servers.database_url).expect("DATABASE_URL is a URL");
    url.set_path(name);
    let settings = PostgresSettings { database_url: url.into() };
    let pool = databases::postgres(&settings).expect("the address is valid");
    (settings, pool)
}

fn admin_pool(servers: &Endpoints) -> PgPool {
    // Creating a database may outlast the statement deadline of a service on a busy machine.
    sqlx::postgres::PgPoolOptions::new().max_connections(2).connect_lazy(&servers.database_url).expect("DATABASE_URL is a URL")
}

/// Drops what dead test processes left behind. Ignores errors.
async fn sweep(servers: &Endpoints) {
    let admin = admin_pool(servers);
    let names: Vec<String> = sqlx::query_scalar("SELECT datname FROM pg_database WHERE datname LIKE 'test\\_%'")
        .fetch_all(&admin)
        .await
        .unwrap_or_default();
    let Ok(clickhouse) = databases::clickhouse(&ClickHouseSettings::at(&servers.clickhouse_url, "default")) else { return };
    for name in names.iter().filter(|name| is_leftover(name)) {
        let _ = sqlx::query(sqlx::AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))).execute(&admin).await;
        // Without SYNC, because a table that a killed test was reading can stay in use forever and would block this.
        let _ = clickhouse.query(&format!("DROP DATABASE IF EXISTS {name}")).execute().await;
    }
    sweep_topics(&servers.kafka_brokers).await;
}

async fn sweep_topics(brokers: &str) {
    let settings = KafkaSettings::at(brokers);
    let Ok(admin) = kafka::admin(&settings) else { return };
    let Ok(producer) = kafka::producer(&settings) else { return };
    let Ok(metadata) = producer.client().fetch_metadata(None, Duration::from_secs(10)) else { return };
    let leftovers: Vec<&str> =
        metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name).filter(|name| is_leftover(name)).collect();
    if !leftovers.is_empty() {
        let _ = admin.delete_topics(&leftovers, &AdminOptions::new()).await;
    }
}

/// Returns whether a name (`test_<pid>_<n>`) belongs to a dead process, or to an earlier one with our pid.
fn is_leftover(name: &str) -> bool {
    let Some(pid) = name.strip_prefix("test_").and_then(|rest| rest.split('_').next()) else { return false };
    pid.parse::<u32>().is_ok_and(|pid| pid == std::process::id() || !std::path::Path::new(&format!("/proc/{pid}")).exists())
}
