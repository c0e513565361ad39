//! Kafka, PostgreSQL and ClickHouse with the accounts that the containers of docker-compose.yml create, without tables.

use super::compose_file;
use local::test_servers::{ClickHouse, Kafka, Postgres};
use service_kit::settings::PostgresSettings;
use std::collections::BTreeMap;
use std::path::Path;

/// Account that the ClickHouse image creates from `CLICKHOUSE_USER` and `CLICKHOUSE_PASSWORD`.
const ADMINISTRATOR: &str = "<telemetry><password from_env=\"CLICKHOUSE_PASSWORD\"/><networks><ip>::/0</ip></networks>\
    <profile>default</profile><quota>default</quota><access_management>1</access_management></telemetry></users>";

/// Running servers, stopped when dropped.
pub(super) struct Stores {
    kafka: Kafka,
    postgres: Postgres,
    clickhouse: ClickHouse,
}

impl Stores {
    pub(super) async fn start(folder: &Path, env: &BTreeMap<String, String>) -> Self {
        let (at, own) = (folder.to_owned(), env.clone());
        let stores = tokio::task::spawn_blocking(move || Self::launch(&at, &own)).await.expect("starting servers does not panic");
        stores.create_roles(env).await;
        stores
    }

    fn launch(folder: &Path, env: &BTreeMap<String, String>) -> Self {
        let users = folder.join("accounts.xml");
        // The container reads these as two files.
        let analysts = compose_file::read("schemas/clickhouse/analysts.xml");
        let inside = |tag: &str| {
            let (_, rest) = analysts.split_once(&format!("<{tag}>")).expect("the file has the element");
            rest.split_once(&format!("</{tag}>")).expect("the element has an end tag").0
        };
        let accounts = compose_file::read("schemas/clickhouse/accounts.xml")
            .replace("</profiles>", &format!("{}</profiles>", inside("profiles")))
            .replace("</users>", &format!("{}{ADMINISTRATOR}", inside("users")));
        std::fs::write(&users, accounts).expect("the accounts are written");
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Self {
            kafka: Kafka::start(folder).expect("Kafka starts"),
            postgres: Postgres::start(folder).expect("PostgreSQL starts"),
            clickhouse: ClickHouse::with_users(folder, &users, &env).expect("ClickHouse starts"),
        }
    }

    /// Creates the roles of `schemas/postgres/roles/roles.sh` without `psql`, which may not be installed.
    async fn create_roles(&self, env: &BTreeMap<String, String>) {
        let settings = PostgresSettings { database_url: self.postgres.url() };
        let pool = service_kit::databases::postgres(&settings).expect("the address is valid");
        for role in ["owner", "gateway", "worker", "deliverer", "query", "identity"] {
            let password = &env[&format!("POSTGRES_{}_PASSWORD", role.to_uppercase())];
            let statement = format!("CREATE ROLE telemetry_{role} LOGIN PASSWORD '{password}'");
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&pool).await.expect("a role is created");
        }
        let given = "ALTER DATABASE telemetry OWNER TO telemetry_owner";
        sqlx::raw_sql(given).execute(&pool).await.expect("the owner is changed");
    }

    /// Returns the servers' addresses by their addresses in the containers.
    pub(super) fn addresses(&self) -> Vec<(&'static str, String)> {
        let authority = |url: &str| {
            let url = url::Url::parse(url).expect("a server has an address");
            format!("{}:{}", url.host_str().expect("the URL has a host"), url.port().expect("the URL has a port"))
        };
        vec![
            ("kafka:9092", self.kafka.address()),
            ("postgres:5432", authority(&self.postgres.url())),
            ("clickhouse:8123", authority(&self.clickhouse.url())),
        ]
    }
}
