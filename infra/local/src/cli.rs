//! The command line, which dispatches to the other modules.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

use crate::environment::ExternalServers;
use crate::fetch::Cache;
use crate::interrupt::Interrupt;
use crate::prerequisites::{Purpose, ensure_programs};
use crate::progress::Progress;
use crate::stack::{Endpoints, Stack};
use crate::workspace::Workspace;
use crate::{clickhouse, kill_on_exit, logs, status, up, verify};

const AFTER_HELP: &str = "\
The servers listen on 127.0.0.1, on their default ports (9092, 5432, 8123) if those are free. Their data and logs are in
.local in this clone. Downloads are shared by all clones of a user.
To use a server you already have, set KAFKA_BROKERS, DATABASE_URL or CLICKHOUSE_URL.";

/// Run Kafka, PostgreSQL and ClickHouse on this machine for development and tests, without Docker
#[derive(Debug, Parser)]
#[command(name = "cargo local", bin_name = "cargo local", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build and run the whole service until Ctrl-C (`cargo up`)
    ///
    /// Downloads the servers the first time, builds the service, and starts both. Restarts servers that stop unexpectedly.
    /// Stops the servers at the end unless you started them with `cargo local start` or another command uses them.
    Up(up::Options),
    /// Run all checks and tests, as CI does (`cargo verify`)
    ///
    /// Checks format, lints and dependencies, starts the servers and runs the tests. While `cargo up` is running, it uses
    /// the same servers and leaves them running.
    Verify(verify::Options),
    /// Start the servers and leave them running
    ///
    /// Writes their addresses and passwords to .local/servers.env. Servers that are already running are left as they are.
    Start,
    /// Stop the servers and keep their data; fails while `cargo up` or `cargo verify` uses them
    Stop,
    /// Show each server's state, address, data size and log; exits with 0 if all are up, otherwise 3
    Status,
    /// Stop the servers and delete everything in .local: data, logs, demo keys and emails
    Wipe {
        /// Also delete the downloads, which all clones of this user share
        #[arg(long)]
        cache: bool,
    },
    /// Show the end of the servers' logs
    Logs(logs::Options),
    #[command(hide = true)]
    ClickhouseServer(clickhouse::Serve),
    #[command(hide = true)]
    Tether(kill_on_exit::HelperArgs),
    #[command(hide = true)]
    InstallLauncher,
}

/// Returns the command line's definition, for tests of the documentation.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Parses and runs the command line.
#[must_use]
pub fn run() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(options) => return up::run(&options),
        Command::Verify(options) => return verify::run(&options),
        Command::Status => return status::run(),
        Command::Start => start()?,
        Command::Stop => Stack::for_workspace(Workspace::find()?)?.stop(&Progress::spinners(), &Interrupt::listen()?)?,
        Command::Wipe { cache } => wipe(cache)?,
        Command::Logs(options) => logs::run(&options)?,
        Command::ClickhouseServer(options) => clickhouse::serve(&options)?,
        Command::Tether(tied) => kill_on_exit::run_helper(&tied),
        Command::InstallLauncher => drop(Workspace::find()?.install_launcher()?),
    }
    Ok(ExitCode::SUCCESS)
}

fn start() -> Result<()> {
    let (given, interrupt) = (ExternalServers::from_environment(), Interrupt::listen()?);
    ensure_programs(Purpose::Servers, &Stack::managed(&given))?;
    let stack = Stack::for_workspace(Workspace::find()?)?;
    stack.start(&given, true, &Progress::spinners(), &interrupt)?;
    println!("Their addresses and passwords are in {}", Endpoints::file(stack.state()).display());
    Ok(())
}

fn wipe(cache: bool) -> Result<()> {
    let progress = Progress::spinners();
    Stack::for_workspace(Workspace::find()?)?.wipe(&progress, &Interrupt::listen()?)?;
    progress.print_line("Deleted all data in .local");
    let releases = Cache::for_this_user()?;
    if cache && releases.root().exists() {
        let place = releases.root().display();
        std::fs::remove_dir_all(releases.root()).with_context(|| format!("cannot delete {place}"))?;
        progress.print_line(&format!("Deleted {place}"));
    }
    Ok(())
}
