//! The servers of the stack, by what sets them apart on the outside: name, version, port, setting.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::platform;

/// Database and user, in PostgreSQL and in ClickHouse.
pub(crate) const TELEMETRY: &str = "telemetry";

/// The servers of the stack.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Kind {
    /// Apache Kafka, one node that is broker and controller.
    Kafka,
    /// PostgreSQL.
    Postgres,
    /// ClickHouse.
    ClickHouse,
}

impl Kind {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Self; 3] = [Self::Kafka, Self::Postgres, Self::ClickHouse];

    /// The name used for folders and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Postgres => "postgres",
            Self::ClickHouse => "clickhouse",
        }
    }

    /// The name as its makers write it.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Kafka => "Kafka",
            Self::Postgres => "PostgreSQL",
            Self::ClickHouse => "ClickHouse",
        }
    }

    /// The version that runs here.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Kafka => platform::KAFKA,
            Self::Postgres => platform::POSTGRES,
            Self::ClickHouse => platform::CLICKHOUSE,
        }
    }

    /// The port everybody expects it on.
    #[must_use]
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Kafka => 9092,
            Self::Postgres => 5432,
            Self::ClickHouse => 8123,
        }
    }

    /// Whether the stack's asks for a password. Kafka speaks no HTTP, which is what a web page can send.
    pub(crate) fn has_password(self) -> bool {
        self != Self::Kafka
    }

    /// The setting by which a user names a server of their own.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::Kafka => "KAFKA_BROKERS",
            Self::Postgres => "DATABASE_URL",
            Self::ClickHouse => "CLICKHOUSE_URL",
        }
    }

    pub(crate) fn stop_signal(self) -> Signal {
        match self {
            // PostgreSQL's fast shutdown; its SIGTERM waits for every client to leave
            Self::Postgres => Signal::INT,
            Self::Kafka | Self::ClickHouse => Signal::TERM,
        }
    }

    /// What to do if it doesn't start.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Kafka => {
                "Kafka needs about 500 MB of free memory. If its data is damaged, delete all data with `cargo local wipe`."
            }
            Self::Postgres => "If its data is damaged, delete all data with `cargo local wipe`.",
            Self::ClickHouse => {
                "ClickHouse needs about 400 MB of free memory. If its data is damaged, delete all data with `cargo local wipe`."
            }
        }
    }
}

/// Where one server listens.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Listen {
    /// The port clients use.
    pub port: u16,
    /// Kafka's controller; the native protocol of a ClickHouse that has it open; else 0.
    pub second_port: u16,
}
