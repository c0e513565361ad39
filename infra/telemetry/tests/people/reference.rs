//! `docs/cli.md`: every command as the program has it.
//!
//! Must not be written by hand below its heading: `WRITE_DOCS=1 cargo test -p telemetry reference` writes that part anew.

use crate::terminal::Terminal;
use clap::{Arg, ArgAction, Command, Subcommand};
use std::fmt::Write;
use std::path::Path;

const HEADING: &str = "## Every command\n";

fn program() -> Command {
    let mut program = telemetry_cli::Command::augment_subcommands(Command::new("telemetry"));
    program.build();
    program
}

fn document(command: &Command, name: &str, text: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let has_actions = command.get_subcommands().any(|action| action.get_name() != "help");
    if name != "telemetry" {
        let arguments: String = command.get_positionals().map(|argument| format!(" {argument}")).collect();
        let _ = writeln!(text, "\n### telemetry {name}\n\n{about}.");
        if !has_actions {
            let _ = writeln!(text, "\nUsage: `{name}{arguments}`");
        }
        let own: Vec<&Arg> =
            command.get_arguments().filter(|argument| !argument.is_global_set() && !argument.is_hide_set()).collect();
        let own: Vec<&&Arg> = own.iter().filter(|argument| argument.get_id() != "help").collect();
        if !own.is_empty() {
            let _ = writeln!(text, "\n| argument | what |\n|---|---|");
            own.iter().for_each(|argument| row(argument, text));
        }
    }
    for action in command.get_subcommands().filter(|action| action.get_name() != "help") {
        let below = if name == "telemetry" { action.get_name().to_owned() } else { format!("{name} {}", action.get_name()) };
        document(action, &below, text);
    }
}

fn row(argument: &Arg, text: &mut String) {
    let value = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_value = !matches!(argument.get_action(), ArgAction::SetTrue);
    let spelled = match argument.get_long() {
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    };
    let words: Vec<String> = argument.get_possible_values().iter().map(|word| format!("`{}`", word.get_name())).collect();
    let words = if takes_value && !words.is_empty() { format!("; one of {}", words.join(", ")) } else { String::new() };
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default =
        if takes_value && !default.is_empty() { format!("; `{}` when absent", default.join(" ")) } else { String::new() };
    let setting = argument.get_env().map(|name| format!("; `{}` in the environment", name.to_string_lossy())).unwrap_or_default();
    let what = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let _ = writeln!(text, "| `{}` | {what}{words}{default}{setting} |", spelled.trim());
}

fn generated() -> String {
    let program = program();
    let mut text = format!("{HEADING}\nOf every command:\n\n| option | what |\n|---|---|\n");
    let whoami = program.find_subcommand("whoami").expect("everybody may ask who they are");
    let of_all = whoami.get_arguments().filter(|argument| argument.is_global_set() && !argument.is_hide_set());
    of_all.for_each(|argument| row(argument, &mut text));
    document(&program, "telemetry", &mut text);
    text
}

#[test]
fn the_reference_is_what_the_program_takes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let (by_hand, _) = kept.split_once(HEADING).expect("docs/cli.md has the heading of what is generated");
    let fresh = format!("{by_hand}{}", generated());
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(kept == fresh, "docs/cli.md is stale; WRITE_DOCS=1 cargo test -p telemetry reference writes it");
}

#[test]
fn every_command_explains_itself_and_its_arguments() {
    fn check(command: &Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{}: {}", command.get_name(), argument.get_id());
        }
        command.get_subcommands().filter(|action| action.get_name() != "help").for_each(check);
    }
    program().get_subcommands().for_each(check);
}

/// An argument with the id of an option of every command would be read as that option.
#[test]
fn no_argument_of_a_command_is_taken_for_an_option_of_every_command() {
    fn check(command: &Command, of_all: &[String]) {
        let own = command.get_arguments().filter(|argument| !argument.is_global_set());
        let taken: Vec<_> = own.map(|argument| argument.get_id().to_string()).filter(|id| of_all.contains(id)).collect();
        assert_eq!(taken, [""; 0], "{}", command.get_name());
        command.get_subcommands().for_each(|action| check(action, of_all));
    }
    let program = program();
    let whoami = program.find_subcommand("whoami").expect("everybody may ask who they are");
    let of_all: Vec<String> = whoami
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().to_string())
        .collect();
    assert!(of_all.iter().any(|id| id == "url"), "{of_all:?}");
    check(&program, &of_all);
}

#[test]
fn every_shell_gets_its_completion() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Terminal::new().run(&["completion", shell]).ok().stdout;
        assert!(script.contains("corroboration"), "{shell}");
    }
    assert_eq!(Terminal::new().run(&["completion", "abacus"]).code, 2);
}
