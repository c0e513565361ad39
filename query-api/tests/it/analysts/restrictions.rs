//! What an account can't do: access tables, other accounts and the server, change settings, or evaluate conditions on others' rows.

use super::native_client::NativeClient;
use super::{Analyst, DAY_MS, PASSWORD, guarded, theirs};
use crate::test_app::fetch_on;
use reqwest::StatusCode;
use service_kit::testing::client;

/// Statements with a table in every possible position.
const OF_TABLES: [&str; 24] = [
    "SELECT count() FROM {table}",
    "SELECT 1 FROM {table} LIMIT 1",
    "SELECT _part FROM {table} LIMIT 1",
    "DESCRIBE TABLE {table}",
    "SHOW CREATE TABLE {table}",
    "EXPLAIN ESTIMATE SELECT * FROM {table}",
    "CHECK TABLE {table}",
    "EXISTS TABLE {table}",
    "SELECT * FROM merge('{database}', '^{name}$')",
    "SELECT * FROM merge(REGEXP('^{database}$'), '^{name}$')",
    "SELECT * FROM mergeTreeIndex('{database}', '{name}')",
    "SELECT * FROM mergeTreeProjection('{database}', '{name}', 'by_version')",
    "SELECT * FROM remote('127.0.0.1', '{database}', '{name}')",
    "SELECT * FROM cluster('default', {table})",
    "SELECT * FROM loop({table}) LIMIT 1",
    "SELECT * FROM view(SELECT * FROM {table})",
    "WITH x AS (SELECT * FROM {table}) SELECT count() FROM x",
    "SELECT count() FROM events WHERE content_url IN (SELECT toString(1) FROM {table})",
    "SELECT (SELECT count() FROM {table})",
    "INSERT INTO {table} SELECT * FROM {table}",
    "ALTER TABLE {table} DELETE WHERE 1",
    "TRUNCATE TABLE {table}",
    "DROP TABLE {table}",
    "OPTIMIZE TABLE {table}",
];

/// Statements that reveal views and accounts, the analyst's own and another's.
const OF_ACCOUNTS: [&str; 13] = [
    "SELECT * FROM telemetry.analyst_sites",
    "SHOW CREATE VIEW telemetry.analyst_sites",
    "USE telemetry",
    "ALTER TABLE analytics.events MODIFY SQL SECURITY INVOKER",
    "CREATE OR REPLACE VIEW analytics.events AS SELECT 1",
    "CREATE VIEW analytics.mine DEFINER = telemetry_analyst_views SQL SECURITY DEFINER AS SELECT * FROM telemetry.events",
    "CREATE TABLE analytics.mine (x UInt8) ENGINE = Memory",
    "DROP VIEW analytics.events",
    "DROP DATABASE analytics",
    "GRANT SELECT ON telemetry.* TO {login}",
    "EXECUTE AS telemetry_analyst_views SELECT 1",
    "EXECUTE AS {other} SELECT 1",
    "ALTER USER {login} IDENTIFIED BY 'mine'",
];

/// Statements that use the server, its system tables or external resources.
const OF_SERVER: [&str; 39] = [
    "CREATE TEMPORARY TABLE mine (x UInt8)",
    "CREATE USER mine",
    "CREATE FUNCTION mine AS x -> x",
    "CREATE DATABASE mine",
    "CREATE ROW POLICY mine ON telemetry.events USING 1 TO ALL",
    "CREATE NAMED COLLECTION mine AS x = 1",
    "SET ROLE ALL EXCEPT mine",
    "SHOW USERS",
    "SELECT * FROM system.users",
    "SELECT * FROM system.row_policies",
    "SELECT * FROM system.grants",
    "SELECT * FROM system.processes",
    "SHOW PROCESSLIST",
    "SELECT * FROM system.asynchronous_inserts",
    "SELECT * FROM system.parts",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.metrics",
    "SELECT * FROM system.events",
    "SELECT * FROM system.asynchronous_metrics",
    "SELECT * FROM system.errors",
    "SELECT * FROM system.merges",
    "SELECT * FROM system.disks",
    "SELECT * FROM system.parts_columns",
    "SELECT * FROM system.text_log",
    "SELECT * FROM system.zookeeper WHERE path = '/'",
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'x UInt8')",
    "SELECT * FROM file('/etc/passwd', 'CSV', 'x String')",
    "SELECT * FROM s3('http://127.0.0.1:1/x', 'CSV', 'x UInt8')",
    "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "SELECT * FROM executable('x', 'CSV', 'x UInt8')",
    "SELECT 1 INTO OUTFILE '/tmp/mine'",
    "BACKUP DATABASE telemetry TO File('/tmp/mine')",
    "KILL QUERY WHERE 1",
    "SYSTEM FLUSH LOGS",
    "SYSTEM STOP LISTEN HTTP",
    "SYSTEM DROP MARK CACHE",
    "SELECT dictGet('x', 'y', 1)",
    "SELECT joinGet('x', 'y', 1)",
];

