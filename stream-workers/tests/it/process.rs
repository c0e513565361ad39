//! The binary from an operator's point of view: rejected settings, health, metrics, exit codes.

use crate::metrics::wait_for_lines;
use crate::test_app::{NEW_YEAR_US, RunningWorker, Setting, TestApp, Workers, event, record};
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};
use service_kit::kafka;
use service_kit::testing::{client, eventually};

/// Returns the rejection without the log lines before it.
async fn refusal(app: &TestApp, besides: impl IntoIterator<Item = Setting>) -> String {
    let (code, _, stderr) = app.command_with(&[], besides).await;
    assert_eq!(code, Some(1), "{stderr}");
    let plain: Vec<&str> = stderr.lines().filter(|line| !line.starts_with('{')).collect();
    let [line] = plain.as_slice() else { panic!("expected one line:\n{stderr}") };
    (*line).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_topics_that_lose_records() {
    let app = Workers::start().await;
    let missing = refusal(&app, [("TELEMETRY_TOPIC", "test_absent".to_owned())]).await;
    assert_eq!(missing, "topic test_absent does not exist: create it with `telemetry stream-workers prepare`");
    let topic = &app.stores.kafka.topic;
    let admin = kafka::admin(&app.stores.kafka).unwrap();
    for (setting, wrong, said) in [
        ("cleanup.policy", "compact", "cleanup.policy is compact, which drops records that share a key"),
        ("unclean.leader.election.enable", "true", "a stale broker can become the leader"),
        ("max.message.bytes", "1000000", "max.message.bytes is 1000000"),
    ] {
        // This also resets the settings that it doesn't name.
        let alter = AlterConfig::new(ResourceSpecifier::Topic(topic));
        let alter = if setting == "max.message.bytes" { alter } else { alter.set("max.message.bytes", "9000000") };
        let alter = alter.set(setting, wrong);
        admin.alter_configs(&[alter], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
        eventually("the setting applies", || async { kafka::check_topics(&app.stores.kafka).await.is_err().then_some(()) }).await;
        let line = refusal(&app, []).await;
        assert!(line.starts_with(&format!("topic {topic}: {said}")), "{line}");
        let fix = format!("; run kafka-configs.sh --alter --topic {topic} --add-config {setting}=");
        assert!(line.contains(&fix), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prepare_is_idempotent() {
    let app = Workers::start().await;
    let topic = format!("{}_prepared", app.stores.name);
    app.clickhouse.query("DROP TABLE events SYNC").execute().await.unwrap();
    for _ in 0..2 {
        let (code, _, stderr) = app.command_with(&["prepare"], [("TELEMETRY_TOPIC", topic.clone())]).await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
    }
    assert_eq!(app.events().await, 0, "the table exists");
}

/// Exit code 0 also means that it took less than ten seconds. A slower drain exits with another code.
#[tokio::test(flavor = "multi_thread")]
async fn worker_reports_its_health_and_stops() {
    let app = Workers::start().await;
    let RunningWorker { mut process, listen, metrics } = app.watched([]).await;
    process.wait_until_ok(&format!("http://{listen}/ready")).await;
    let ready: serde_json::Value = client().get(format!("http://{listen}/ready")).send().await.unwrap().json().await.unwrap();
    assert_eq!(ready, serde_json::json!({"status": "ok", "clickhouse": "ok", "kafka": "ok", "database": "ok"}));
    let document = client().get(format!("http://{listen}/openapi.json")).send().await.unwrap();
    let document: serde_json::Value = document.json().await.unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/health", "/openapi.json", "/ready"]);
    let (code, _, stderr) = app.command_with(&["health"], [("TELEMETRY_LISTEN", listen.clone())]).await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));

    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1), event(1), event(2)]))]).await;
    app.log.put(0, b"poison").await;
    app.caught_up().await;
    let expected =
        ["worker_records_total 2", "worker_events_stored_total 3", "worker_records_rejected_total 1", "worker_active 1"];
    wait_for_lines(&metrics, &expected).await;
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
    let (code, _, stderr) = app.command_with(&["health"], [("TELEMETRY_LISTEN", listen.clone())]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("TELEMETRY_LISTEN={listen}: no healthy process at this address")), "{stderr}");
}
