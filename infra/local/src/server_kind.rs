//! The kinds of servers in the stack, with their names, versions, ports and settings.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::platform;

/// Name of the database and the user in PostgreSQL and ClickHouse.
pub(crate) const TELEMETRY: &str = "telemetry";

/// The servers of the stack.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum ServerKind {
    /// Apache Kafka, a single node that is broker and controller.
    Kafka,
    /// PostgreSQL.
    Postgres,
    /// ClickHouse.
    ClickHouse,
}

impl ServerKind {
    /// All kinds, in the order that tables use.
    pub const ALL: [Self; 3] = [Self::Kafka, Self::Postgres, Self::ClickHouse];

    /// Returns the name for folders and the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Postgres => "postgres",
            Self::ClickHouse => "clickhouse",
        }
    }

    /// Returns the product name.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Kafka => "Kafka",
            Self::Postgres => "PostgreSQL",
            Self::ClickHouse => "ClickHouse",
        }
    }

    /// Returns the version that runs here.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Kafka => platform::KAFKA,
            Self::Postgres => platform::POSTGRES,
            Self::ClickHouse => platform::CLICKHOUSE,
        }
    }

    /// Returns the default port.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Kafka => 9092,
            Self::Postgres => 5432,
            Self::ClickHouse => 8123,
        }
    }

    /// Returns whether the stack's server requires a password. Kafka does not, because web pages can only send HTTP.
    pub(crate) fn has_password(self) -> bool {
        self != Self::Kafka
    }

    /// Returns the name of the setting that selects the user's own server.
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
            // PostgreSQL's fast shutdown. With SIGTERM, it would wait for every client to disconnect.
            Self::Postgres => Signal::INT,
            Self::Kafka | Self::ClickHouse => Signal::TERM,
        }
    }

    /// Returns what to do if the server does not start.
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

/// Ports of a server.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServerPorts {
    /// Client port.
    pub port: u16,
    /// Kafka's controller port, or ClickHouse's native port if it is open; otherwise 0.
    pub second_port: u16,
}
