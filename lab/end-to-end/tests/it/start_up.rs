//! Starts every binary and subcommand with invalid settings. Each prints one line that names the setting, its value and the fix.

use crate::pipeline::process;
use crate::settings_table::{binaries, modes};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use futures::{StreamExt, stream};
use reqwest::Url;
use service_kit::secret_encryption::SecretsKey;
use service_kit::testing::{TestStores, free_address};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

type Settings = Vec<(String, String)>;

/// Arguments of the deliverer.
const DELIVER: &[&str] = &["deliver"];
/// A value that no parser accepts.
const NONSENSE: &str = "\u{2603} no such thing";

/// Returns the exit code, stdout, and stderr without log lines.
async fn run_to_exit(binary: &str, arguments: &[&str], settings: &Settings) -> (Option<i32>, String, String) {
    let mut process = process(binary, arguments, settings);
    let code = process.exit_code().await;
    let plain: Vec<String> = process.stderr().lines().filter(|line| !line.starts_with('{')).map(str::to_owned).collect();
    (code, process.stdout(), plain.join("\n"))
}

fn typed(name: &str) -> Vec<&str> {
    name.split(' ').skip(1).collect()
}

fn settings_of(mode: &Command) -> impl Iterator<Item = (String, &Arg)> {
    mode.get_arguments().filter_map(|argument| Some((argument.get_env()?.to_str()?.to_owned(), argument)))
}

/// Returns the required settings of a subcommand and of its binary.
fn required(binary: &Command, mode: &Command) -> Settings {
    let of = |command: &Command| -> Vec<String> {
        settings_of(command).filter(|(_, argument)| argument.is_required_set()).map(|(setting, _)| setting).collect()
    };
    let names = of(binary).into_iter().chain(of(mode));
    names
        .map(|name| {
            let value = match name.as_str() {
                "KAFKA_BROKERS" => "127.0.0.1:1",
                "CLICKHOUSE_URL" | "TELEMETRY_API_URL" => "http://127.0.0.1:1",
                _ => "postgres://telemetry@127.0.0.1:1/telemetry",
            };
            (name, value.to_owned())
        })
        .collect()
}

