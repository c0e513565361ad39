//! The last screen of `cargo up`: what runs where, and three lines to paste.
//!
//! Must print only lines that work as they are, and no key and no password: what is printed may end up in a log. The lines read
//! keys from `demo.env`.

use crate::demo_env::{self, DemoEnv};
use chrono::{DateTime, SecondsFormat, Utc};
use std::path::Path;

/// Prints the screen.
pub(crate) fn print(demo: &DemoEnv, folder: &Path, now: DateTime<Utc>) {
    println!("{}", screen(demo, folder, now));
}

fn screen(demo: &DemoEnv, folder: &Path, now: DateTime<Utc>) -> String {
    let (base, file) = (demo.get("BASE_URL"), demo_env::place(folder));
    let quoted = format!("'{}'", file.display().to_string().replace('\'', r"'\''"));
    let event = format!(
        r#"{{"events":[{{"type":"content_retrieved","timestamp":"{}","source_role":"agent","session_id":"{}","content_url":"https://www.example.com/first","content_telemetry_id":"{}"}}]}}"#,
        now.to_rfc3339_opts(SecondsFormat::Millis, true),
        uuid::Uuid::new_v4(),
        uuid::Uuid::new_v4(),
    );
    format!(
        "\nThe service is up on {base} (Kafka {}, metrics {}).\n\
         Keys, sessions and addresses are in {}; stop with Ctrl-C.\n\n\
         Open the console in a browser: {base}\n\
         Sign in there as owner@example.com, or as operator@example.net for what operators see; the mail with the link is the\n\
         newest file in {}.\n\n\
         Report that an agent fetched a page of example.com:\n\n\
         (. {quoted}; curl -sS {base}/events -H \"X-API-Key: $AGENT_KEY\" -H 'Content-Type: application/json' -d '{event}')\n\n\
         Read it back as the owner of example.com (within a second):\n\n\
         (. {quoted}; curl -sS {base}/content-owners/summary -H \"X-API-Key: $OWNER_KEY\")\n\n\
         Ask who answers for a page:\n\n\
         curl -sS '{base}/resolve?url=https://www.example.com/first'\n",
        demo.get("KAFKA_BROKERS"),
        demo.get("METRICS_URL"),
        file.display(),
        folder.join("mail").display(),
    )
}
