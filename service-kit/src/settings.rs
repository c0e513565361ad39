//! Settings of all processes, from the command line and the environment. `--help` documents them.

mod bots;
pub mod kafka_security;
mod mode_settings;

pub use bots::BotSettings;
pub use mode_settings::ModeSettings;

use crate::http::Transport;
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args, Command, Parser};
use kafka_security::KafkaSecurity;
use schemas::webhook_url::AllowedReceivers;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Prefixes of this product's settings, except the three addresses that deployments usually name already.
const PREFIXES: [&str; 2] = ["TELEMETRY_", "WEBHOOK_"];

/// Setting names of all binaries, one per line. Generated together with `docs/settings.md`.
const NAMES: &str = include_str!("settings/names.txt");

/// Settings for the listeners and the log.
#[derive(Args, Clone, Debug)]
pub struct ProcessSettings {
    /// Address of the HTTP listener
    #[arg(long, env = "TELEMETRY_LISTEN", default_value = "127.0.0.1:8080", value_name = "HOST:PORT")]
    pub listen: SocketAddr,
    /// Address for Prometheus metrics; don't expose it to the public
    #[arg(long, env = "TELEMETRY_METRICS_LISTEN", default_value = "127.0.0.1:9464", value_name = "HOST:PORT")]
    pub metrics_listen: SocketAddr,
    /// Log filter, as in `info` or `warn,ingest_gateway=debug`
    #[arg(long, env = "TELEMETRY_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// Log format
    #[arg(long, env = "TELEMETRY_LOG_FORMAT", default_value = "json", value_enum)]
    pub log_format: LogFormat,
    /// Environment; production rejects settings that are only for development
    #[arg(long, env = "TELEMETRY_PROFILE", default_value = "development", value_enum)]
    pub profile: Profile,
}

/// Purpose of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// Local development: one broker, no TLS, emails as files.
    #[default]
    Development,
    /// Production: rejects settings that risk losing or exposing data.
    Production,
}

impl Profile {
    pub fn is_production(self) -> bool {
        self == Self::Production
    }

    /// Returns how clients reach a service that doesn't know its own address.
    pub fn transport(self) -> Transport {
        if self.is_production() { Transport::Https } else { Transport::Plain }
    }
}

/// Log formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Human-readable lines.
    Text,
}

/// Kafka settings.
#[derive(Args, Clone, Debug)]
pub struct KafkaSettings {
    /// Bootstrap brokers
    #[arg(long, env = "KAFKA_BROKERS", value_name = "HOST:PORT[,HOST:PORT…]", value_parser = NonEmptyStringValueParser::new())]
    pub kafka_brokers: String,
    /// Topic for accepted requests
    #[arg(long, env = "TELEMETRY_TOPIC", default_value = schemas::log::TELEMETRY_TOPIC)]
    pub topic: String,
    /// Topic for dead letters
    #[arg(long, env = "TELEMETRY_REJECTED_TOPIC", default_value = schemas::log::REJECTED_TOPIC)]
    pub rejected_topic: String,
    /// TLS and SASL
    #[command(flatten)]
    pub security: KafkaSecurity,
    /// Whether to reject topics with too few replicas; set by [`Profile::Production`].
    #[arg(skip)]
    pub must_replicate: bool,
}

impl KafkaSettings {
    pub fn at(brokers: impl Into<String>) -> Self {
        Self {
            kafka_brokers: brokers.into(),
            topic: schemas::log::TELEMETRY_TOPIC.to_owned(),
            rejected_topic: schemas::log::REJECTED_TOPIC.to_owned(),
            security: KafkaSecurity::default(),
            must_replicate: false,
        }
    }
}

/// ClickHouse settings.
#[derive(Args, Clone, Debug)]
pub struct ClickHouseSettings {
    /// URL of ClickHouse, with user name and password if required
    #[arg(long, env = "CLICKHOUSE_URL", value_name = "URL", hide_env_values = true)]
    pub clickhouse_url: String,
    /// ClickHouse database
    #[arg(long, env = "TELEMETRY_CLICKHOUSE_DATABASE", default_value = "telemetry", value_parser = database_name)]
    pub clickhouse_database: String,
    /// PEM file with an additional certificate authority for ClickHouse
    #[arg(long, env = "TELEMETRY_CLICKHOUSE_CA", value_name = "FILE")]
    pub clickhouse_ca: Option<PathBuf>,
}

impl ClickHouseSettings {
    /// Returns settings for this database on one server, without an extra authority.
    pub fn at(url: impl Into<String>, database: impl Into<String>) -> Self {
        let (clickhouse_url, clickhouse_database) = (url.into(), database.into());
        Self { clickhouse_url, clickhouse_database, clickhouse_ca: None }
    }
}

/// PostgreSQL settings.
#[derive(Args, Clone, Debug)]
pub struct PostgresSettings {
    /// URL of PostgreSQL; for TLS append ?sslmode=verify-full&sslrootcert=/etc/ssl/own.pem
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: String,
}

#[derive(Args, Clone, Debug, Default)]
pub struct WebhookSettings {
    /// Non-public webhook targets (development only); *:PORT permits another port for public ones [default: none; `telemetry all` allows
    /// localhost:8787]
    #[arg(long, env = "WEBHOOK_ALLOW", default_value = "", value_name = "HOST:PORT[,HOST:PORT…]", hide_default_value = true)]
    pub webhook_allow: AllowedReceivers,
    /// PEM file with an additional certificate authority for webhook receivers [default: none; `telemetry all` creates one for
    /// localhost:8787]
    #[arg(long, env = "WEBHOOK_EXTRA_CA", value_name = "FILE")]
    pub webhook_extra_ca: Option<PathBuf>,
    /// DNS server to use instead of the system's
    #[arg(long, env = "TELEMETRY_DNS_SERVER", value_name = "HOST:PORT")]
    pub dns_server: Option<SocketAddr>,
}

