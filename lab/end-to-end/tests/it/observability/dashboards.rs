//! Dashboards use provisioned data sources and existing metrics, and their SQL counts like the API.

use super::promql::faults_of;
use super::{file, read};
use crate::counting::{NEW_YEAR_MS, append_records, random_record};
use crate::pipeline::Pipeline;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use service_kit::testing::{Seed, clickhouse_request, random_seed};
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;

const FOLDER: &str = "infra/observability/grafana/dashboards";
/// Window of the reads in days. Some events are before it and some after it.
const DAYS: i64 = 60;

fn dashboards() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(file(FOLDER)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.map(|name| (name.clone(), serde_json::from_str(&read(&format!("{FOLDER}/{name}"))).unwrap())).collect()
}

/// Returns every target of every panel.
fn targets(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()).collect()
}

/// Returns the SQL of a panel in the publisher dashboard, for one domain and the window.
fn statement(title: &str, domain: &str) -> String {
    let publisher = &dashboards()["publisher.json"];
    let panel = publisher["panels"].as_array().unwrap().iter().find(|panel| panel["title"] == title);
    filled(panel.unwrap_or_else(|| panic!("no panel {title}"))["targets"][0]["rawSql"].as_str().unwrap(), domain)
}

/// Fills in a statement's variables as Grafana does, for one domain and the window.
fn filled(sql: &str, domain: &str) -> String {
    let (from, to) = (NEW_YEAR_MS / 1_000, NEW_YEAR_MS / 1_000 + DAYS * 86_400);
    let sql = sql.replace("${domain:sqlstring}", &format!("'{domain}'"));
    let sql = sql.replace("$__fromTime", &format!("toDateTime({from})")).replace("$__toTime", &format!("toDateTime({to})"));
    assert!(!sql.contains('$'), "unknown Grafana variable: {sql}");
    sql
}

/// Returns every SQL statement in the dashboards, including those for variables.
pub(super) fn statements() -> Vec<String> {
    let mut found = Vec::new();
    for dashboard in dashboards().values() {
        found.extend(targets(dashboard).iter().filter_map(|target| target["rawSql"].as_str().map(str::to_owned)));
        let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
        let of_clickhouse = variables.filter(|variable| variable["datasource"]["type"] == "grafana-clickhouse-datasource");
        found.extend(of_clickhouse.filter_map(|variable| variable["query"].as_str().map(str::to_owned)));
    }
    found.iter().map(|sql| filled(sql, "example.com")).collect()
}

/// Returns ClickHouse's response, one object per row.
async fn rows(pipeline: &Pipeline, title: &str) -> Vec<Value> {
    let settings = &pipeline.stores.clickhouse;
    let numbers = "SETTINGS output_format_json_quote_64bit_integers = 0 FORMAT JSONEachRow";
    let body = format!("{}\n{numbers}", statement(title, "Example.com"));
    let url = format!("{}/?database={}", settings.clickhouse_url, settings.clickhouse_database);
    let answer = clickhouse_request(reqwest::Method::POST, &url).body(body).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{title}: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the set of rows, reduced to these members.
fn only(rows: &[Value], members: &[(&str, &str)]) -> BTreeSet<String> {
    let picked = rows.iter().map(|row| members.iter().map(|(name, own)| ((*name).to_owned(), row[*own].clone())).collect());
    picked.map(|row: serde_json::Map<String, Value>| Value::Object(row).to_string()).collect()
}

/// Sums the numbers of items that the API lists separately and the panel doesn't.
fn summed(items: &[Value], by: &[&str], figures: &[&str]) -> Vec<Value> {
    let mut sums: BTreeMap<String, Value> = BTreeMap::new();
    for item in items {
        let key: Vec<&Value> = by.iter().map(|name| &item[*name]).collect();
        let sum = sums.entry(json!(key).to_string()).or_insert_with(|| {
            let mut sum = json!({});
            by.iter().for_each(|name| sum[*name] = item[*name].clone());
            sum
        });
        figures.iter().for_each(|name| sum[*name] = json!(sum[*name].as_u64().unwrap_or(0) + item[*name].as_u64().unwrap()));
    }
    sums.into_values().collect()
}

#[test]
fn dashboards_use_existing_data_sources_and_metrics() {
    let (sources, mut asked) = (read("infra/observability/grafana/datasources.yml"), 0);
    assert_eq!(dashboards().into_keys().collect::<Vec<_>>(), ["operator.json", "publisher.json"]);
    for (name, dashboard) in dashboards() {
        for target in targets(&dashboard) {
            let (kind, uid) = (target["datasource"]["type"].as_str().unwrap(), target["datasource"]["uid"].as_str().unwrap());
            assert!(sources.contains(&format!("uid: {uid}\n    type: {kind}\n")), "{name}: {uid} of {kind} is not provisioned");
            if let Some(expression) = target["expr"].as_str() {
                assert_eq!(faults_of(expression), Vec::<String>::new(), "{name}");
                asked += 1;
            }
        }
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            if let Some(query) = variable["query"]["query"].as_str() {
                let inside = query.strip_prefix("label_values(").and_then(|rest| rest.rsplit_once(',')).unwrap();
                assert_eq!(faults_of(inside.0), Vec::<String>::new(), "{name}");
            }
        }
    }
    assert!(asked > 20, "hardly any panel was checked: {asked}");
    let home = "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: /etc/grafana/dashboards/operator.json";
    assert!(read("docker-compose.yml").contains(home));
}

