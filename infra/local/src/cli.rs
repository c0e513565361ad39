//! What can be typed, and what it leads to. No work is done here.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

use crate::fetch::Cache;
use crate::interrupt::Interrupt;
use crate::prerequisites::{Purpose, ensure_programs};
use crate::progress::Progress;
use crate::settings::Given;
use crate::stack::{Endpoints, Stack};
use crate::workspace::Workspace;
use crate::{clickhouse, logs, status, tether, up, verify};

const AFTER_HELP: &str = "\
The servers listen on 127.0.0.1 only, on their usual ports (9092, 5432, 8123) if these are free. Their data and logs are
in .local of this clone; the downloaded releases are shared by all clones of one user.
A server you already have is used instead if its setting is given: KAFKA_BROKERS, DATABASE_URL, CLICKHOUSE_URL.";

/// The local stack: real Kafka, PostgreSQL and ClickHouse for runs and tests on this machine, without Docker.
#[derive(Debug, Parser)]
#[command(name = "cargo local", bin_name = "cargo local", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the servers and run the whole service until Ctrl-C (`cargo up`)
    ///
    /// Fetches the servers the first time, builds the service, starts both. Servers that die meanwhile are started
    /// again. They are stopped at the end unless `cargo local start` or another run needs them.
    Up(up::Options),
    /// Check format and lints, start the servers and run all tests (`cargo verify`)
    ///
    /// This is all that CI runs. Beside a running `cargo up` it uses the same servers and leaves them alone.
    Verify(verify::Options),
    /// Start the servers and leave them running
    ///
    /// Writes the three settings that name them to .local/servers.env. What already runs and answers is left as it is.
    Start,
    /// Stop the servers, whoever uses them; data is kept
    Stop,
    /// Show each server's state, address, data and log; exit code 0 if all are up, else 3
    Status,
    /// Stop the servers and delete their data and logs
    Wipe {
        /// Delete the downloaded releases too, for all clones of this user
        #[arg(long)]
        cache: bool,
    },
    /// Show the end of the logs
    Logs(logs::Options),
    #[command(hide = true)]
    ClickhouseServer(clickhouse::Serve),
    #[command(hide = true)]
    Tether(tether::Tied),
    #[command(hide = true)]
    InstallLauncher,
}

/// What can be typed, for who checks what documents say.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Reads the command line and carries it out.
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
        Command::Stop => Stack::of(Workspace::find()?)?.stop(&Progress::spinners(), &Interrupt::listen()?)?,
        Command::Wipe { cache } => wipe(cache)?,
        Command::Logs(options) => logs::run(&options)?,
        Command::ClickhouseServer(options) => clickhouse::serve(&options)?,
        Command::Tether(tied) => tether::hold(&tied),
        Command::InstallLauncher => drop(Workspace::find()?.install_launcher()?),
    }
    Ok(ExitCode::SUCCESS)
}

fn start() -> Result<()> {
    let (given, interrupt) = (Given::from_environment(), Interrupt::listen()?);
    ensure_programs(Purpose::Servers, &Stack::own(&given))?;
    let stack = Stack::of(Workspace::find()?)?;
    stack.start(&given, true, &Progress::spinners(), &interrupt)?;
    println!("the settings that name them, with their passwords, are in {}", Endpoints::file(stack.state()).display());
    Ok(())
}

fn wipe(cache: bool) -> Result<()> {
    let progress = Progress::spinners();
    Stack::of(Workspace::find()?)?.wipe(&progress, &Interrupt::listen()?)?;
    progress.say("deleted what the servers had in .local");
    let releases = Cache::of_this_user()?;
    if cache && releases.root().exists() {
        let place = releases.root().display();
        std::fs::remove_dir_all(releases.root()).with_context(|| format!("cannot delete {place}"))?;
        progress.say(&format!("deleted {place}"));
    }
    Ok(())
}
