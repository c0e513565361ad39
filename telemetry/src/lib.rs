//! The `telemetry` program: the CLI's commands, and each service as a subcommand.

pub mod all;
mod secrets;

use clap::{CommandFactory, Parser, Subcommand};
use service_kit::clock::Clock;
use service_kit::{command_output, process};
use std::process::ExitCode;

/// Content Telemetry: commands for people, and the services
#[derive(Parser, Clone, Debug)]
#[command(name = "telemetry", version)]
pub struct Cli {
    /// Command
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    #[command(flatten)]
    People(telemetry_cli::Command),
    /// Run all services in one process on one address, for development
    All(Box<all::Cli>),
    /// Service: accept events, sessions and logs over HTTP
    IngestGateway(ingest_gateway::Cli),
    /// Service: remove duplicates, fill ClickHouse and deliver webhooks
    StreamWorkers(stream_workers::Cli),
    /// Service: return figures and events over HTTP
    QueryApi(query_api::Cli),
    /// Service: manage organizations, keys, domains, delegations and webhooks
    IdentityApi(identity_api::Cli),
    /// Service: serve the web console
    Console(web_console::Cli),
    /// Create an environment file with the secrets for docker-compose.yml
    Secrets(secrets::Secrets),
}

/// Runs a command to its end.
pub async fn start(cli: Cli) -> ExitCode {
    match cli.command {
        Command::People(command) => telemetry_cli::run(command, Cli::command(), Clock::System).await,
        Command::All(cli) => process::run(|stop| all::run(*cli, Clock::System, stop)).await,
        Command::IngestGateway(cli) => ingest_gateway::start(cli).await,
        Command::StreamWorkers(cli) => stream_workers::start(cli).await,
        Command::QueryApi(cli) => query_api::start(cli).await,
        Command::IdentityApi(cli) => identity_api::start(cli).await,
        Command::Console(cli) => web_console::start(cli).await,
        Command::Secrets(secrets) => command_output::run(async { secrets.write() }).await,
    }
}
