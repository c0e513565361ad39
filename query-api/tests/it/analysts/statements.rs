//! The upkeep's statements.

use super::AnalystFixture;
use crate::statement_files::{received, statement_of};
use service_kit::testing::ClickHouseProxy;

/// The table that the client names itself when inserting rows.
const INSERTED: &str = "analyst_access";

#[tokio::test(flavor = "multi_thread")]
async fn upkeep_sends_exactly_the_statement_files() {
    let world = AnalystFixture::start().await;
    let owner = world.app.seed().owner_of("a.test").await;
    world.account(1, owner.id, None).await;
    let proxy = ClickHouseProxy::start_before(&world.settings.clickhouse_url, |_| {}).await;
    let upkeep = world.upkeep_through(proxy.url()).await;
    assert_eq!(upkeep.round().await.unwrap().stored, 1);
    let requests = proxy.take_requests();
    let is_insert = |text: &str| text.starts_with("INSERT INTO") || text.starts_with("DESCRIBE TABLE");
    let text = |request: &service_kit::testing::ClickHouseRequest| {
        let of_address = request.settings.iter().find(|(name, _)| name == "query").map(|(_, text)| text.clone());
        of_address.unwrap_or_else(|| statement_of(&request.statement).to_owned())
    };
    let texts: Vec<String> = requests.iter().map(text).collect();
    let (inserts, texts): (Vec<&String>, Vec<&String>) = texts.iter().partition(|text| is_insert(text));
    assert!(inserts.iter().all(|text| text.contains(INSERTED)), "{inserts:?}");
    let received = received(texts.into_iter().map(|text| ("the upkeep".to_owned(), text.as_str())));
    let files = ["analyst_database.sql", "analyst_events.sql", "analyst_reports.sql", "analysts_now.sql", "analysts_stored.sql"];
    assert_eq!(received.iter().map(String::as_str).collect::<Vec<_>>(), files);
}
