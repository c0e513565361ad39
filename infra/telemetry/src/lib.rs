//! The one program of the product: each service is a subcommand, and so is what people do with it.
//!
//! Must stay a table of contents: everything it does is in the crates that it names.

mod secrets;

use clap::{CommandFactory, Parser, Subcommand};
use service_kit::clock::Clock;
use service_kit::command;
use std::process::ExitCode;

/// Content telemetry: what people do with it, the services, and what operators do with them
#[derive(Parser, Clone, Debug)]
#[command(name = "telemetry", version)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    command: Command,
}

/// What the program can do.
#[derive(Subcommand, Clone, Debug)]
enum Command {
    #[command(flatten)]
    People(telemetry_cli::Command),
    /// Takes telemetry over HTTP and puts it on the log
    IngestGateway(ingest_gateway::Cli),
    /// Reads the log, removes repeats and writes ClickHouse; delivers webhooks
    StreamWorkers(stream_workers::Cli),
    /// Answers reads of telemetry over HTTP
    QueryApi(query_api::Cli),
    /// Keeps organisations, keys, domains, delegations and webhook endpoints
    IdentityApi(identity_api::Cli),
    /// Serves the web console
    Console(web_console::Cli),
    /// Makes the secrets of a deployment by docker-compose.yml, as lines of an environment file
    Secrets(secrets::Secrets),
}

/// Does what was asked for, until its end.
pub async fn start(cli: Cli) -> ExitCode {
    match cli.command {
        Command::People(command) => telemetry_cli::run(command, Cli::command(), Clock::System).await,
        Command::IngestGateway(cli) => ingest_gateway::start(cli).await,
        Command::StreamWorkers(cli) => stream_workers::start(cli).await,
        Command::QueryApi(cli) => query_api::start(cli).await,
        Command::IdentityApi(cli) => identity_api::start(cli).await,
        Command::Console(cli) => web_console::start(cli).await,
        Command::Secrets(secrets) => command::run(async { secrets.write() }).await,
    }
}
