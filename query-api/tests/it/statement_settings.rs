//! Settings of all reads' statements, for exact figures and for limits.

use crate::click_fixture::{ClickFixture, reported};
use crate::statements::signing;
use crate::test_app::{Observation, Query};
use query_api::{Settings, State, router};
use reqwest::StatusCode;
use schemas::identity::{OrgType, Scope};
use serde_json::Value;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestServer, client};

/// The OpenAPI document, which contains every read.
pub(crate) const DESCRIBED: &str = include_str!("../../../schemas/openapi/query-api.json");

/// Returns the path of every read of ClickHouse that requires a key, with its required parameters.
fn reads(token: &str, session: &str, event: &str) -> Vec<String> {
    let described: Value = serde_json::from_str(DESCRIBED).unwrap();
    let paths = described["paths"].as_object().unwrap().iter();
    let with_key = paths.filter(|(path, methods)| !methods["get"]["security"].is_null() && !is_stored(path));
    let filled = with_key.map(|(path, methods)| {
        let parameters = methods["get"]["parameters"].as_array().unwrap().iter();
        let needed = parameters.filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
        let named =
            needed.map(|parameter| format!("{}={}", parameter["name"].as_str().unwrap(), parameter["example"].as_str().unwrap()));
        let query = named.collect::<Vec<_>>().join("&");
        let id = if path.contains("/events/") { event } else { session };
        format!("{}?{query}", path.replace("{token}", token).replace("{id}", id))
    });
    filled.collect()
}

/// Statements of months and the service's manifest are not in ClickHouse.
fn is_stored(path: &str) -> bool {
    path.starts_with("/content-owners/statements") || path.starts_with("/.well-known/")
}

/// Settings that exact figures require, in every statement of every read. With its cache of conditions, ClickHouse has returned too few
/// rows.
const EXACT: [(&str, &str); 7] = [
    ("do_not_merge_across_partitions_select_final", "1"),
    ("optimize_move_to_prewhere_if_final", "0"),
    ("use_query_condition_cache", "0"),
    ("use_skip_indexes_if_final", "0"),
    ("enable_shared_storage_snapshot_in_query", "1"),
    // For several shards.
    ("distributed_product_mode", "global"),
    ("skip_unavailable_shards", "0"),
];