fn attacks(login: &str, other: &str) -> Vec<String> {
    let tables = ["events", "reports", "sites", "progress", "writers", "analyst_access"];
    let of_tables = tables.iter().flat_map(|name| {
        let filled = |statement: &str| statement.replace("{table}", &format!("telemetry.{name}")).replace("{name}", name);
        OF_TABLES.map(|statement| filled(statement).replace("{database}", "telemetry"))
    });
    let of_accounts = OF_ACCOUNTS.iter().map(|statement| statement.replace("{login}", login).replace("{other}", other));
    of_tables.chain(of_accounts).chain(OF_SERVER.map(ToOwned::to_owned)).collect()
}

/// Settings that would change a statement's meaning, reveal more, exceed limits or stop other statements.
const REFUSED: [&str; 22] = [
    "readonly=0",
    "readonly=2",
    "max_memory_usage=0",
    "max_execution_time=0",
    "max_execution_time=61",
    "max_threads=64",
    "max_concurrent_queries_for_user=0",
    "allow_ddl=1",
    "additional_table_filters={'telemetry.events':'throwIf(1)'}",
    "additional_result_filter=1",
    "final=1",
    "apply_row_policy_after_final=0",
    "optimize_move_to_prewhere_if_final=1",
    "optimize_move_to_prewhere=0",
    "use_query_condition_cache=1",
    "use_skip_indexes_if_final=1",
    "enable_shared_storage_snapshot_in_query=0",
    "do_not_merge_across_partitions_select_final=0",
    "analyzer_inline_views=1",
    "replace_running_query=1",
    "use_query_cache=1",
    "force_primary_key=1",
];

/// Settings that drivers change, with a value.
const ALLOWED: [&str; 8] = [
    "join_use_nulls=1",
    "session_timezone=Pacific/Auckland",
    "max_execution_time=20",
    "date_time_output_format=iso",
    "group_by_use_nulls=1",
    "max_result_rows=5",
    "output_format_json_quote_64bit_integers=1",
    "log_comment=x",
];

/// An account's limits, repeated independently of the configuration.
const LIMITS: [(&str, &str); 12] = [
    ("readonly", "1"),
    ("allow_ddl", "false"),
    ("allow_introspection_functions", "false"),
    ("max_execution_time", "60"),
    ("max_memory_usage", "2147483648"),
    ("max_memory_usage_for_user", "3221225472"),
    ("max_concurrent_queries_for_user", "4"),
    ("max_threads", "4"),
    ("max_bytes_before_external_group_by", "536870912"),
    ("max_bytes_before_external_sort", "536870912"),
    ("max_temporary_data_on_disk_size_for_user", "34359738368"),
    ("cancel_http_readonly_queries_on_client_close", "true"),
];

/// Returns whether the error means that a setting can't be changed.
fn is_no_change(error: &str) -> bool {
    ["Cannot modify", "shouldn't be"].iter().any(|why| error.contains(why))
}

/// Conditions that fail on others' rows.
const PROBES: [&str; 6] = [
    "throwIf(content_url LIKE '%theirs%') = 0",
    "throwIf(host NOT IN ('a.test', 'shop.a.test')) = 0",
    "throwIf(site IN ('test.b', 'test.nota', 'test.a.blog')) = 0",
    "throwIf(day < '2026-01-02') = 0",
    "throwIf(startsWith(event_type, 'turn_')) = 0",
    "NOT ignore(intDiv(1, toUInt8(content_url NOT LIKE '%theirs%')))",
];

const COUNT: &str = "SELECT count() FROM events";

