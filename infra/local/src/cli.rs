//! What can be typed, and what it leads to. No work is done here.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::settings::Given;
use crate::stack::Stack;
use crate::workspace::Workspace;
use crate::{clickhouse, tether};

/// The local stack: real Kafka, PostgreSQL and ClickHouse for runs and tests on this machine.
#[derive(Debug, Parser)]
#[command(name = "cargo local", bin_name = "cargo local", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the servers and leave them running
    Start,
    /// Stop the servers, whoever uses them
    Stop,
    #[command(hide = true)]
    ClickhouseServer(clickhouse::Serve),
    #[command(hide = true)]
    Tether(tether::Tied),
    #[command(hide = true)]
    InstallLauncher,
}

/// Reads the command line and carries it out.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode> {
    match command {
        Command::Start => start()?,
        Command::Stop => Stack::of(Workspace::find()?)?.stop(&Progress::spinners(), &Interrupt::listen()?)?,
        Command::ClickhouseServer(options) => clickhouse::serve(&options)?,
        Command::Tether(tied) => tether::hold(&tied),
        Command::InstallLauncher => drop(Workspace::find()?.install_launcher()?),
    }
    Ok(ExitCode::SUCCESS)
}

fn start() -> Result<()> {
    let stack = Stack::of(Workspace::find()?)?;
    let endpoints = stack.start(&Given::from_environment(), true, &Progress::spinners(), &Interrupt::listen()?)?;
    println!("KAFKA_BROKERS={}", endpoints.kafka_brokers);
    println!("CLICKHOUSE_URL={}", endpoints.clickhouse_url);
    println!("DATABASE_URL={}", endpoints.database_url);
    Ok(())
}