#[tokio::test(flavor = "multi_thread")]
async fn publisher_dashboard_shows_the_apis_counts() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let pipeline = Pipeline::start().await;
    let owner = Seed(&pipeline.stores.pool).owner_of("example.com").await;
    let stop = CancellationToken::new();
    let worker = pipeline.spawn_worker(&stop);
    let records = (0..120).map(|number| {
        let mut record = random_record(&mut random);
        for event in record["events"].as_array_mut().unwrap() {
            // With more keys, most fetches have only one or two roles.
            for member in ["own_key", "correlation_key"] {
                let key = event[member].as_str().map(|key| format!("{}{:028x}{}", &key[..2], number % 24, &key[30..]));
                event[member] = json!(key);
            }
        }
        // Lookalike hosts don't belong to the domain.
        let looks_alike = record.to_string().replace("\"com.example\"", "\"com.example-a\"");
        (0, if number % 10 == 0 { looks_alike } else { record.to_string() })
    });
    let records: Vec<(i32, String)> = records.collect();
    // Two blocks with repeats that ClickHouse hasn't merged.
    for part in records.chunks(80).chain([&records[..40]]) {
        append_records(&pipeline, part).await;
        pipeline.caught_up().await;
    }
    let until = chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + DAYS * 86_400_000).unwrap().to_rfc3339();
    let window = format!("since=2026-01-01T00:00:00Z&until={}&limit=1000", until.replace('+', "%2B"));
    let read = async |path: &str| -> Vec<Value> {
        let text = pipeline.read(&owner.key, &format!("/content-owners/{path}{window}")).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        answer["items"].as_array().unwrap_or_else(|| panic!("{path}: {answer}")).clone()
    };

    let (told, shown) = (read("corroboration?").await, rows(&pipeline, "Corroboration per day").await);
    let figures = ["retrievals", "seen_by_both", "claimed_by_agent_only", "seen_by_server_only", "seen_by_neither"];
    let columns = ["retrievals", "both", "claimed_only", "seen_only", "neither"];
    let columns: Vec<(&str, &str)> = [("day", "day")].into_iter().chain(figures.into_iter().zip(columns)).collect();
    let as_told: Vec<(&str, &str)> = [("day", "day")].into_iter().chain(figures.into_iter().zip(figures)).collect();
    assert!(!told.is_empty(), "seed {seed}: the series is empty");
    assert_eq!(only(&shown, &columns), only(&summed(&told, &["day"], &figures), &as_told), "seed {seed}");

    let shown = rows(&pipeline, "Retrievals per day by agent").await;
    let shown: Vec<Value> = shown
        .into_iter()
        .map(|row| json!({"day": row["time"].as_str().unwrap()[..10], "agent_id": row["agent"], "retrievals": row["retrievals"]}))
        .collect();
    let told = summed(&told, &["day", "agent_id"], &["retrievals"]);
    let members = [("day", "day"), ("agent_id", "agent_id"), ("retrievals", "retrievals")];
    assert_eq!(only(&shown, &members), only(&told, &members), "seed {seed}");

    let steps = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let told = summed(&read("funnel?by=day&").await, &[], &steps);
    let told: BTreeMap<&str, Value> = steps.map(|step| (step, told[0][step].clone())).into();
    let shown = rows(&pipeline, "Funnel").await;
    let shown: BTreeMap<&str, Value> = shown.iter().map(|row| (row["name"].as_str().unwrap(), row["events"].clone())).collect();
    assert_eq!(shown, told, "seed {seed}");

    let (told, shown) = (read("urls?").await, rows(&pipeline, "Top URLs").await);
    let told = only(&told, &[("url", "content_url"), ("events", "total_events")]);
    assert_eq!(only(&shown, &[("url", "url"), ("events", "events")]), told, "seed {seed}");
    stop.cancel();
    worker.await.unwrap().unwrap();
}