impl WebhookSettings {
    /// Logs a warning for each setting that weakens the protection of outgoing webhooks. Call it at startup.
    pub fn warn_if_open(&self) {
        if !self.webhook_allow.is_empty() {
            tracing::warn!(allowed = %self.webhook_allow, "WEBHOOK_ALLOW permits webhook targets other than public servers on port 443; don't use it in production");
        }
        if let Some(file) = &self.webhook_extra_ca {
            tracing::warn!(file = %file.display(), "WEBHOOK_EXTRA_CA adds a trusted certificate authority; don't use it in production");
        }
    }
}

/// A secret setting: never printed, and validated only on use, because clap prints invalid values.
#[derive(Clone)]
pub struct SecretSetting(String);

impl SecretSetting {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretSetting {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// Accepts only plain identifiers, so DDL never has to quote the name.
fn database_name(name: &str) -> Result<String, String> {
    let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_plain.then(|| name.to_owned()).ok_or_else(|| "use lowercase letters, digits and underscores".to_owned())
}

/// Parses a process's settings. On an error, exits with one line that names the setting, the value and the fix.
pub fn parse<S: Parser>() -> S {
    parse_from(std::env::args_os())
}

/// Like [`parse`], with the given arguments. The first is the program's name.
pub fn parse_from<S: Parser>(words: impl IntoIterator<Item = impl Into<OsString>>) -> S {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let program = S::command();
    let known = known_to(&program, words.get(1));
    let settings = S::try_parse_from(&words).unwrap_or_else(|refusal| refuse(&refusal, &known));
    if let Some(unknown) = first_unknown(&known, environment_names()) {
        eprintln!("unknown setting {unknown}: remove it from the environment, or correct its name (--help lists every setting)");
        std::process::exit(2);
    }
    settings
}

/// Returns the chosen subcommand's arguments. Other subcommands' arguments may have the same name and another meaning.
fn known_to<'a>(program: &'a Command, word: Option<&OsString>) -> Vec<&'a Arg> {
    match word.and_then(|word| program.find_subcommand(word)) {
        Some(subcommand) => program.get_arguments().chain(arguments(subcommand)).collect(),
        None => arguments(program),
    }
}

/// Prints help and version unchanged, and errors on one line.
fn refuse(refusal: &clap::Error, known: &[&Arg]) -> ! {
    if refusal.use_stderr() {
        eprintln!("{}", one_line(&refusal.to_string(), known));
        std::process::exit(2);
    }
    refusal.exit()
}

/// Joins clap's message into one line, and adds the environment variables of its settings.
fn one_line(text: &str, known: &[&Arg]) -> String {
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("For more information");
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage")).filter(is_said);
    let line = lines.collect::<Vec<_>>().join(" ");
    let is_named = |argument: &&&Arg| argument.get_long().is_some_and(|long| line.contains(&format!("--{long} ")));
    let mut names: Vec<&str> = known.iter().filter(is_named).filter_map(|argument| argument.get_env()?.to_str()).collect();
    names.sort_unstable();
    names.dedup();
    let settings = if names.is_empty() { String::new() } else { format!("in the environment: {}; ", names.join(", ")) };
    format!("{line} ({settings}--help lists every setting)")
}

fn arguments(command: &Command) -> Vec<&Arg> {
    command.get_arguments().chain(command.get_subcommands().flat_map(arguments)).collect()
}

fn environment_names() -> BTreeSet<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

fn first_unknown(known: &[&Arg], present: BTreeSet<String>) -> Option<String> {
    let own = known.iter().filter_map(|argument| argument.get_env()?.to_str());
    let known: BTreeSet<&str> = own.chain(NAMES.lines()).collect();
    present.into_iter().find(|name| PREFIXES.iter().any(|own| name.starts_with(own)) && !known.contains(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[derive(Parser)]
    struct Sample {
        #[command(flatten)]
        _process: ProcessSettings,
    }

    #[test]
    fn reports_misspelled_settings() {
        let present = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let unknown = |names| first_unknown(&arguments(&Sample::command()), present(names));
        assert_eq!(unknown(&["TELEMETRY_LISTEN", "PATH", "KAFKA_OPTS"]), None);
        assert_eq!(unknown(&["TELEMETRY_OIDC_PROVIDERS", "TELEMETRY_SPILL_DIR", "WEBHOOK_ALLOW"]), None, "other services");
        assert_eq!(unknown(&["TELEMETRY_LISTEM"]).as_deref(), Some("TELEMETRY_LISTEM"));
    }

    #[test]
    fn errors_are_one_line_and_name_the_setting() {
        let refusal = Sample::try_parse_from(["sample", "--listen", "here"]).err().unwrap().to_string();
        let line = one_line(&refusal, &arguments(&Sample::command()));
        assert!(line.contains("'here'") && line.contains("in the environment: TELEMETRY_LISTEN;"), "{line}");
        assert_eq!((line.lines().count(), line.matches("--help").count()), (1, 1), "{line}");
    }

    #[test]
    fn rejects_database_names_that_are_not_identifiers() {
        assert!(database_name("telemetry_2").is_ok());
        for bad in ["", "a-b", "a b", "A", "a;drop"] {
            assert!(database_name(bad).is_err(), "{bad}");
        }
    }
}
