//! ClickHouse remembers for a condition where nothing meets it, and has counted too few rows by that: no read goes by it, and
//! a server that has not been mended is refused. That the S1 model holds both ways is tested beside it, in all-in-one.

use crate::world::{World, seen};
use query_api::{Settings, State, router};
use reqwest::StatusCode;
use schemas::identity::OrgType;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, TestServer};

#[tokio::test]
async fn s1_no_read_of_any_route_lets_the_store_go_by_what_it_remembers_of_conditions() {
    let world = World::new().await;
    let proxy = ClickHouseProxy::before(&world.stores.clickhouse.clickhouse_url, |_| {}).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..world.stores.clickhouse.clone() };
    let state = State::connect(&Settings::on(clickhouse, world.stores.postgres.clone())).await.unwrap();
    let world = world.served_by(TestServer::start(router(state)).await);
    let owner = world.seed().owner_of("example.com").await;
    let agent = world.seed().org("Agent", OrgType::Agent).await;
    world.insert(&[seen("example.com", 1)]).await;
    proxy.take_requests();
    for (key, path) in [
        (&owner.key, "/content-owners/summary"),
        (&owner.key, "/content-owners/events"),
        (&owner.key, "/content-owners/urls"),
        (&owner.key, "/content-owners/corroboration"),
        (&owner.key, "/content-owners/funnel"),
        (&agent.key, "/agent/events"),
    ] {
        assert_eq!(world.get(key, path, &[]).await.status, StatusCode::OK, "{path}");
        let reads = proxy.take_requests();
        assert!(reads.iter().any(|read| read.statement.contains("observations")), "{path} asks the store");
        let told = ("use_query_condition_cache".to_owned(), "0".to_owned());
        for read in reads {
            assert!(read.settings.contains(&told), "{path}: {read:?}");
        }
    }
}

#[tokio::test]
async fn s1_a_server_that_may_count_too_few_rows_is_refused_in_one_line() {
    let world = World::new().await;
    let older = |request: &mut service_kit::testing::ClickHouseRequest| {
        request.statement = request.statement.replace("SELECT version()", "SELECT '26.4.4.14'");
    };
    let proxy = ClickHouseProxy::before(&world.stores.clickhouse.clickhouse_url, older).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..world.stores.clickhouse.clone() };
    let refused = State::connect(&Settings::on(clickhouse, world.stores.postgres.clone())).await.err().expect("it is refused");
    let address = proxy.url().trim_start_matches("http://");
    assert_eq!(
        format!("{refused:#}"),
        format!(
            "CLICKHOUSE_URL={address}: ClickHouse 26.4.4.14 may count too few rows (ClickHouse#104781); \
             run 26.5.2.12 or newer, or 26.3.13.13 of the LTS"
        )
    );
    assert!(State::connect(&Settings::on(world.stores.clickhouse.clone(), world.stores.postgres.clone())).await.is_ok());
}
