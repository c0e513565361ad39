//! The binary as an operator meets it: refusals, help, health, metrics, exit codes.

use crate::scrape::says;
use crate::test_app::{NEW_YEAR_US, TestApp, event, record};
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};
use service_kit::kafka;
use service_kit::testing::{TestProcess, client, eventually, free_address};

/// Starts the binary with these settings, waits for its end and returns its exit code, stdout and stderr.
async fn ended(arguments: &[&str], environment: &[(&'static str, String)]) -> (Option<i32>, String, String) {
    let mut process = TestProcess::service(arguments, environment);
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

fn environment(app: &TestApp) -> Vec<(&'static str, String)> {
    app.environment(&free_address().to_string(), &free_address().to_string())
}

fn set(mut environment: Vec<(&'static str, String)>, name: &'static str, value: &str) -> Vec<(&'static str, String)> {
    environment.retain(|(known, _)| *known != name);
    environment.push((name, value.to_owned()));
    environment
}

/// The refusal without what was logged before it.
async fn refusal(environment: &[(&'static str, String)]) -> String {
    let (code, _, stderr) = ended(&[], environment).await;
    assert_eq!(code, Some(1), "{stderr}");
    let plain: Vec<&str> = stderr.lines().filter(|line| !line.starts_with('{')).collect();
    let [line] = plain.as_slice() else { panic!("one line says it all:\n{stderr}") };
    (*line).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_or_server_is_named_with_the_fix() {
    let app = TestApp::new().await;
    let without_topic = set(environment(&app), "TELEMETRY_TOPIC", "test_absent");
    assert_eq!(
        refusal(&without_topic).await,
        "topic test_absent does not exist: create it with `telemetry stream-workers prepare`"
    );

    let nobody = free_address();
    let line = refusal(&set(environment(&app), "CLICKHOUSE_URL", &format!("http://{nobody}"))).await;
    assert!(line.starts_with(&format!("CLICKHOUSE_URL={nobody}: ClickHouse does not answer (")), "{line}");
    assert!(line.ends_with("; start it, or correct the address"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_would_lose_records_is_refused_with_the_fix() {
    let app = TestApp::new().await;
    let topic = &app.stores.kafka.topic;
    let admin = kafka::admin(&app.stores.kafka).unwrap();
    for (setting, wrong, said) in [
        ("cleanup.policy", "compact", "cleanup.policy is compact, which drops records that share a key"),
        ("unclean.leader.election.enable", "true", "a broker that missed records may lead"),
        ("max.message.bytes", "1000000", "max.message.bytes is 1000000"),
    ] {
        // Takes back whatever it does not set.
        let alter = AlterConfig::new(ResourceSpecifier::Topic(topic));
        let alter = if setting == "max.message.bytes" { alter } else { alter.set("max.message.bytes", "9000000") };
        let alter = alter.set(setting, wrong);
        admin.alter_configs(&[alter], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
        eventually("the broker says so", || async { kafka::check_topics(&app.stores.kafka).await.is_err().then_some(()) }).await;
        let line = refusal(&environment(&app)).await;
        assert!(line.starts_with(&format!("topic {topic}: {said}")), "{line}");
        let fix = format!("; run kafka-configs.sh --alter --topic {topic} --add-config {setting}=");
        assert!(line.contains(&fix), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_unknown_missing_or_wrong_are_refused_by_name() {
    let app = TestApp::new().await;
    let unknown = set(environment(&app), "TELEMETRY_GROPU", "x");
    let wrong = set(environment(&app), "TELEMETRY_LISTEN", "here");
    let missing: Vec<_> = environment(&app).into_iter().filter(|(name, _)| *name != "KAFKA_BROKERS").collect();
    for (settings, named) in [(unknown, "TELEMETRY_GROPU"), (wrong, "TELEMETRY_LISTEN"), (missing, "KAFKA_BROKERS")] {
        let (code, stdout, stderr) = ended(&[], &settings).await;
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{named}: {stderr}");
        assert!(stderr.contains(named) && stderr.contains("--help"), "{named}: {stderr}");
        assert_eq!(stderr.trim().lines().count(), 1, "{named}: {stderr}");
    }
    let (code, help, stderr) = ended(&["--help"], &[]).await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for (name, _) in environment(&app) {
        assert!(help.contains(name), "{name} is explained:\n{help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preparing_twice_is_as_good_as_once() {
    let app = TestApp::new().await;
    let topic = format!("{}_prepared", app.stores.name);
    let settings = set(environment(&app), "TELEMETRY_TOPIC", &topic);
    app.clickhouse.query("DROP TABLE events SYNC").execute().await.unwrap();
    for _ in 0..2 {
        let (code, _, stderr) = ended(&["prepare"], &settings).await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(app.events().await, 0, "the table is there");
}

/// That the exit code is 0 also says that it took less than ten seconds: a slower drain gives up with another code.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_worker_says_how_it_is_and_stops_when_asked() {
    let app = TestApp::new().await;
    let (listen, metrics) = (free_address().to_string(), free_address().to_string());
    let mut process = app.process_at(&listen, &metrics).await;
    process.answers(&format!("http://{listen}/ready")).await;
    let ready: serde_json::Value = client().get(format!("http://{listen}/ready")).send().await.unwrap().json().await.unwrap();
    assert_eq!(ready, serde_json::json!({"status": "ok", "clickhouse": "ok", "kafka": "ok", "database": "ok"}));
    let document = client().get(format!("http://{listen}/openapi.json")).send().await.unwrap();
    let document: serde_json::Value = document.json().await.unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/health", "/openapi.json", "/ready"]);
    let (code, _, stderr) = ended(&["health"], &set(environment(&app), "TELEMETRY_LISTEN", &listen)).await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));

    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1), event(1), event(2)]))]).await;
    app.log.put(0, b"poison").await;
    app.caught_up().await;
    let expected =
        ["worker_records_total 2", "worker_events_stored_total 3", "worker_records_rejected_total 1", "worker_active 1"];
    says(&metrics, &expected).await;
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
    let (code, _, stderr) = ended(&["health"], &set(environment(&app), "TELEMETRY_LISTEN", &listen)).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("TELEMETRY_LISTEN={listen}: no healthy process there")), "{stderr}");
}
