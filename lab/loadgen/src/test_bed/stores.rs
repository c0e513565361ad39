//! Creates a PostgreSQL database, topics and a ClickHouse database for one run on the running servers.

use super::leftovers::{PREFIX, is_leftover};
use anyhow::Context as _;
use local::stack::Endpoints;
use rdkafka::admin::AdminOptions;
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::Producer as _;
use schemas::shard::Shard;
use service_kit::settings::{ClickHouseSettings, KafkaSettings, PostgresSettings};
use service_kit::{databases, kafka};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) kafka: KafkaSettings,
    pub(crate) clickhouse: ClickHouseSettings,
    pub(crate) postgres: PostgresSettings,
    pub(crate) shard: Shard,
}

#[derive(Clone, Debug)]
pub(crate) struct FreshStores {
    pub(crate) addresses: Addresses,
    pub(crate) pool: PgPool,
    servers: Endpoints,
    name: String,
}

pub(crate) fn run_name() -> String {
    format!("{PREFIX}{}_{:06x}", std::process::id(), rand::random::<u32>() & 0xFF_FFFF)
}

impl FreshStores {
    pub(crate) async fn create(servers: Endpoints, name: &str) -> anyhow::Result<Self> {
        sweep(&servers).await;
        let admin = admin_pool(&servers)?;
        execute(&admin, format!("CREATE DATABASE {name}")).await.context("DATABASE_URL: failed to create a database")?;
        let mut url = url::Url::parse(&servers.database_url).context("DATABASE_URL is not a URL")?;
        url.set_path(name);
        let postgres = PostgresSettings { database_url: url.into() };
        let pool = databases::postgres(&postgres)?;
        databases::migrate_postgres(&pool).await?;
        let clickhouse = ClickHouseSettings::at(&servers.clickhouse_url, name);
        databases::apply_clickhouse_ddl(&clickhouse).await?;
        let kafka = KafkaSettings {
            topic: name.to_owned(),
            rejected_topic: format!("{name}.rejected"),
            ..KafkaSettings::at(&servers.kafka_brokers)
        };
        kafka::create_topics(&kafka).await?;
        let addresses = Addresses { kafka, clickhouse, postgres, shard: Shard::default() };
        Ok(Self { addresses, pool, servers, name: name.to_owned() })
    }

    /// Deletes the stores. The next run deletes what can't be deleted now.
    pub(crate) async fn delete(self) {
        self.pool.close().await;
        drop_databases(&self.servers, &self.name).await;
        let kafka = &self.addresses.kafka;
        delete_topics(&self.servers.kafka_brokers, |topic| topic == kafka.topic || topic == kafka.rejected_topic).await;
    }
}

async fn sweep(servers: &Endpoints) {
    let Ok(admin) = admin_pool(servers) else { return };
    let found = sqlx::query_scalar("SELECT datname FROM pg_database WHERE datname LIKE 'load\\_%'").fetch_all(&admin).await;
    let names: Vec<String> = found.unwrap_or_default();
    for name in names.iter().filter(|name| is_leftover(name)) {
        drop_databases(servers, name).await;
    }
    delete_topics(&servers.kafka_brokers, is_leftover).await;
}

async fn drop_databases(servers: &Endpoints, name: &str) {
    if let Ok(admin) = admin_pool(servers) {
        let _ = execute(&admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    }
    let settings = ClickHouseSettings::at(&servers.clickhouse_url, "default");
    if let Ok(clickhouse) = databases::clickhouse(&settings) {
        let _ = clickhouse.query(&format!("DROP DATABASE IF EXISTS {name} SYNC")).execute().await;
    }
}

async fn delete_topics(brokers: &str, is_chosen: impl Fn(&str) -> bool) {
    let settings = KafkaSettings::at(brokers);
    let Ok(admin) = kafka::admin(&settings) else { return };
    let Ok(producer) = kafka::producer(&settings) else { return };
    let Ok(metadata) = producer.client().fetch_metadata(None, Duration::from_secs(10)) else { return };
    let chosen: Vec<&str> = metadata.topics().iter().map(MetadataTopic::name).filter(|name| is_chosen(name)).collect();
    if !chosen.is_empty() {
        let _ = admin.delete_topics(&chosen, &AdminOptions::new()).await;
    }
}

async fn execute(pool: &PgPool, statement: String) -> Result<(), sqlx::Error> {
    // The names contain only letters, digits and underscores.
    sqlx::query(AssertSqlSafe(statement)).execute(pool).await.map(drop)
}

fn admin_pool(servers: &Endpoints) -> anyhow::Result<PgPool> {
    PgPoolOptions::new().max_connections(1).connect_lazy(&servers.database_url).context("DATABASE_URL is not a URL")
}
