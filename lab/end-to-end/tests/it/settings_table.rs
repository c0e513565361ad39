//! Generates `docs/settings.md`, which lists every setting of every service, and the list of setting names by which services tell other
//! services' settings from typos.
//!
//! `WRITE_DOCS=1 cargo test -p end-to-end settings_table` writes both files.

use clap::builder::ValueRange;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Returns the services in the order of the pipeline, and `all`.
pub(crate) fn binaries() -> [Command; 6] {
    [
        ingest_gateway::Cli::command(),
        stream_workers::Cli::command(),
        query_api::Cli::command(),
        identity_api::Cli::command(),
        web_console::Cli::command(),
        telemetry::all::Cli::command(),
    ]
}

/// Returns a binary and its subcommands with their full names, without `help`.
pub(crate) fn modes(binary: &Command) -> Vec<(String, Command)> {
    let mut found = vec![(binary.get_name().to_owned(), binary.clone())];
    for mode in binary.get_subcommands() {
        let own = modes(mode);
        found.extend(own.into_iter().map(|(name, command)| (format!("{} {name}", binary.get_name()), command)));
    }
    found
}

/// Settings of every command for people. `--help` lists further options.
fn people() -> Command {
    let program = telemetry::Cli::command();
    program.find_subcommand("whoami").expect("no subcommand whoami").clone().name("commands for people")
}

/// A row of the table, without the services.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    setting: String,
    option: String,
    default: String,
    value: String,
    meaning: String,
}

fn row(setting: &str, argument: &Arg) -> Row {
    let (meaning, own_default) = meaning(argument);
    let given: Vec<String> = argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let default = match given.concat() {
        empty if empty.is_empty() => {
            own_default.unwrap_or_else(|| if argument.is_required_set() { "**required**".to_owned() } else { "none".to_owned() })
        }
        value => format!("`{value}`"),
    };
    let option = argument.get_long().map(|long| format!("`--{long}`")).unwrap_or_default();
    Row { setting: setting.to_owned(), option, default, value: value(argument), meaning }
}

/// Returns the description, and the default that the help text mentions.
fn meaning(argument: &Arg) -> (String, Option<String>) {
    let text = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ").replace('|', "\\|");
    match text.split_once(" [default: ") {
        Some((meaning, default)) => (meaning.to_owned(), Some(default.trim_end_matches(']').to_owned())),
        None => (text, None),
    }
}

/// Returns the accepted values, the name of the format or unit, or the type.
fn value(argument: &Arg) -> String {
    let words: Vec<String> = argument.get_possible_values().iter().map(|word| format!("`{}`", word.get_name())).collect();
    let is_flag = argument.get_num_args() == Some(ValueRange::EMPTY);
    let names: Vec<&str> = argument.get_value_names().unwrap_or_default().iter().map(clap::builder::Str::as_str).collect();
    let is_named = !names.is_empty() && names.concat() != argument.get_id().as_str().to_uppercase();
    match () {
        () if is_flag || !words.is_empty() => words.join(", "),
        () if is_named => names.join(" "),
        () if is_number(argument) => "number".to_owned(),
        () => "text".to_owned(),
    }
}

fn is_number(argument: &Arg) -> bool {
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i64>(),
        TypeId::of::<i32>(),
    ];
    numbers.iter().any(|number| argument.get_value_parser().type_id() == *number)
}

fn document() -> String {
    let mut settings: BTreeMap<Row, Vec<String>> = BTreeMap::new();
    let mut arguments = String::new();
    for binary in binaries() {
        for (name, mode) in modes(&binary) {
            let own = mode.get_arguments().filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"));
            for argument in own {
                let Some(setting) = argument.get_env() else {
                    let Row { option, default, value, meaning, .. } = row("", argument);
                    let _ = writeln!(arguments, "| `telemetry {name}` | {option} | {default} | {value} | {meaning} |");
                    continue;
                };
                let readers = settings.entry(row(&setting.to_string_lossy(), argument)).or_default();
                // Subcommands inherit the settings of their binary.
                if !readers.iter().any(|reader| name == *reader || name.starts_with(&format!("{reader} "))) {
                    readers.push(name.clone());
                }
            }
        }
    }
    for argument in people().get_arguments() {
        if let Some(setting) = argument.get_env() {
            settings.entry(row(&setting.to_string_lossy(), argument)).or_default().push(people().get_name().to_owned());
        }
    }
    let mut text = HEAD.to_owned();
    for (Row { setting, option, default, value, meaning }, readers) in settings {
        let _ = writeln!(text, "| `{setting}` | {option} | {default} | {value} | {meaning} | {} |", readers.join(", "));
    }
    text + MIDDLE + &arguments
}

