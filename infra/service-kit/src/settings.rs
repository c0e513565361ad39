//! Settings every process shares, read from the command line and the environment; their `--help` is their
//! documentation.
//!
//! Must refuse what it does not know: a misspelt setting is an error, never a default.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser};
use schemas::receiver::AllowedReceivers;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of this product start with this, except the three addresses every deployment already names.
const PREFIX: &str = "TELEMETRY_";

/// Where a process listens and what it writes about itself.
#[derive(Args, Clone, Debug)]
pub struct ProcessSettings {
    /// Address of the HTTP surface
    #[arg(long, env = "TELEMETRY_LISTEN", default_value = "127.0.0.1:8080", value_name = "HOST:PORT")]
    pub listen: SocketAddr,
    /// Address of the Prometheus listener; not to be exposed to the public
    #[arg(long, env = "TELEMETRY_METRICS_LISTEN", default_value = "127.0.0.1:9464", value_name = "HOST:PORT")]
    pub metrics_listen: SocketAddr,
    /// Log filter, as in `info` or `warn,ingest_gateway=debug`
    #[arg(long, env = "TELEMETRY_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// Log format
    #[arg(long, env = "TELEMETRY_LOG_FORMAT", default_value = "json", value_enum)]
    pub log_format: LogFormat,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// For people.
    Text,
}

/// The log.
#[derive(Args, Clone, Debug)]
pub struct KafkaSettings {
    /// Bootstrap brokers
    #[arg(long, env = "KAFKA_BROKERS", value_name = "HOST:PORT[,HOST:PORT…]", value_parser = NonEmptyStringValueParser::new())]
    pub kafka_brokers: String,
    /// Topic of accepted requests
    #[arg(long, env = "TELEMETRY_TOPIC", default_value = schemas::log::TELEMETRY_TOPIC)]
    pub topic: String,
    /// Topic of records that could not be decoded
    #[arg(long, env = "TELEMETRY_REJECTED_TOPIC", default_value = schemas::log::REJECTED_TOPIC)]
    pub rejected_topic: String,
}

/// The store of events.
#[derive(Args, Clone, Debug)]
pub struct ClickHouseSettings {
    /// HTTP address of ClickHouse, with user and password where it has them
    #[arg(long, env = "CLICKHOUSE_URL", value_name = "URL")]
    pub clickhouse_url: String,
    /// Database that holds the tables
    #[arg(long, env = "TELEMETRY_CLICKHOUSE_DATABASE", default_value = "telemetry", value_parser = database_name)]
    pub clickhouse_database: String,
}

/// The store of state.
#[derive(Args, Clone, Debug)]
pub struct PostgresSettings {
    /// Address of PostgreSQL
    #[arg(long, env = "DATABASE_URL", value_name = "URL")]
    pub database_url: String,
}

/// Where webhooks may go besides public HTTPS servers.
#[derive(Args, Clone, Debug, Default)]
pub struct WebhookSettings {
    /// Receivers of webhooks that may be local, for development only; *:PORT is a further port of public ones
    #[arg(long, env = "WEBHOOK_ALLOW", default_value = "", value_name = "HOST:PORT[,HOST:PORT…]", hide_default_value = true)]
    pub webhook_allow: AllowedReceivers,
    /// PEM file of a certificate authority to trust besides the system's, for receivers of one's own
    #[arg(long, env = "WEBHOOK_EXTRA_CA", value_name = "FILE")]
    pub webhook_extra_ca: Option<PathBuf>,
    /// DNS server to ask where names point, instead of the system's
    #[arg(long, env = "TELEMETRY_DNS_SERVER", value_name = "HOST:PORT")]
    pub dns_server: Option<SocketAddr>,
}

impl WebhookSettings {
    /// Says at start-up that a guard is down.
    pub fn warn_if_open(&self) {
        if !self.webhook_allow.is_empty() {
            tracing::warn!(allowed = %self.webhook_allow, "WEBHOOK_ALLOW is set: more than public servers on port 443 may be called; not for production");
        }
        if let Some(file) = &self.webhook_extra_ca {
            tracing::warn!(file = %file.display(), "WEBHOOK_EXTRA_CA is set: one more authority is trusted; not for production");
        }
    }
}

/// Quoting an arbitrary name in DDL is not worth the risk: a plain identifier or nothing.
fn database_name(name: &str) -> Result<String, String> {
    let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_plain.then(|| name.to_owned()).ok_or_else(|| "use lower-case letters, digits and underscores".to_owned())
}

/// Reads the settings of a process, or ends it with one line that names the setting, the value and the fix.
pub fn parse<S: Parser>() -> S {
    let settings = S::try_parse().unwrap_or_else(|refusal| refuse(&refusal, &S::command()));
    if let Some(unknown) = first_unknown(&S::command(), environment_names()) {
        eprintln!("unknown setting {unknown}: remove it from the environment, or correct its name (--help lists every setting)");
        std::process::exit(2);
    }
    settings
}

/// Help and version go out as they are; everything else becomes a single line.
fn refuse(refusal: &clap::Error, command: &clap::Command) -> ! {
    if refusal.use_stderr() {
        eprintln!("{}", one_line(&refusal.to_string(), command));
        std::process::exit(2);
    }
    refusal.exit()
}

/// What clap says in several lines, with the names of the settings as the environment spells them.
fn one_line(text: &str, command: &clap::Command) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage")).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    let is_named = |argument: &clap::Arg| argument.get_long().is_some_and(|long| line.contains(&format!("--{long} ")));
    let names: Vec<&str> = command
        .get_arguments()
        .filter(|argument| is_named(argument))
        .filter_map(|argument| argument.get_env()?.to_str())
        .collect();
    let settings = if names.is_empty() { String::new() } else { format!("in the environment: {}; ", names.join(", ")) };
    format!("{line} ({settings}--help lists every setting)")
}

fn environment_names() -> BTreeSet<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

fn first_unknown(command: &clap::Command, present: BTreeSet<String>) -> Option<String> {
    let mut known = BTreeSet::new();
    collect_names(command, &mut known);
    present.into_iter().find(|name| name.starts_with(PREFIX) && !known.contains(name))
}

fn collect_names(command: &clap::Command, known: &mut BTreeSet<String>) {
    known.extend(command.get_arguments().filter_map(|argument| Some(argument.get_env()?.to_str()?.to_owned())));
    for subcommand in command.get_subcommands() {
        collect_names(subcommand, known);
    }
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
    fn a_misspelt_setting_is_found_and_foreign_ones_are_left_alone() {
        let present = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let unknown = |names| first_unknown(&Sample::command(), present(names));
        assert_eq!(unknown(&["TELEMETRY_LISTEN", "PATH", "KAFKA_OPTS"]), None);
        assert_eq!(unknown(&["TELEMETRY_LISTEM"]).as_deref(), Some("TELEMETRY_LISTEM"));
    }

    #[test]
    fn a_refusal_is_one_line_that_names_the_setting() {
        let refusal = Sample::try_parse_from(["sample", "--listen", "here"]).err().unwrap().to_string();
        let line = one_line(&refusal, &Sample::command());
        assert!(line.contains("'here'") && line.contains("in the environment: TELEMETRY_LISTEN;"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn a_database_name_is_a_plain_identifier() {
        assert!(database_name("telemetry_2").is_ok());
        for bad in ["", "a-b", "a b", "A", "a;drop"] {
            assert!(database_name(bad).is_err(), "{bad}");
        }
    }
}
