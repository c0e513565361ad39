//! What every command takes: which service, by which credential, in which form the answer is printed (docs/cli.md#which-credential).
//!
//! Must not take a secret from the command line, where every other process of the machine reads it.

use crate::failure::Failure;
use crate::secret::Secret;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, FromArgMatches, ValueEnum};
use std::path::PathBuf;
use url::Url;
use uuid::Uuid;

const HEADING: &str = "Service and output";
const KEY: &str = "key";

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct Options {
    /// Address of the service; without it that of the profile
    // taken unchecked and never shown: what should be an address may hold a password
    #[arg(long, global = true, env = "TELEMETRY_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// File that holds the API key, `-` for standard input; without it `TELEMETRY_KEY`, then the profile
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: EnvironmentKey,
    /// Profile of the configuration; without it the one in use
    #[arg(long = "profile", global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// File of profiles [default: telemetry/profiles.json in the configuration folder of the user]
    #[arg(long, global = true, env = "TELEMETRY_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Organisation that a signed-in person asks for, where there are several; without it that of the profile
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) organization: Option<Uuid>,
    /// Form of the output
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Forms of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns, for people
    Table,
    /// One JSON document: the answer of the service
    Json,
    /// One JSON object a line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
}

/// The address in a text; a failure does not repeat it, because it may hold a password.
pub(crate) fn address(text: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("--url or TELEMETRY_URL: {why}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("an address begins with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("an address holds no user, password, query or fragment"));
    }
    Ok(url)
}

/// The API key of the environment.
#[derive(Clone, Debug)]
pub(crate) struct EnvironmentKey(pub(crate) Option<Secret>);

impl Args for EnvironmentKey {
    fn augment_args(command: clap::Command) -> clap::Command {
        // hidden: it is an option only so that it can be refused with a reason
        let key = Arg::new(KEY).long(KEY).env("TELEMETRY_KEY").hide(true).hide_env_values(true).global(true);
        command.arg(key.value_name("KEY").help("API key; read from the environment only, and refused on the command line"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EnvironmentKey {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        if matches.value_source(KEY) == Some(ValueSource::CommandLine) {
            let reason = "a key on the command line is seen by every process of this machine: use --key-file or TELEMETRY_KEY\n";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, reason));
        }
        let key = matches.get_one::<String>(KEY).map(|key| Secret::new(key));
        Ok(Self(key.filter(|key| !key.reveal().is_empty())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