#[tokio::test(flavor = "multi_thread")]
async fn accounts_can_read_only_their_views() {
    let (world, analyst, other) = guarded().await;
    world.app.insert(&theirs()).await;
    let port = world.server.as_ref().unwrap().native_port();
    let login = analyst.login.clone();
    let statements = attacks(&login, &other.login);
    // With this protocol the client writes the file, and the server ignores the clause.
    let of_native: Vec<String> = statements.iter().filter(|statement| !statement.contains("INTO OUTFILE")).cloned().collect();
    let asked = tokio::task::spawn_blocking(move || {
        let mut native = NativeClient::open(port, &login, PASSWORD).unwrap();
        assert_eq!(native.ask(COUNT), Ok(vec!["2".to_owned()]));
        let answered: Vec<String> = of_native.into_iter().filter(|statement| native.ask(statement).is_ok()).collect();
        for setting in REFUSED {
            let (name, value) = setting.split_once('=').unwrap();
            let said = native.ask(&format!("SET {name} = '{}'", value.replace('\'', "\\'"))).unwrap_err();
            assert!(is_no_change(&said), "{setting}: {said}");
        }
        assert_eq!(native.ask(COUNT), Ok(vec!["2".to_owned()]));
        answered
    });
    assert_eq!(asked.await.unwrap(), Vec::<String>::new(), "the native protocol returned results");
    for statement in statements {
        analyst.refusal("", &statement).await;
    }
    let merged = "SELECT count() FROM merge(REGEXP('.*'), '^events$')";
    assert_eq!(analyst.number(merged).await, 2, "only the account's view matches");
    let visible = analyst.ask("SELECT arraySort(groupUniqArray((database, name))) FROM system.tables").await;
    assert_eq!(visible, "[('analytics','events'),('analytics','reports')]");
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_can_change_only_safe_settings() {
    let (world, analyst, _) = guarded().await;
    world.app.insert(&theirs()).await;
    for setting in REFUSED {
        let (name, value) = setting.split_once('=').unwrap();
        let parameter = format!("{name}={}", value.replace('{', "%7B").replace('}', "%7D"));
        let said = analyst.refusal(&parameter, COUNT).await;
        assert!(is_no_change(&said), "{setting}: {said}");
        let said = analyst.refusal("", &format!("{COUNT} SETTINGS {name} = '{}'", value.replace('\'', "\\'"))).await;
        assert!(is_no_change(&said), "{setting}: {said}");
    }
    for setting in ALLOWED {
        assert_eq!(analyst.ask_with(setting, COUNT).await, (StatusCode::OK, "2\n".to_owned()), "{setting}");
        assert_eq!(analyst.ask_with(setting, "SELECT DISTINCT day FROM reports").await.1, "2026-01-03\n", "{setting}");
    }
    for (name, value) in LIMITS {
        assert_eq!(analyst.ask(&format!("SELECT toString(getSetting('{name}'))")).await, value, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluates_conditions_only_on_the_accounts_rows() {
    let (world, analyst, _) = guarded().await;
    world.app.insert(&theirs()).await;
    for is_merged in [false, true] {
        if is_merged {
            world.app.merge().await;
        }
        for view in ["events", "reports"] {
            for probe in PROBES {
                for statement in [
                    format!("SELECT count() FROM {view} WHERE {probe}"),
                    format!("SELECT count() FROM {view} WHERE site >= 'test' AND {probe}"),
                    format!("SELECT count() FROM {view} PREWHERE {probe}"),
                    format!("SELECT count() FROM merge('analytics', '^{view}$') WHERE {probe}"),
                    format!("SELECT countIf({probe}) FROM {view}"),
                    format!(
                        "SELECT count() FROM (SELECT * FROM {view} WHERE {probe}) AS one JOIN {view} AS two ON one.content_url = two.content_url"
                    ),
                    format!(
                        "SELECT count() FROM {view} AS one JOIN {view} AS two ON one.site = two.site WHERE {}",
                        probe
                            .replace("(content", "(one.content")
                            .replace("(host", "(one.host")
                            .replace("(site", "(one.site")
                            .replace("(day", "(one.day")
                            .replace("(event", "(one.event")
                            .replace("8(content", "8(one.content")
                    ),
                    format!("SELECT max(at) FROM {view} WHERE {probe} ORDER BY 1 LIMIT 1"),
                    format!("SELECT * FROM (SELECT * FROM {view} WHERE {probe} LIMIT 1 BY host) FORMAT Null"),
                    format!("SELECT * FROM {view} WHERE {probe} ORDER BY at DESC LIMIT 1 FORMAT Null"),
                ] {
                    let (status, said) = analyst.ask_with("", &statement).await;
                    let is_no_form = said.contains("ILLEGAL_PREWHERE");
                    assert!(status == StatusCode::OK || is_no_form, "{statement}: {said}");
                }
            }
        }
        assert_eq!(analyst.number(COUNT).await, 2);
    }
}

/// Replaces a view by one with the same definer but without conditions.
#[tokio::test(flavor = "multi_thread")]
async fn row_policies_hide_others_rows_in_every_view() {
    let (world, analyst, _) = guarded().await;
    let upkeep = Analyst { login: "telemetry_analysts".to_owned(), ..analyst.clone() };
    world.app.insert(&[&theirs()[..], &[fetch_on("ab.test", 8), fetch_on("a-b.test", 9)]].concat()).await;
    let hosts = "['test.a','test.a.shop']".to_owned();
    for (table, column, visible) in [("events", "site", hosts), ("analyst_access", "login", format!("['{}']", analyst.login))] {
        let view = format!(
            "CREATE OR REPLACE VIEW analytics.reports (seen Array(String)) DEFINER = telemetry_analyst_views SQL SECURITY DEFINER AS \
             SELECT arraySort(groupUniqArray({column})) AS seen FROM telemetry.{table}"
        );
        upkeep.ask(&view).await;
        assert_eq!(analyst.ask("SELECT seen FROM analytics.reports").await, visible, "{table}");
    }
}

/// The client chooses `currentUser`, so the views must use the authenticated user.
#[tokio::test(flavor = "multi_thread")]
async fn clients_cannot_claim_to_be_another_account() {
    let (world, analyst, other) = guarded().await;
    world.app.insert(&theirs()).await;
    let port = world.server.as_ref().unwrap().native_port();
    let asked = tokio::task::spawn_blocking(move || {
        let mut native = NativeClient::open(port, &analyst.login, PASSWORD).unwrap();
        let user = native.ask_for(&other.login, "SELECT currentUser()").unwrap();
        assert_eq!(user, std::slice::from_ref(&other.login), "the claimed user has an effect");
        native.ask_for(&other.login, "SELECT DISTINCT host FROM events ORDER BY host").unwrap()
    });
    assert_eq!(asked.await.unwrap(), ["a.test", "shop.a.test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_day_and_site_use_the_primary_key() {
    let (world, analyst, _) = guarded().await;
    let of_day =
        |day: u32| (0..2_000).map(move |key| fetch_on("a.test", u128::from(day * 10_000 + key)).after(i64::from(day) * DAY_MS));
    world.app.insert(&(2..12).flat_map(of_day).collect::<Vec<_>>()).await;
    let others = (0..20_000).map(|key| fetch_on("b.test", key).after(3 * DAY_MS));
    world.app.insert(&others.collect::<Vec<_>>()).await;
    for view in ["events", "reports"] {
        let granules = async |condition: &str| {
            let plan = analyst.ask(&format!("EXPLAIN indexes = 1 SELECT count() FROM {view} WHERE {condition}")).await;
            // Selected and total granules of the last index.
            let last = plan.lines().filter_map(|line| line.trim().strip_prefix("Granules: ")).next_back().unwrap().to_owned();
            let (selected, all) = last.split_once('/').unwrap();
            (selected.parse::<u64>().unwrap(), all.parse::<u64>().unwrap())
        };
        let (own, all) = granules("1").await;
        assert!(own < all * 6 / 10, "{view}: the hosts of others are skipped: {own} of {all}");
        for condition in ["day = '2026-01-05'", "at >= '2026-01-05 00:00:00' AND at < '2026-01-06 00:00:00'"] {
            let (day, _) = granules(condition).await;
            assert!(day < own / 4, "{view} {condition}: {day} of {own}");
        }
        assert!(granules("site = 'test.a.shop'").await.0 <= 2, "{view}");
    }
}

/// See docs/operating/analytics.md#what-an-account-can-learn-about-others.
#[tokio::test(flavor = "multi_thread")]
async fn read_statistics_reveal_only_granules_next_to_own_rows() {
    const GRANULE: u64 = 256;
    let (world, analyst, other) = guarded().await;
    let others = (0..20_000).map(|key| fetch_on("b.test", key).after(3 * DAY_MS));
    world.app.insert(&others.collect::<Vec<_>>()).await;
    world.app.insert(&theirs()).await;
    world.app.merge().await;
    for view in ["events", "reports"] {
        let sizes = async |analyst: &Analyst| {
            let statement = format!("SELECT content_url FROM {view}");
            // Columns: database, table, parts, rows, marks.
            let estimate = analyst.ask(&format!("EXPLAIN ESTIMATE {statement}")).await;
            let rows = |line: &str| line.split('\t').nth(3).unwrap().parse::<u64>().unwrap();
            let response: serde_json::Value =
                serde_json::from_str(&analyst.ask(&format!("{statement} FORMAT JSON")).await).unwrap();
            (estimate.lines().map(rows).sum::<u64>(), response["statistics"]["rows_read"].as_u64().unwrap())
        };
        let (estimated, read) = sizes(&analyst).await;
        assert!((1..=2 * GRANULE).contains(&estimated), "{view}: {estimated} rows estimated");
        assert!((1..=4 * GRANULE).contains(&read), "{view}: {read} rows read");
        let (estimated, read) = sizes(&other).await;
        assert!(estimated >= 20_000 && read >= 20_000, "{view}: {estimated} and {read} rows of the other account");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_definitions_hide_others_hosts() {
    let (world, analyst, _) = guarded().await;
    world.app.insert(&theirs()).await;
    for view in ["events", "reports"] {
        let count = format!("SELECT count() FROM {view} WHERE day > '2026-01-01'");
        let mut shown = Vec::new();
        for explain in [
            "EXPLAIN",
            "EXPLAIN PLAN header = 1, description = 1, actions = 1, indexes = 1, projections = 1, sorting = 1",
            "EXPLAIN PLAN json = 1, actions = 1, indexes = 1",
            "EXPLAIN PIPELINE header = 1",
            "EXPLAIN QUERY TREE dump_ast = 1",
            "EXPLAIN SYNTAX run_query_tree_passes = 1",
            "EXPLAIN AST",
            "EXPLAIN ESTIMATE",
        ] {
            let (status, text) = analyst.ask_with("", &format!("{explain} {count}")).await;
            assert_eq!(status, StatusCode::OK, "{explain}: {text}");
            shown.push(text);
        }
        shown.push(analyst.ask(&format!("SHOW CREATE VIEW {view}")).await);
        for text in shown {
            assert!(!["test.a.blog", "blog.a.test", "test.b", "b.test", "nota"].iter().any(|host| text.contains(host)), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_cannot_sign_in() {
    let (_world, analyst, other) = guarded().await;
    let definer = "telemetry_analyst_views";
    for (user, password) in
        [(&*analyst.login, "wrong"), (&analyst.login, ""), (definer, ""), (definer, PASSWORD), (&other.login, "x")]
    {
        let answer = client().post(&analyst.url).basic_auth(user, Some(password)).body("SELECT 1").send().await.unwrap();
        let (status, said) = (answer.status(), answer.text().await.unwrap());
        assert!(!status.is_success() && said.contains("AUTHENTICATION_FAILED"), "{user} {password}: {status} {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upkeep_account_cannot_change_users_or_tables() {
    let (world, analyst, _) = guarded().await;
    world.app.insert(&theirs()).await;
    let upkeep = Analyst { login: "telemetry_analysts".to_owned(), ..analyst };
    for statement in [
        "CREATE USER mine",
        "ALTER USER telemetry_analyst_000000000001 IDENTIFIED BY 'mine'",
        "GRANT SELECT ON telemetry.* TO telemetry_analysts",
        "CREATE ROW POLICY mine ON telemetry.events USING 1 TO ALL",
        "SELECT * FROM telemetry.reports",
        "SELECT * FROM telemetry.writers",
        "INSERT INTO telemetry.events (site) VALUES ('x')",
        "INSERT INTO telemetry.sites (site) VALUES ('x')",
        "INSERT INTO telemetry.writers (epoch) VALUES (9)",
        "TRUNCATE TABLE telemetry.analyst_access",
        "DROP TABLE telemetry.events",
        "CREATE TABLE telemetry.mine (x UInt8) ENGINE = Memory",
        "CREATE DATABASE mine ENGINE = Atomic",
        "DROP DATABASE telemetry",
        "DROP DATABASE analytics",
        "CREATE VIEW analytics.mine DEFINER = default SQL SECURITY DEFINER AS SELECT 1",
        "CREATE VIEW analytics.mine SQL SECURITY NONE AS SELECT * FROM telemetry.events",
        "SELECT * FROM system.users",
        "SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'x UInt8')",
    ] {
        let said = upkeep.refusal("", statement).await;
        assert!(said.contains("ACCESS_DENIED"), "{statement}: {said}");
    }
}
