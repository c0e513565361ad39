//! The last screen of `cargo up`: what runs where, and three lines to paste.
//!
//! Must print only lines that work as they are.

use crate::demo_env::DemoEnv;
use chrono::{DateTime, SecondsFormat, Utc};

/// Prints the screen.
pub(crate) fn print(demo: &DemoEnv, now: DateTime<Utc>) {
    println!("{}", screen(demo, now));
}

fn screen(demo: &DemoEnv, now: DateTime<Utc>) -> String {
    let (base, agent_key, owner_key) = (demo.get("BASE_URL"), demo.get("AGENT_KEY"), demo.get("OWNER_KEY"));
    let event = format!(
        r#"{{"events":[{{"type":"content_retrieved","timestamp":"{}","source_role":"agent","session_id":"{}","content_url":"https://www.example.com/first","content_telemetry_id":"{}"}}]}}"#,
        now.to_rfc3339_opts(SecondsFormat::Millis, true),
        uuid::Uuid::new_v4(),
        uuid::Uuid::new_v4(),
    );
    format!(
        "\nThe service is up on {base} (Kafka {}, ClickHouse {}, metrics {}).\n\
         Keys, sessions and addresses are in demo.env of the state folder (.local); stop with Ctrl-C.\n\n\
         Report that an agent fetched a page of example.com:\n\n\
         curl -sS {base}/events -H 'X-API-Key: {agent_key}' -H 'Content-Type: application/json' -d '{event}'\n\n\
         Read it back as the owner of example.com (within a second):\n\n\
         curl -sS {base}/content-owners/summary -H 'X-API-Key: {owner_key}'\n\n\
         Ask who answers for a page:\n\n\
         curl -sS '{base}/resolve?url=https://www.example.com/first'\n",
        demo.get("KAFKA_BROKERS"),
        demo.get("CLICKHOUSE_URL"),
        demo.get("METRICS_URL"),
    )
}
