//! Checks that every command has golden output in `tests/golden`.

use super::transcript::{EXIT, PROMPT, STDOUT, folder};
use clap::{Command, CommandFactory};
use std::collections::{BTreeMap, BTreeSet};

/// Commands that run until stopped, and their health checks.
const PROCESSES: [&str; 9] = [
    "all",
    "console health",
    "identity-api health",
    "ingest-gateway health",
    "query-api analysts",
    "query-api health",
    "stream-workers deliver",
    "stream-workers health",
    "stream-workers run",
];
/// Commands with only one output format.
const OF_ONE_FORM: [&str; 10] = [
    "completion",
    "events export",
    "evidence verify",
    "secrets",
    "session document",
    "sign keygen",
    "sign request",
    "statement evidence",
    "statement get",
    "statement verify",
];

fn leaves(command: &Command, name: &str, found: &mut BTreeSet<String>) {
    let mut actions = command.get_subcommands().filter(|action| action.get_name() != "help").peekable();
    if actions.peek().is_none() {
        found.insert(name.to_owned());
    }
    for action in actions {
        leaves(action, format!("{name} {}", action.get_name()).trim(), found);
    }
}

fn command_of(program: &Command, words: &str) -> String {
    let (mut command, mut name) = (program, Vec::new());
    for word in words.split(' ') {
        if let Some(action) = command.find_subcommand(word) {
            command = action;
            name.push(word);
        }
    }
    name.join(" ")
}

#[derive(Default)]
struct GoldenOutput {
    ended_well: bool,
    printed: bool,
    printed_json: bool,
}

fn golden_outputs(program: &Command) -> BTreeMap<String, GoldenOutput> {
    let mut all: BTreeMap<String, GoldenOutput> = BTreeMap::new();
    for file in std::fs::read_dir(folder()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for block in text.split(PROMPT).skip(1) {
            let (words, rest) = block.split_once('\n').unwrap();
            let one = all.entry(command_of(program, words)).or_default();
            let is_well = rest.starts_with(&format!("{EXIT}0\n"));
            let prints = is_well && rest.contains(&format!("\n{STDOUT}\n"));
            one.ended_well |= is_well;
            one.printed |= prints;
            one.printed_json |= prints && words.contains("-o json");
        }
    }
    all
}

#[test]
fn every_command_has_golden_output_as_table_and_json() {
    let program = telemetry::Cli::command();
    let mut commands = BTreeSet::new();
    leaves(&program, "", &mut commands);
    for name in PROCESSES {
        assert!(commands.remove(name), "unknown command {name}");
    }
    let kept = golden_outputs(&program);
    let missing: Vec<String> = commands
        .iter()
        .filter_map(|command| match kept.get(command) {
            None => Some(format!("{command}: nothing is kept of it")),
            Some(one) if !one.ended_well => Some(format!("{command}: it never ends well")),
            Some(one) if one.printed && !one.printed_json && !OF_ONE_FORM.contains(&command.as_str()) => {
                Some(format!("{command}: not as JSON"))
            }
            Some(_) => None,
        })
        .collect();
    assert!(missing.is_empty(), "add them to tests/people/golden:\n{}", missing.join("\n"));
}
