//! D4: the service stores no data of people and no IP addresses, from any sender and in any format.
//!
//! `PLANTED` sets the number of planted values. The test must find bots' data in the same places, which proves that it searches the right
//! ones.

use super::{drain_key, request, send_log};
use crate::demo::{Demo, DemoApp, wait_for_events};
use crate::text_excerpt::around;
use chrono::{DateTime, Utc};
use loadgen::log_lines::Format;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Headers;
use rdkafka::{Message, Offset, TopicPartitionList};
use service_kit::kafka;
use service_kit::testing::{clickhouse_request, free_address, size};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Occurs in every person's user agent and nowhere else.
const PERSON: &str = "ZaphodBeeblebrox";
/// Prefixes of all planted IP addresses: a documentation network and a benchmark network.
const ADDRESSES: [&str; 2] = ["2001:db8:dead", "198.18."];
/// The same values in other encodings: bytes as hexadecimal, and text as Base64 at each of the three possible offsets.
const SPELLED: [&str; 4] = ["20010db8dead", "WmFwaG9kQmVlYmxlYnJve", "phcGhvZEJlZWJsZWJyb3", "aYXBob2RCZWVibGVicm94"];
/// Occurs in the paths of pages that bots fetch, and nowhere else.
const KEPT: &str = "kept-by-bots";
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a planted IP address.
fn address(n: usize) -> String {
    match n % 2 {
        0 => format!("{}:{:x}:{:x}::1", ADDRESSES[0], n >> 16, n & 0xffff),
        _ => format!("{}{}.{}", ADDRESSES[1], n >> 8 & 0xff, n & 0xff),
    }
}

/// A place that may contain traces, and its text.
struct Place {
    name: String,
    text: String,
}

/// Returns lines for people: every twentieth line is a bot's, some requests were rejected, and some lines can't be parsed.
fn lines(format: Format, begin: DateTime<Utc>, numbers: std::ops::Range<usize>) -> (Vec<String>, usize) {
    let (mut lines, mut kept) = (Vec::new(), 0);
    for n in numbers {
        let mut request = request(begin, n % 3_000);
        request.id = format!("{}-{n}", format.name().replace([',', ' '], ""));
        request.address = address(n);
        match n % 20 {
            0 => {
                request.path = format!("/{KEPT}/{n}");
                kept += 1;
            }
            1 => request.status = 403,
            _ => request.user_agent = format!("Mozilla/5.0 {PERSON}/{n} Firefox/141.0"),
        }
        lines.push(format.line(&request));
    }
    // In combined logs, text before the time can be the visitor's name. Without quotes, such lines can't be parsed.
    let line = |n| format.line(&request(begin, n)).replace('"', "");
    lines.extend((0..20).map(|n| format!("{} {PERSON} {}", address(n), line(n))));
    (lines, kept)
}

/// Returns the key, headers and value of every record of a topic.
async fn topic(demo: &DemoApp, name: &str) -> Place {
    let (settings, topic) = (demo.stores.kafka.clone(), name.to_owned());
    let text = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = kafka::client(&settings).unwrap().set("group.id", "traces").create().unwrap();
        let metadata = consumer.fetch_metadata(Some(&topic), PATIENCE).unwrap();
        let (mut assigned, mut missing) = (TopicPartitionList::new(), 0);
        for partition in metadata.topics()[0].partitions() {
            let (_, end) = consumer.fetch_watermarks(&topic, partition.id(), PATIENCE).unwrap();
            assigned.add_partition_offset(&topic, partition.id(), Offset::Beginning).unwrap();
            missing += end;
        }
        consumer.assign(&assigned).unwrap();
        let mut text = String::new();
        while missing > 0 {
            let record = consumer.poll(PATIENCE).expect("no record arrived").unwrap();
            let lossy = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            writeln!(text, "{} {}", lossy(record.key()), lossy(record.payload())).unwrap();
            for header in record.headers().into_iter().flat_map(Headers::iter) {
                writeln!(text, "{}: {}", header.key, lossy(header.value)).unwrap();
            }
            missing -= 1;
        }
        text
    })
    .await
    .unwrap();
    Place { name: format!("the topic {name}"), text }
}

/// Returns every row of every PostgreSQL table.
async fn postgres(demo: &DemoApp) -> Vec<Place> {
    let pool = &demo.stores.pool;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relnamespace = 'public'::regnamespace",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut places = Vec::new();
    for table in tables {
        let all = format!("SELECT coalesce(string_agg(t::text, chr(10)), '') FROM \"{table}\" t");
        let text = sqlx::query_scalar(sqlx::AssertSqlSafe(all)).fetch_one(pool).await.unwrap();
        places.push(Place { name: format!("the table {table} of PostgreSQL"), text });
    }
    places
}

