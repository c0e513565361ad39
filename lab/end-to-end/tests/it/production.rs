//! With `TELEMETRY_PROFILE=production`, each binary rejects unsafe settings with one line that names the setting, its value and the fix.
//! Also tests that three brokers require replication in every profile.

use crate::pipeline::process;
use local::test_servers::Kafka;
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use service_kit::testing::{TestStores, free_address};

pub(crate) type Settings = Vec<(&'static str, String)>;

pub(crate) fn set(mut settings: Settings, name: &'static str, value: &str) -> Settings {
    settings.retain(|(known, _)| *known != name);
    if !value.is_empty() {
        settings.push((name, value.to_owned()));
    }
    settings
}

/// Starts a binary, which must exit with 1. Returns the only line that isn't a log line.
pub(crate) async fn refusal(service: &str, arguments: &[&str], settings: &Settings) -> String {
    let mut process = process(service, arguments, settings);
    let code = process.exit_code().await;
    let said = process.stderr();
    assert_eq!(code, Some(1), "{service} {arguments:?}: {said}");
    let plain: Vec<&str> = said.lines().filter(|line| !line.starts_with('{')).collect();
    let [line] = plain.as_slice() else { panic!("not exactly one line:\n{said}") };
    // Operator commands print an `error: ` prefix.
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Returns settings that every binary accepts in production. The stores don't exist, because settings are checked before connecting.
pub(crate) fn clean() -> Settings {
    let nobody = free_address();
    [
        ("TELEMETRY_PROFILE", "production".to_owned()),
        ("TELEMETRY_LISTEN", "127.0.0.1:0".to_owned()),
        ("TELEMETRY_METRICS_LISTEN", "127.0.0.1:0".to_owned()),
        ("KAFKA_BROKERS", nobody.to_string()),
        ("TELEMETRY_KAFKA_SECURITY", "sasl-ssl".to_owned()),
        ("TELEMETRY_KAFKA_USER", "telemetry".to_owned()),
        ("TELEMETRY_KAFKA_PASSWORD", "hunter2".to_owned()),
        ("DATABASE_URL", format!("postgres://telemetry:hunter2@{nobody}/telemetry?sslmode=verify-full")),
        ("CLICKHOUSE_URL", format!("https://telemetry:hunter2@{nobody}")),
        ("TELEMETRY_SECRETS_KEY", service_kit::secret_encryption::SecretsKey::generate().reveal().to_owned()),
        ("TELEMETRY_PUBLIC_URL", "https://telemetry.example.com".to_owned()),
        ("TELEMETRY_SMTP_URL", "smtps://u:hunter2@mail.example.com".to_owned()),
        ("TELEMETRY_MAIL_FROM", "telemetry@example.com".to_owned()),
        ("TELEMETRY_TRUSTED_PROXIES", "none".to_owned()),
    ]
    .into()
}

const KAFKA: (&str, &str, &str) = (
    "TELEMETRY_KAFKA_SECURITY",
    "sasl-plaintext",
    "TELEMETRY_KAFKA_SECURITY=sasl-plaintext: production requires TLS to the brokers; set it to ",
);
const POSTGRES: (&str, &str, &str) = (
    "DATABASE_URL",
    "postgres://u:hunter2@db.test/t",
    "DATABASE_URL=db.test:5432: production requires TLS to PostgreSQL; add ?sslmode=verify-full",
);
const CLICKHOUSE: (&str, &str, &str) = (
    "CLICKHOUSE_URL",
    "http://u:hunter2@ch.test:8123",
    "CLICKHOUSE_URL=http://ch.test:8123: production requires TLS to ClickHouse; use https://",
);
const RECEIVERS: (&str, &str, &str) =
    ("WEBHOOK_ALLOW", "localhost:9443", "WEBHOOK_ALLOW=localhost:9443: production calls only public servers; remove ");
const AUTHORITY: (&str, &str, &str) =
    ("WEBHOOK_EXTRA_CA", "/own.pem", "WEBHOOK_EXTRA_CA=/own.pem: production trusts only the system's authorities; remove it");
const MAIL: (&str, &str, &str) =
    ("TELEMETRY_SMTP_URL", "", "TELEMETRY_MAIL_DIR=: production requires SMTP; set TELEMETRY_SMTP_URL ");
const SMTP: (&str, &str, &str) = (
    "TELEMETRY_SMTP_URL",
    "smtp://u:hunter2@mail.test",
    "TELEMETRY_SMTP_URL: production requires TLS to the mail server; use smtps://",
);
const COOKIES: (&str, &str, &str) =
    ("TELEMETRY_PUBLIC_URL", "http://telemetry.test", "TELEMETRY_PUBLIC_URL=http://telemetry.test/: production requires TLS, ");
const PROXIES: (&str, &str, &str) =
    ("TELEMETRY_TRUSTED_PROXIES", "", "TELEMETRY_TRUSTED_PROXIES is not set: production requires it; ");
const KEY: (&str, &str, &str) = ("TELEMETRY_SECRETS_KEY", "", "TELEMETRY_SECRETS_KEY is not set: generate a key once with ");

#[tokio::test(flavor = "multi_thread")]
async fn production_rejects_development_settings() {
    for (service, mode, refused) in [
        ("ingest-gateway", "", &[PROXIES, KAFKA, POSTGRES][..]),
        ("stream-workers", "", &[KAFKA, POSTGRES, CLICKHOUSE]),
        ("stream-workers", "prepare", &[KAFKA, POSTGRES, CLICKHOUSE]),
        ("stream-workers", "rebuild", &[KAFKA, POSTGRES, CLICKHOUSE]),
        ("stream-workers", "deliver", &[POSTGRES, RECEIVERS, AUTHORITY, KEY]),
        ("query-api", "", &[PROXIES, POSTGRES, CLICKHOUSE]),
        ("identity-api", "", &[PROXIES, POSTGRES, RECEIVERS, AUTHORITY, MAIL, SMTP, COOKIES, KEY]),
        ("identity-api", "migrate", &[POSTGRES]),
    ] {
        let arguments: Vec<&str> = [mode].into_iter().filter(|mode| !mode.is_empty()).collect();
        for (setting, value, expected) in refused {
            let line = refusal(service, &arguments, &set(clean(), setting, value)).await;
            assert!(line.starts_with(expected), "{service} {mode} {setting}: {line}");
            assert!(!line.contains("hunter2"), "{line}");
        }
    }
    let line = refusal("all", &[], &clean()).await;
    assert!(line.starts_with("TELEMETRY_PROFILE=production: `telemetry all` creates a demo tenant"), "{line}");
}

/// Starts three brokers without proxies.
async fn cluster(folder: &std::path::Path) -> (Vec<Kafka>, KafkaSettings) {
    let (at, proxies) = (folder.to_owned(), [free_address().port(), free_address().port(), free_address().port()]);
    let brokers = tokio::task::spawn_blocking(move || Kafka::cluster_behind_proxies(&at, &proxies)).await.unwrap().unwrap();
    let addresses: Vec<String> = brokers.iter().map(Kafka::internal_address).collect();
    (brokers, KafkaSettings::at(addresses.join(",")))
}

#[tokio::test(flavor = "multi_thread")]
async fn three_brokers_require_full_replication() {
    let folder = tempfile::tempdir().unwrap();
    let (_brokers, kafka) = cluster(folder.path()).await;
    kafka::create_topics(&kafka).await.unwrap();
    let production = |topic: &str| KafkaSettings { topic: topic.to_owned(), must_replicate: true, ..kafka.clone() };
    kafka::check_topics(&production(&kafka.topic)).await.expect("topics created by prepare were rejected");

    let admin = kafka::admin(&kafka).unwrap();
    let topic = |name, copies, in_sync| {
        NewTopic::new(name, 1, TopicReplication::Fixed(copies))
            .set("max.message.bytes", "9000000")
            .set("min.insync.replicas", in_sync)
    };
    let topics = [topic("hasty", 3, "1"), topic("lonely", 1, "1"), topic("pair", 2, "2")];
    for made in admin.create_topics(&topics, &AdminOptions::new()).await.unwrap() {
        made.unwrap();
    }
    let hasty = "topic hasty: min.insync.replicas is 1 of 3, so one broker alone can acknowledge a record; \
        run kafka-configs.sh --alter --topic hasty --add-config min.insync.replicas=2";
    for (topic, development, in_production) in [
        ("hasty", Some(hasty), hasty),
        (
            "lonely",
            None,
            "topic lonely: 1 of the 3 copies that production requires; run kafka-reassign-partitions.sh, or create the topic again with 3 brokers",
        ),
        (
            "pair",
            None,
            "topic pair: 2 of the 3 copies that production requires; run kafka-reassign-partitions.sh, or create the topic again with 3 brokers",
        ),
    ] {
        let own = KafkaSettings { topic: topic.to_owned(), ..kafka.clone() };
        let refused = kafka::check_topics(&own).await.err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), development, "{topic}");
        assert_eq!(kafka::check_topics(&production(topic)).await.unwrap_err().to_string(), in_production);
    }

    let stores = TestStores::fresh().await;
    let own: Settings = [
        ("TELEMETRY_LISTEN", "127.0.0.1:0".to_owned()),
        ("TELEMETRY_METRICS_LISTEN", "127.0.0.1:0".to_owned()),
        ("KAFKA_BROKERS", kafka.kafka_brokers.clone()),
        ("TELEMETRY_TOPIC", "hasty".to_owned()),
        ("DATABASE_URL", stores.postgres.database_url.clone()),
        ("CLICKHOUSE_URL", stores.clickhouse.clickhouse_url.clone()),
    ]
    .into();
    assert_eq!(refusal("stream-workers", &[], &set(own.clone(), "TELEMETRY_CLICKHOUSE_DATABASE", &stores.name)).await, hasty);
    let spill = folder.path().join("spill");
    assert_eq!(refusal("ingest-gateway", &[], &set(own, "TELEMETRY_SPILL_DIR", spill.to_str().unwrap())).await, hasty);
}