const HEAD: &str = "# Settings

Generated from the code: `WRITE_DOCS=1 cargo test -p end-to-end settings_table` updates this file, and a test fails if it is outdated.

Each service is a subcommand of `telemetry`. Each setting is an environment variable and a command-line option; the option has precedence.
All processes can share one file of settings: each ignores the settings of the others. An unknown variable that starts with `TELEMETRY_` or `WEBHOOK_`
and an invalid value are rejected at startup; the error names the setting, the value and the fix.
[Operating](operating.md) lists the settings that production requires or rejects.

| setting | option | default | value | meaning | read by |
|---|---|---|---|---|---|
";

const MIDDLE: &str = "
## Options of commands

| mode | option | default | value | meaning |
|---|---|---|---|---|
";

/// Returns the names of all settings.
fn names() -> String {
    let readers = [&binaries()[..], &[people()]].concat();
    let all = readers.iter().flat_map(modes).flat_map(|(_, mode)| {
        let own = mode.get_arguments().filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned));
        own.collect::<Vec<_>>()
    });
    let mut names: Vec<String> = all.collect();
    names.sort_unstable();
    names.dedup();
    names.join("\n") + "\n"
}

#[test]
fn setting_names_match_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../service-kit/src/settings/names.txt");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, names()).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == names(), "names.txt is stale; run WRITE_DOCS=1 cargo test -p end-to-end settings_table");
}

#[test]
fn settings_document_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let fresh = document();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = fresh.lines().find(|line| !kept.lines().any(|known| known == *line));
    assert!(
        kept == fresh,
        "docs/settings.md is stale (the code says {stale:?}); WRITE_DOCS=1 cargo test -p end-to-end settings_table writes it"
    );
}

#[test]
fn every_setting_has_a_description() {
    for binary in binaries() {
        for (name, mode) in modes(&binary) {
            assert!(mode.get_about().is_some(), "{name}");
            for argument in mode.get_arguments().filter(|argument| argument.get_env().is_some()) {
                assert!(argument.get_help().is_some(), "{name}: {}", argument.get_id());
            }
        }
    }
}

/// For these, zero makes sense without an explanation in their help.
const SENSIBLE: [&str; 1] = ["max-ahead-seconds"];

#[test]
fn rejects_zero_unless_help_explains_it() {
    let mut numbers = 0;
    for (name, mode) in binaries().iter().flat_map(modes) {
        let is_checked = |argument: &&Arg| {
            let is_setting = argument.get_env().is_some() && argument.get_num_args() != Some(ValueRange::EMPTY);
            is_setting && is_number(argument) && !SENSIBLE.contains(&argument.get_long().unwrap_or_default())
        };
        for argument in mode.get_arguments().filter(is_checked) {
            let option = format!("--{}", argument.get_long().unwrap());
            let parsed = mode.clone().try_get_matches_from(["mode", &format!("{option}=0")]);
            let is_rejected = parsed.is_err_and(|error| {
                let text = error.to_string();
                error.kind() == ErrorKind::ValueValidation && text.contains(&option) && text.contains("is not in")
            });
            let is_explained = argument.get_help().is_some_and(|help| help.to_string().contains("0: "));
            assert_ne!(is_rejected, is_explained, "telemetry {name} {option}");
            numbers += 1;
        }
    }
    assert!(numbers > 80, "{numbers}");
}