/// Returns whether the setting's parser rejects nonsense. Other settings are strings until they are used.
fn is_parsed(argument: &Arg) -> bool {
    let alone = Arg::new("alone").long("alone").value_parser(argument.get_value_parser().clone());
    let alone = Command::new("alone").arg(alone.num_args(argument.get_num_args().unwrap_or_default()));
    let given = ["alone".to_owned(), format!("--alone={NONSENSE}")];
    alone
        .try_get_matches_from(given)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_subcommand_has_help() {
    for binary in binaries() {
        for (name, mode) in modes(&binary) {
            let mut arguments = typed(&name);
            arguments.push("--help");
            let (code, help, said) = run_to_exit(binary.get_name(), &arguments, &Vec::new()).await;
            assert_eq!((code, said.as_str()), (Some(0), ""), "{name}");
            for (setting, _) in settings_of(&mode) {
                assert!(help.contains(&setting), "{name} --help lacks {setting}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_setting_and_its_invalid_value() {
    let mut tried = 0;
    for binary in binaries() {
        for (name, mode) in modes(&binary) {
            // Commands with subcommands require one before they check anything else.
            if mode.is_subcommand_required_set()
                || mode.get_arguments().any(|argument| argument.is_required_set() && argument.get_env().is_none())
            {
                continue;
            }
            for (setting, _) in settings_of(&mode).filter(|(_, argument)| is_parsed(argument)) {
                let mut settings = required(&binary, &mode);
                settings.retain(|(known, _)| *known != setting);
                settings.push((setting.clone(), NONSENSE.to_owned()));
                let (code, _, said) = run_to_exit(binary.get_name(), &typed(&name), &settings).await;
                assert_eq!(code, Some(2), "{name} {setting}: {said}");
                assert!(
                    said.contains(&setting) && said.contains(NONSENSE) && said.contains("--help"),
                    "{name} {setting}: {said}"
                );
                assert_eq!(said.lines().count(), 1, "{name} {setting}: {said}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "only {tried} settings were tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_unknown_and_missing_settings() {
    for binary in binaries() {
        let mut unknown = required(&binary, &binary);
        unknown.push(("TELEMETRY_WRONG_NAME".to_owned(), "127.0.0.1:8080".to_owned()));
        // Services can share a settings file, so settings of other services are accepted.
        unknown.push(("TELEMETRY_SPILL_MAX_BYTES".to_owned(), "1".to_owned()));
        unknown.push(("TELEMETRY_OIDC_PROVIDERS".to_owned(), "[]".to_owned()));
        unknown.push(("TELEMETRY_READS_AT_ONCE".to_owned(), "1".to_owned()));
        let (code, _, said) = run_to_exit(binary.get_name(), &[], &unknown).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("unknown setting TELEMETRY_WRONG_NAME: remove it") && said.lines().count() == 1, "{said}");
        for (name, mode) in modes(&binary)
            .into_iter()
            .filter(|(name, _)| !name.contains(' ') || name.ends_with("prepare") || name.ends_with("deliver"))
        {
            let needed = if name.ends_with("deliver") { required(&mode, &mode) } else { required(&binary, &binary) };
            for (missing, _) in &needed {
                let others = needed.iter().filter(|(known, _)| known != missing).cloned().collect();
                let (code, _, said) = run_to_exit(binary.get_name(), &typed(&name), &others).await;
                assert_eq!(code, Some(2), "{name} without {missing}: {said}");
                assert!(
                    said.contains(missing.as_str()) && said.contains("--help") && said.lines().count() == 1,
                    "{name}: {said}"
                );
            }
        }
    }
}

/// A case of the tables below.
struct Case {
    service: &'static str,
    arguments: &'static [&'static str],
    changed: Vec<(&'static str, String)>,
    begins: String,
    advises: &'static str,
}

impl Case {
    fn new(service: &'static str, setting: &'static str, value: &str, begins: &str, advises: &'static str) -> Self {
        let changed = vec![(setting, value.to_owned())];
        Self { service, arguments: &[], changed, begins: begins.to_owned(), advises }
    }

    fn and(mut self, setting: &'static str, value: &str) -> Self {
        self.changed.push((setting, value.to_owned()));
        self
    }

    fn typed(self, arguments: &'static [&'static str]) -> Self {
        Self { arguments, ..self }
    }
}

/// Returns the cases for all services. The deliverer is a subcommand of the worker's binary, but counts as a separate service.
fn shared(
    service: &'static str,
    mode: &'static [&'static str],
    stores: &TestStores,
    taken: SocketAddr,
    nobody: SocketAddr,
) -> Vec<Case> {
    let listens = ["TELEMETRY_LISTEN", "TELEMETRY_METRICS_LISTEN"]
        .map(|setting| Case::new(service, setting, &taken.to_string(), &format!("{setting}={taken}: "), "choose a free address"));
    let log = Case::new(service, "TELEMETRY_LOG", "a=b=c", "TELEMETRY_LOG=a=b=c: ", "try `info`");
    let mut cases: Vec<Case> = listens.into_iter().chain([log]).collect();
    // The worker starts without PostgreSQL, and the deliverer needs only PostgreSQL.
    if service != "stream-workers" || mode == DELIVER {
        let url = format!("postgres://telemetry:hunter2@{nobody}/telemetry");
        cases.push(Case::new(
            service,
            "DATABASE_URL",
            &url,
            &format!("DATABASE_URL={nobody}: "),
            "start it or correct the address",
        ));
        for other in ["hunter2", "mysql://u:hunter2@localhost/telemetry"] {
            cases.push(Case::new(service, "DATABASE_URL", other, "DATABASE_URL: not a PostgreSQL URL", "use postgres://"));
        }
        cases.extend(refused_by_postgres(service, stores));
    }
    if matches!(service, "stream-workers" | "query-api") && mode != DELIVER {
        let url = format!("http://u:hunter2@{nobody}");
        let begins = format!("CLICKHOUSE_URL={nobody}: ");
        cases.push(Case::new(service, "CLICKHOUSE_URL", &url, &begins, "start it or correct the address"));
        cases.push(Case::new(service, "CLICKHOUSE_URL", "hunter2", "CLICKHOUSE_URL: not an HTTP URL", "use http://"));
        let database = "TELEMETRY_CLICKHOUSE_DATABASE";
        cases.push(Case::new(
            service,
            database,
            "nowhere",
            "TELEMETRY_CLICKHOUSE_DATABASE=nowhere: ",
            "`telemetry stream-workers prepare`",
        ));
    }
    cases.into_iter().map(|case| case.typed(mode)).collect()
}

/// PostgreSQL is available, but the role or the database does not exist.
fn refused_by_postgres(service: &'static str, stores: &TestStores) -> [Case; 2] {
    let mut stranger = Url::parse(&stores.postgres.database_url).unwrap();
    let mut nowhere = stranger.clone();
    stranger.set_username("nobody_of_that_name").unwrap();
    nowhere.set_path("/nowhere");
    let refused = |url: Url, advises| Case::new(service, "DATABASE_URL", url.as_str(), "DATABASE_URL=127.0.0.1:", advises);
    [refused(stranger, "correct the user name nobody_of_that_name"), refused(nowhere, "create the database nowhere")]
}

/// Returns the cases for individual services.
fn special(nobody: SocketAddr) -> Vec<Case> {
    let brokers = |service, advises| {
        Case::new(service, "KAFKA_BROKERS", &nobody.to_string(), &format!("KAFKA_BROKERS={nobody}: "), advises)
    };
    let worker = || brokers("stream-workers", "correct");
    let (gateway, identity) = ("ingest-gateway", "identity-api");
    let smtp = Case::new(identity, "TELEMETRY_SMTP_URL", "hunter2", "TELEMETRY_SMTP_URL: not a valid URL", "use the form");
    let postgres = format!("postgres://telemetry:hunter2@{nobody}/telemetry");
    let hours = "TELEMETRY_SESSION_IDLE_HOURS";
    let key = |service| {
        let begins = "TELEMETRY_SECRETS_KEY is not 32 bytes";
        Case::new(service, "TELEMETRY_SECRETS_KEY", "hunter2", begins, "openssl rand -base64 32")
    };
    let authority = |service| Case::new(service, "WEBHOOK_EXTRA_CA", "/nowhere.pem", "WEBHOOK_EXTRA_CA=/nowhere.pem: ", "PEM");
    vec![
        key("stream-workers").typed(DELIVER),
        authority("stream-workers").typed(DELIVER),
        worker(),
        worker().typed(&["prepare"]),
        worker().typed(&["rebuild"]),
        worker().typed(&["rejected", "list"]),
        brokers(gateway, "start one or correct the address").and("TELEMETRY_SPILL_MAX_BYTES", "0"),
        Case::new(gateway, "TELEMETRY_SPILL_DIR", "/proc/spill", "TELEMETRY_SPILL_DIR=/proc/spill: ", "writable"),
        Case::new(gateway, "TELEMETRY_TOPIC", "absent", "topic absent does not exist: ", "create it with"),
        Case::new(gateway, "TELEMETRY_KAFKA_CA", "/x.pem", "TELEMETRY_KAFKA_CA=/x.pem: ", "set it to ssl or sasl-ssl, or remove"),
        key(gateway),
        key(identity),
        Case::new("query-api", "TELEMETRY_STATEMENT_KEYS", "hunter2", "TELEMETRY_STATEMENT_KEYS: ", "openssl rand -base64 32"),
        smtp.and("TELEMETRY_MAIL_FROM", "a@b.test"),
        Case::new(identity, "TELEMETRY_MAIL_FROM", "nobody", "TELEMETRY_MAIL_FROM=\"nobody\": ", "use the form"),
        Case::new(identity, hours, "800", "TELEMETRY_SESSION_IDLE_HOURS=800 is above ", "lower it"),
        authority(identity),
        Case::new(identity, "DATABASE_URL", &postgres, &format!("DATABASE_URL={nobody}: "), "correct the address")
            .typed(&["migrate"]),
    ]
}

fn good(service: &str, stores: &TestStores, folder: &Path) -> Settings {
    let everybody = "ingest-gateway stream-workers query-api identity-api";
    let all = [
        ("KAFKA_BROKERS", stores.kafka.kafka_brokers.clone(), "ingest-gateway stream-workers"),
        ("TELEMETRY_TOPIC", stores.kafka.topic.clone(), "ingest-gateway stream-workers"),
        ("TELEMETRY_REJECTED_TOPIC", stores.kafka.rejected_topic.clone(), "ingest-gateway stream-workers"),
        ("CLICKHOUSE_URL", stores.clickhouse.clickhouse_url.clone(), "stream-workers query-api"),
        ("TELEMETRY_CLICKHOUSE_DATABASE", stores.name.clone(), "stream-workers query-api"),
        ("DATABASE_URL", stores.postgres.database_url.clone(), everybody),
        ("TELEMETRY_SPILL_DIR", tempfile::tempdir_in(folder).unwrap().keep().display().to_string(), "ingest-gateway"),
        ("TELEMETRY_SECRETS_KEY", SecretsKey::generate().reveal().to_owned(), "ingest-gateway identity-api stream-workers"),
        ("TELEMETRY_MAIL_DIR", folder.display().to_string(), "identity-api"),
        ("TELEMETRY_LISTEN", "127.0.0.1:0".to_owned(), everybody),
        ("TELEMETRY_METRICS_LISTEN", "127.0.0.1:0".to_owned(), everybody),
    ];
    let own = all.into_iter().filter(|(.., readers)| readers.split(' ').any(|reader| reader == service));
    own.map(|(name, value, _)| (name.to_owned(), value)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_setting_and_the_fix() {
    let (stores, folder) = (TestStores::fresh().await, tempfile::tempdir().unwrap());
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken, nobody) = (holder.local_addr().unwrap(), free_address());
    let services: [(&str, &[&str]); 5] = [
        ("ingest-gateway", &[]),
        ("stream-workers", &[]),
        ("stream-workers", DELIVER),
        ("query-api", &[]),
        ("identity-api", &[]),
    ];
    let cases =
        services.into_iter().flat_map(|(service, mode)| shared(service, mode, &stores, taken, nobody)).chain(special(nobody));
    let wrong = cases.map(|Case { service, arguments, changed, begins, advises }| {
        let mut settings = good(service, &stores, folder.path());
        settings.retain(|(known, _)| !changed.iter().any(|(name, _)| name == known));
        settings.extend(changed.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        async move {
            let (code, _, said) = run_to_exit(service, arguments, &settings).await;
            // Operator commands print an `error: ` prefix, and exit with 5 if a retry may help.
            let of_command = said.strip_prefix("error: ");
            let is_code = code == Some(1) || (of_command.is_some() && code == Some(5));
            let is_one_line = is_code && said.lines().count() == 1 && !said.contains("hunter2");
            let is_right = is_one_line && of_command.unwrap_or(&said).starts_with(&begins) && said.contains(advises);
            (!is_right).then(|| format!("{service} {arguments:?} {changed:?}: wants {begins} {advises}; {code:?}: {said}"))
        }
    });
    // Some cases wait ten seconds for missing brokers.
    let wrong: Vec<String> = stream::iter(wrong).buffer_unordered(8).filter_map(std::future::ready).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