/// Returns every row of every ClickHouse table.
async fn clickhouse(demo: &DemoApp) -> Vec<Place> {
    let settings = &demo.stores.clickhouse;
    let ask = async |statement: String| {
        let url = format!("{}/?database={}", settings.clickhouse_url.trim_end_matches('/'), settings.clickhouse_database);
        let asked = clickhouse_request(reqwest::Method::POST, &url);
        let answer = asked.body(statement).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        answer.text().await.unwrap()
    };
    let mut places = Vec::new();
    let tables =
        ask("SELECT name FROM system.tables WHERE database = currentDatabase() AND total_rows > 0 FORMAT TSV".to_owned()).await;
    for table in tables.lines() {
        let text = ask(format!("SELECT * FROM {table} FORMAT JSONEachRow")).await;
        places.push(Place { name: format!("the table {table} of ClickHouse"), text });
    }
    places
}

/// Adds the files in the service's folder to `places`.
fn files(folder: &Path, places: &mut Vec<Place>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, places);
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            places.push(Place { name: path.display().to_string(), text });
        }
    }
}

async fn responses_and_metrics(demo: &DemoApp, metrics: SocketAddr) -> Vec<Place> {
    let owner = demo.env("OWNER_KEY");
    let mut places = Vec::new();
    for path in ["/content-owners/crawlers?limit=1000", "/content-owners/events?limit=1000", "/api/v1/identity/drains"] {
        let text = demo.get(owner, path).await.body.to_string();
        places.push(Place { name: path.to_owned(), text });
    }
    let drains = demo.get(owner, "/api/v1/identity/drains").await.body;
    for drain in drains.as_array().unwrap() {
        let path = format!("/api/v1/identity/drains/{}/health", drain["id"].as_str().unwrap());
        let text = demo.get(owner, &path).await.body.to_string();
        assert!(text.contains("bad_lines"), "{text}");
        places.push(Place { name: path, text });
    }
    let text = demo.client.get(format!("http://{metrics}/metrics")).send().await.unwrap().text().await.unwrap();
    places.push(Place { name: "the metrics".to_owned(), text });
    places
}

/// Returns all data that the service stores or prints.
async fn everything(demo: &DemoApp, metrics: SocketAddr) -> Vec<Place> {
    let mut places = vec![topic(demo, &demo.stores.kafka.topic).await, topic(demo, &demo.stores.kafka.rejected_topic).await];
    places.extend(postgres(demo).await);
    places.extend(clickhouse(demo).await);
    places.extend(responses_and_metrics(demo, metrics).await);
    files(demo.folder(), &mut places);
    places.push(Place { name: "the service's log".to_owned(), text: demo.process.stdout() + &demo.process.stderr() });
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_does_not_store_personal_data() {
    let planted = size("PLANTED", 4_500);
    let metrics = free_address();
    let settings = [("TELEMETRY_LOG", "trace".to_owned()), ("TELEMETRY_METRICS_LISTEN", metrics.to_string())];
    let demo = Demo::start_with(&settings).await;
    let begin = DateTime::from_timestamp(1_793_527_200, 0).unwrap();
    let each = planted.div_ceil(Format::ALL.len());
    let (mut answers, mut all_kept) = (String::new(), 0);
    for (nth, format) in Format::ALL.into_iter().enumerate() {
        let (lines, kept) = lines(format, begin, nth * each..(nth + 1) * each);
        let (body, key) = (format.body(&lines), drain_key(&demo, format).await);
        let taken = send_log(&demo, format, &key, &body, nth % 2 == 0).await;
        assert_eq!(taken.status, 200, "{}: {}", format.name(), taken.body);
        // The errors for incomplete and invalid bodies must not contain parts of the body.
        let half = body[..body.len() / 2].rfind('\n').unwrap();
        let cut = send_log(&demo, format, &key, &body[..half + 12], false).await;
        let other = send_log(&demo, format, &key, &format!("[{body}"), false).await;
        answers += &format!("{} {} {}\n", taken.body, cut.body, other.body);
        all_kept += kept as u64;
    }
    wait_for_events(&demo, all_kept).await;
    demo.caught_up().await;
    let mut places = everything(&demo, metrics).await;
    let has = |name: &str, word: &str| places.iter().any(|place| place.name.contains(name) && place.text.contains(word));
    for (name, word) in [
        (demo.stores.kafka.topic.as_str(), KEPT),
        ("reports of ClickHouse", KEPT),
        ("failed_fetches of ClickHouse", "GPTBot"),
        ("drain_hours of PostgreSQL", "combined"),
        ("drain_bad_lines of PostgreSQL", "aaaaaaa"),
        ("/content-owners/events", KEPT),
        ("the metrics", "gateway_drain_lines_total"),
        ("the service's log", "TRACE"),
    ] {
        assert!(has(name, word), "{word} is not in {name}");
    }
    places.push(Place { name: "the answers".to_owned(), text: answers });
    for Place { name, text } in &places {
        for trace in [PERSON].iter().chain(&ADDRESSES).chain(&SPELLED) {
            let found = text.find(trace);
            assert!(found.is_none(), "{trace} is in {name}: {}", found.map(|at| around(text, at)).unwrap_or_default());
        }
    }
    eprintln!(
        "{planted} planted, searched {} places, {} bytes",
        places.len(),
        places.iter().map(|p| p.text.len()).sum::<usize>()
    );
}
