//! N1: a test executes every command in the documentation. `pasted` runs the blocks of the introductory documents. For other commands,
//! `command_tests` names the test, and the program must be able to parse the command.
//!
//! Commands that stop or wipe the servers of these tests are only parsed.

mod blocks;
mod command_tests;
pub(crate) mod expected;
mod command_search;
mod pasted;
pub(crate) mod shell;
mod workspace_tests;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use command_search::{DocumentedCommand, root, with_requests};
use std::collections::BTreeMap;
use workspace_tests::Packages;

/// Replaces `ID` in commands.
const SOME_ID: &str = "0195f3a0-0000-7000-8000-000000000099";

/// Programs with a command-line parser, by package.
fn programs() -> BTreeMap<String, Command> {
    let own = [("telemetry", telemetry::Cli::command())];
    let tools = [("local", local::cli::command()), ("loadgen", loadgen::options::Cli::command())];
    own.into_iter().chain(tools).map(|(name, command)| (name.to_owned(), command)).collect()
}

/// Cargo's aliases in `.cargo/config.toml`.
fn aliases() -> BTreeMap<String, Vec<String>> {
    let config = std::fs::read_to_string(root().join(".cargo/config.toml")).expect("cargo's configuration is missing");
    let lines = config.lines().skip_while(|line| *line != "[alias]").skip(1).filter_map(|line| line.split_once(" = "));
    lines.map(|(name, words)| (name.to_owned(), words.trim_matches('"').split(' ').map(str::to_owned).collect())).collect()
}

/// Returns why a program rejects these words.
fn refusal(program: &Command, words: &[String], is_whole: bool) -> Option<String> {
    // The only setting without a default. Documents read it from the environment.
    let service = words.first().and_then(|word| program.find_subcommand(word));
    let needs_database = |service: &Command| service.get_arguments().any(|argument| argument.get_long() == Some("database-url"));
    let database: &[&str] = if service.is_some_and(needs_database) { &["--database-url", "postgres://localhost/x"] } else { &[] };
    let (service, rest) = words.split_at(words.len().min(1));
    let rest = rest.iter().map(|word| if word == "ID" { SOME_ID } else { word });
    let typed = service.iter().map(String::as_str).chain(database.iter().copied()).chain(rest);
    let error = program.clone().try_get_matches_from(std::iter::once(program.get_name()).chain(typed)).err()?;
    let is_only_incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    // Text that mentions a mode may omit its required arguments.
    (is_whole || !is_only_incomplete).then(|| error.to_string())
}

/// Returns cargo's error if the package or a feature doesn't exist. Resolves the packages without building them.
fn unresolved(manifest: Option<&str>, package: &str, features: Option<&str>) -> Option<String> {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--quiet", "--depth", "0", "--package", package]).current_dir(root());
    cargo.args(manifest.into_iter().flat_map(|manifest| ["--manifest-path", manifest]));
    let ran = cargo.args(features.into_iter().flat_map(|names| ["--features", names])).output().expect("failed to start cargo");
    (!ran.status.success()).then(|| String::from_utf8_lossy(&ran.stderr).into_owned())
}

/// Returns the word after an option, however the option is spelled.
fn option<'a>(words: &'a [String], names: &[&str]) -> Option<&'a str> {
    let place = words.iter().position(|word| names.contains(&word.as_str()))?;
    words.get(place + 1).map(String::as_str)
}

fn wrong_with_cargo(found: &DocumentedCommand, packages: &Packages) -> Option<String> {
    let typed = &found.words[1..];
    let alias = typed.first().and_then(|name| aliases().remove(name));
    let words = alias.map_or_else(|| typed.to_vec(), |alias| alias.into_iter().chain(typed[1..].iter().cloned()).collect());
    let Some(package) = option(&words, &["-p", "--package"]) else { return Some("it names no package".to_owned()) };
    if words[0] == "test" {
        return packages.wrong_with_test(package, &words, &found.variables);
    }
    if let Some(why) = unresolved(option(&words, &["--manifest-path"]), package, option(&words, &["--features"])) {
        return Some(why);
    }
    let own: Vec<String> = words.iter().skip_while(|word| *word != "--").skip(1).filter(|word| *word != "--").cloned().collect();
    // The fuzzer has its own command-line parser.
    programs().get(package).map_or_else(
        || (package != "fuzz").then(|| format!("{package} has no command line")),
        |program| refusal(program, &own, found.is_whole),
    )
}

fn wrong_with(found: &DocumentedCommand, packages: &Packages) -> Option<String> {
    match found.words[0].as_str() {
        "cargo" => wrong_with_cargo(found, packages),
        name => refusal(programs().get(name)?, &found.words[1..], found.is_whole),
    }
}

#[test]
fn documented_commands_parse() {
    let packages = Packages::read();
    let wrong: Vec<String> = command_search::commands()
        .iter()
        .filter_map(|found| wrong_with(found, &packages).map(|why| format!("{}: {}\n    {why}", found.file, found.line)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_documented_command_has_a_test() {
    let packages = Packages::read();
    let mut wrong = Vec::new();
    for found in command_search::commands() {
        match command_tests::test_for(&found.words) {
            None => wrong.push(format!("{}: {}: nothing in `executed` runs it", found.file, found.line)),
            Some(test) if !packages.has_test(test) => wrong.push(format!("{}: there is no test {test}", found.line)),
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_document_with_requests_is_tested() {
    let files = with_requests();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        assert!(pasted::DOCUMENTS.contains(&file.as_str()), "{file} has requests that no test pastes: add it to `pasted`");
    }
}

/// Uses `openssl rand -base64 32`, or an equivalent if openssl isn't installed.
#[tokio::test]
async fn openssl_output_is_a_valid_key() {
    use clap::Parser as _;
    let line = "openssl rand -base64 32 2>/dev/null || head -c 32 /dev/urandom | base64";
    let printed = tokio::process::Command::new("bash").args(["-c", line]).output().await.unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        secrets: service_kit::secret_encryption::SecretsSettings,
    }
    let cli = Cli::parse_from(["key", "--secrets-key", printed.trim_end()]);
    cli.secrets.sealer().unwrap();
}
