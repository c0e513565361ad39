//! The options of every command: the service, the credential and the output format (docs/cli.md#credentials).

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
    /// Address of the service [default: the address in the profile]
    // Validated later and never printed, because it may contain a password.
    #[arg(long, global = true, env = "TELEMETRY_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// File with the API key, or - for stdin [default: TELEMETRY_KEY, then the profile]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: EnvironmentKey,
    /// Profile to use [default: the current profile]
    #[arg(long = "profile", global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Profiles file [default: telemetry/profiles.json in the user's config folder]
    #[arg(long, global = true, env = "TELEMETRY_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Organization to use, if you belong to several [default: the profile's]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) organization: Option<Uuid>,
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header row
    Csv,
}

/// Parses an address; errors don't repeat it, because it may contain a password.
pub(crate) fn address(text: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("--url or TELEMETRY_URL: {why}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("the address must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("the address must not contain a user, password, query or fragment"));
    }
    Ok(url)
}

/// The API key from the environment.
#[derive(Clone, Debug)]
pub(crate) struct EnvironmentKey(pub(crate) Option<Secret>);

impl Args for EnvironmentKey {
    fn augment_args(command: clap::Command) -> clap::Command {
        // Hidden: the option exists only to reject it with a reason.
        let key = Arg::new(KEY).long(KEY).env("TELEMETRY_KEY").hide(true).hide_env_values(true).global(true);
        command.arg(key.value_name("KEY").help("API key; accepted in the environment only, not on the command line"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EnvironmentKey {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        if matches.value_source(KEY) == Some(ValueSource::CommandLine) {
            let reason = "other users can read keys on the command line: use --key-file or TELEMETRY_KEY instead of --key\n";
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
