//! Servers that count wrongly are rejected before any table is created.

use local::test_servers::ClickHouse;
use service_kit::databases;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest};

#[tokio::test(flavor = "multi_thread")]
async fn s1_rejects_servers_that_count_too_few_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_owned();
    let server = tokio::task::spawn_blocking(move || ClickHouse::start(&at).unwrap()).await.unwrap();
    let older = |request: &mut ClickHouseRequest| {
        request.statement = request.statement.replace("SELECT version()", "SELECT '26.2.19.43'");
    };
    let proxy = ClickHouseProxy::start_before(&server.url(), older).await;
    let refused = databases::apply_clickhouse_ddl(&ClickHouseSettings::at(proxy.url(), "anew")).await.unwrap_err();
    let said = format!("{refused:#}");
    assert!(
        said.starts_with("CLICKHOUSE_URL=127.0.0.1:") && said.contains("ClickHouse 26.2.19.43 can return too few rows"),
        "{said}"
    );
    let asked = proxy.take_requests();
    assert!(asked.iter().all(|request| request.statement.contains("SELECT version()")), "{asked:?}");
    let own = ClickHouseSettings::at(server.url(), "anew");
    let absent = databases::check_clickhouse(&own).await.unwrap_err().to_string();
    assert!(absent.contains("anew"), "no database may be created: {absent}");
    databases::apply_clickhouse_ddl(&own).await.unwrap();
    databases::check_clickhouse(&own).await.unwrap();
}
