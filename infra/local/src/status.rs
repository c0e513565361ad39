//! `cargo local status`: prints the state of the servers.

use std::process::ExitCode;

use anyhow::Result;
use indicatif::HumanBytes;

use crate::environment::ExternalServers;
use crate::fetch::size_bytes;
use crate::server::probe;
use crate::server_kind::ServerKind;
use crate::stack::{Entry, Stack, check_external, external_address, managed_address};
use crate::workspace::Workspace;

/// Exit code if not every server is up.
const NOT_ALL_UP: u8 = 3;

/// Prints the table. Succeeds if all servers respond.
pub(crate) fn run() -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let stack = Stack::for_workspace(workspace)?;
    let given = ExternalServers::from_environment();
    let rows = ServerKind::ALL.map(|kind| match external_address(&given, kind) {
        Some(address) => external_row(kind, address),
        None => managed_row(&stack, kind),
    });
    let head = ["name", "version", "state", "pid", "address", "data", "log"].map(str::to_owned);
    let table: Vec<&[String; 7]> = std::iter::once(&head).chain(rows.iter().map(|row| &row.cells)).collect();
    for cells in &table {
        let width = |column: usize| table.iter().map(|cells| cells[column].len()).max().unwrap_or(0);
        let padded: Vec<String> =
            cells.iter().enumerate().map(|(column, cell)| format!("{cell:<w$}", w = width(column))).collect();
        println!("{}", padded.join("  ").trim_end());
    }
    let all_up = rows.iter().all(|row| row.is_up);
    Ok(if all_up { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_UP) })
}

struct Row {
    is_up: bool,
    cells: [String; 7],
}

fn external_row(kind: ServerKind, address: &str) -> Row {
    let is_up = check_external(kind, address).is_ok();
    let state = if is_up { "up" } else { "not responding" };
    // The address itself may contain a password.
    let address = format!("see {}", kind.setting());
    let cells = [kind.name(), "external", state, "-", &address, "-", "-"].map(str::to_owned);
    Row { is_up, cells }
}

fn managed_row(stack: &Stack, kind: ServerKind) -> Row {
    let record = stack.record();
    let known = record.servers.get(&kind);
    let running = record.running(kind);
    let is_up = running.is_some_and(|entry| probe(kind, entry.listen.port).is_ok());
    let state = match (known.and_then(|entry| entry.process), running) {
        (_, Some(_)) if is_up => "up",
        (_, Some(_)) => "not responding",
        (Some(_), None) => "crashed",
        (None, None) => "stopped",
    };
    let pid = running.and_then(|entry| entry.process).map_or("-".to_owned(), |process| process.pid.to_string());
    let address = running.map_or("-".to_owned(), |entry| managed_address(kind, entry.listen.port));
    let size = |entry: &Entry| HumanBytes(size_bytes(&entry.data)).to_string();
    let data = known.map_or("-".to_owned(), size);
    let log = stack.home(kind).join("server.log").display().to_string();
    Row { is_up, cells: [kind.name().to_owned(), kind.version().to_owned(), state.to_owned(), pid, address, data, log] }
}
