//! Checks the help of every command, and generates the reference in `docs/cli.md` from it.
//!
//! Don't edit that part by hand: `WRITE_DOCS=1 cargo test -p telemetry reference` generates it.

use crate::terminal::Terminal;
use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, ArgAction, Command, Subcommand};
use std::fmt::Write;
use std::path::Path;

const HEADING: &str = "## Every command\n";
const INTRODUCTION: &str = "`--help` shows the arguments and an example of each command.";
const MAX_HELP_CHARS: usize = 80;

fn program() -> Command {
    let mut program = telemetry_cli::Command::augment_subcommands(Command::new("telemetry"));
    program.build();
    program
}

/// Adds a row for each command without subcommands.
fn document(command: &Command, name: &str, text: &mut String) {
    let mut actions = command.get_subcommands().filter(|action| action.get_name() != "help").peekable();
    if actions.peek().is_none() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let arguments: String = command.get_positionals().map(|argument| format!(" {argument}")).collect();
        // Omit the program's name, which marks commands to paste.
        let _ = writeln!(text, "| `{name}{arguments}` | {about} |");
    }
    for action in actions {
        document(action, format!("{name} {}", action.get_name()).trim_start(), text);
    }
}

fn example(command: &Command) -> Option<String> {
    command.get_after_help()?.to_string().strip_prefix("Example:\n  ").map(str::to_owned)
}

/// Splits a command line into words, with single quotes as in a shell.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate().flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    quoted.collect()
}

fn row(argument: &Arg, text: &mut String) {
    let value = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_value = !matches!(argument.get_action(), ArgAction::SetTrue);
    let spelled = match argument.get_long() {
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    };
    let choices: Vec<String> = argument.get_possible_values().iter().map(|choice| format!("`{}`", choice.get_name())).collect();
    let choices = if takes_value && !choices.is_empty() { format!("; one of {}", choices.join(", ")) } else { String::new() };
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = if takes_value && !default.is_empty() { format!("; default `{}`", default.join(" ")) } else { String::new() };
    let setting =
        argument.get_env().map(|name| format!("; environment variable `{}`", name.to_string_lossy())).unwrap_or_default();
    let what = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let _ = writeln!(text, "| `{}` | {what}{choices}{default}{setting} |", spelled.trim());
}

fn generated() -> String {
    let program = program();
    let mut text = format!("{HEADING}\n{INTRODUCTION}\n\nGlobal options:\n\n| Option | Description |\n|---|---|\n");
    let whoami = program.find_subcommand("whoami").expect("whoami exists");
    let of_all = whoami.get_arguments().filter(|argument| argument.is_global_set() && !argument.is_hide_set());
    of_all.for_each(|argument| row(argument, &mut text));
    text.push_str("\n| Command | Description |\n|---|---|\n");
    document(&program, "", &mut text);
    text
}

#[test]
fn reference_matches_the_help_texts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let (by_hand, _) = kept.split_once(HEADING).expect("docs/cli.md has the heading of the generated part");
    let fresh = format!("{by_hand}{}", generated());
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(kept == fresh, "docs/cli.md is stale; WRITE_DOCS=1 cargo test -p telemetry reference writes it");
}

#[test]
fn help_texts_are_one_short_line() {
    fn check_text(text: Option<&StyledStr>, of: &str) {
        let text = text.unwrap_or_else(|| panic!("{of} has no help")).to_string();
        assert!(text.chars().count() <= MAX_HELP_CHARS && !text.contains('\n'), "{of}: {text}");
    }
    fn check(command: &Command) {
        check_text(command.get_about(), command.get_name());
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let of = format!("{} {}", command.get_name(), argument.get_id());
            check_text(argument.get_help(), &of);
            argument
                .get_possible_values()
                .iter()
                .filter_map(PossibleValue::get_help)
                .for_each(|text| check_text(Some(text), &of));
        }
        command.get_subcommands().filter(|action| action.get_name() != "help").for_each(check);
    }
    program().get_subcommands().for_each(check);
}

#[test]
fn every_command_has_an_example_that_parses() {
    fn check(program: &Command, command: &Command, name: &str) {
        let mut actions = command.get_subcommands().filter(|action| action.get_name() != "help").peekable();
        if actions.peek().is_none() {
            let example = example(command).unwrap_or_else(|| panic!("{name} has no example"));
            assert!(format!("{example} ").starts_with(&format!("{name} ")), "{name}: {example}");
            let parsed = program.clone().try_get_matches_from(words(&example));
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
        }
        actions.for_each(|action| check(program, action, &format!("{name} {}", action.get_name())));
    }
    let program = program();
    check(&program, &program, "telemetry");
}

/// Clap would confuse such an argument with the global option.
#[test]
fn arguments_do_not_reuse_ids_of_global_options() {
    fn check(command: &Command, of_all: &[String]) {
        let own = command.get_arguments().filter(|argument| !argument.is_global_set());
        let taken: Vec<_> = own.map(|argument| argument.get_id().to_string()).filter(|id| of_all.contains(id)).collect();
        assert_eq!(taken, [""; 0], "{}", command.get_name());
        command.get_subcommands().for_each(|action| check(action, of_all));
    }
    let program = program();
    let whoami = program.find_subcommand("whoami").expect("whoami exists");
    let of_all: Vec<String> = whoami
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().to_string())
        .collect();
    assert!(of_all.iter().any(|id| id == "url"), "{of_all:?}");
    check(&program, &of_all);
}

#[test]
fn prints_completion_scripts_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Terminal::new().run(&["completion", shell]).ok().stdout;
        assert!(script.contains("corroboration"), "{shell}");
    }
    assert_eq!(Terminal::new().run(&["completion", "abacus"]).code, 2);
}