/// A read's limits: 1.5 GiB of memory, a quarter of that per step, and 32 GiB on disk.
const BOUNDED: [(&str, &str); 5] = [
    ("max_memory_usage", "1610612736"),
    ("max_bytes_before_external_group_by", "402653184"),
    ("max_bytes_before_external_sort", "402653184"),
    ("max_temporary_data_on_disk_size_for_query", "34359738368"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
];

/// Reads that send other statements than the paths without parameters.
const VARIANTS: [&str; 6] = [
    "/content-owners/urls?by=section",
    "/content-owners/series?split=role",
    "/content-owners/series?split=agent",
    "/content-owners/series?split=outcome",
    "/content-owners/crawlers?bot=GPTBot&path=/blog/*&status=4xx&evidence=observed",
    "/content-owners/series?outcome=failed&operator=OpenAI&verified=true&purpose=user&agent_id=&event_type=a&source_role=edge",
];

/// Creates thousands of domains with one host each for an owner, so that their list exceeds a parameter.
async fn own_many_domains(clicks: &ClickFixture) {
    let domains = "INSERT INTO domains (organization_id, domain, site, verification_method, verified_at) \
                   SELECT $1, concat(repeat('h', 50), n, '.test'), concat('test.', repeat('h', 50), n), 'test', now() \
                   FROM generate_series(1, 3000) AS n";
    sqlx::query(domains).bind(clicks.owner.id.0).execute(&clicks.app.stores.pool).await.unwrap();
    let hosts = "INSERT INTO sites SELECT concat('test.', repeat('h', 50), toString(number)) AS host, host FROM numbers(1, 3000)";
    clicks.app.clickhouse().query(hosts).execute().await.unwrap();
}

/// Returns the statements of all reads by path.
pub(crate) async fn statements() -> Vec<(String, Vec<ClickHouseRequest>)> {
    let mut clicks = ClickFixture::start().await;
    let proxy = ClickHouseProxy::start_before(&clicks.app.stores.clickhouse.clickhouse_url, |_| {}).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..clicks.app.stores.clickhouse.clone() };
    let settings = signing(Settings::with_stores(clickhouse, clicks.app.stores.postgres.clone()));
    let state = State::connect_at(&settings, clicks.clock.clone()).await.unwrap();
    clicks.app = Query::served_by(clicks.app, TestServer::start(router(state)).await);
    own_many_domains(&clicks).await;
    let session = clicks.session(Some(1)).await;
    let token = clicks.token(session, "https://example.com/").await;
    let report = reported(clicks.agent.id, session, "content_cited", "https://example.com/");
    let event = report.event_id.clone();
    // A fetch that two agents claim.
    let claim = |org| reported(org, session, "content_retrieved", "https://example.com/");
    let one = claim(clicks.agent.id);
    let other = Observation { event_key: one.event_key, ..claim(clicks.network.id) };
    clicks.app.insert(&[report, one, other]).await;
    proxy.take_requests();
    let variants = VARIANTS.iter().map(|path| (*path).to_owned());
    let paths: Vec<String> = reads(&token, &session.to_string(), &event).into_iter().chain(variants).collect();
    assert!(paths.len() >= 8, "{paths:?}");
    let operator = format!("Bearer {}", clicks.app.seed().operator("op@svc.test").await);
    let mut asked = Vec::new();
    for path in paths {
        let credentials = match path.split('/').nth(1).unwrap() {
            "content-owners" => ("x-api-key", clicks.owner.key.as_str()),
            "ctx" => ("x-api-key", clicks.network.key.as_str()),
            "operator" => ("authorization", operator.as_str()),
            _ => ("x-api-key", clicks.agent.key.as_str()),
        };
        let answer = clicks.get(&path, &[credentials]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.raw);
        let requests = proxy.take_requests();
        assert!(!requests.is_empty(), "{path} sends no statement");
        asked.push((path, requests));
    }
    asked.push(close_month(&clicks, &proxy).await);
    asked
}

/// Closes a month that has ended, and returns the statements.
async fn close_month(clicks: &ClickFixture, proxy: &ClickHouseProxy) -> (String, Vec<ClickHouseRequest>) {
    let key = clicks.app.seed().key(clicks.owner.id, OrgType::ContentOwner, &[Scope::IdentityWrite]).await;
    let url = format!("{}/content-owners/statements", clicks.app.server.url);
    let month = serde_json::json!({"period": "2020-01"});
    let response = client().post(url).header("x-api-key", key).json(&month).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED, "{}", response.text().await.unwrap());
    ("POST /content-owners/statements".to_owned(), proxy.take_requests())
}

#[tokio::test]
async fn r14_s1_statements_have_exact_and_bounded_settings() {
    for (path, reads) in statements().await {
        for read in reads {
            for (name, value) in EXACT.into_iter().chain(BOUNDED) {
                assert!(
                    read.settings.contains(&(name.to_owned(), value.to_owned())),
                    "{path}: {name} is not {value} in {read:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn rejects_clickhouse_versions_that_miscount() {
    let stores = service_kit::testing::TestStores::fresh().await;
    let older = |request: &mut ClickHouseRequest| {
        request.statement = request.statement.replace("SELECT version()", "SELECT '26.4.4.14'");
    };
    let proxy = ClickHouseProxy::start_before(&stores.clickhouse.clickhouse_url, older).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..stores.clickhouse.clone() };
    let refused =
        State::connect(&Settings::with_stores(clickhouse, stores.postgres.clone())).await.err().expect("it is rejected");
    let address = proxy.url().trim_start_matches("http://");
    assert_eq!(
        format!("{refused:#}"),
        format!(
            "CLICKHOUSE_URL={address}: ClickHouse 26.4.4.14 can return too few rows (ClickHouse#104781); \
             use 26.5.2.12 or later, or LTS 26.3.13.13"
        )
    );
    assert!(State::connect(&Settings::with_stores(stores.clickhouse.clone(), stores.postgres.clone())).await.is_ok());
}
