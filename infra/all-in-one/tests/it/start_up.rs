//! Starting with settings that cannot work: every binary, every mode, every setting. What comes out is one line that names the
//! setting and the value, and says what to do.
//!
//! Must not look inside the services, and must learn of settings from the commands themselves: a new one is tested unasked.

use crate::pipeline::beside;
use crate::settings_table::{binaries, modes};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use futures::{StreamExt, stream};
use service_kit::sealing::SecretsKey;
use service_kit::testing::{TestProcess, TestStores, free_address};
use std::net::TcpListener;

type Settings = Vec<(String, String)>;

/// A value that no parser takes.
const NONSENSE: &str = "\u{2603} no such thing";

/// Exit code, and what it says that is not log.
async fn ended(binary: &str, arguments: &[&str], settings: &Settings) -> (Option<i32>, String, String) {
    let mut process = TestProcess::start(&beside(binary), arguments, settings);
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

/// What a mode must be given, its own and its binary's.
fn required(binary: &Command, mode: &Command) -> Settings {
    let of = |command: &Command| -> Vec<String> {
        settings_of(command).filter(|(_, argument)| argument.is_required_set()).map(|(setting, _)| setting).collect()
    };
    let names = of(binary).into_iter().chain(of(mode));
    names
        .map(|name| {
            let value = match name.as_str() {
                "KAFKA_BROKERS" => "127.0.0.1:1",
                "CLICKHOUSE_URL" => "http://127.0.0.1:1",
                _ => "postgres://telemetry@127.0.0.1:1/telemetry",
            };
            (name, value.to_owned())
        })
        .collect()
}

/// Whether the parser itself refuses nonsense; what else is read is text until it is used.
fn is_parsed(argument: &Arg) -> bool {
    let alone = Arg::new("alone").long("alone").value_parser(argument.get_value_parser().clone());
    let alone = Command::new("alone").arg(alone.num_args(argument.get_num_args().unwrap_or_default()));
    let given = ["alone".to_owned(), format!("--alone={NONSENSE}")];
    alone
        .try_get_matches_from(given)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_explains_itself() {
    for binary in binaries() {
        for (name, mode) in modes(&binary) {
            let mut arguments = typed(&name);
            arguments.push("--help");
            let (code, help, said) = ended(binary.get_name(), &arguments, &Vec::new()).await;
            assert_eq!((code, said.as_str()), (Some(0), ""), "{name}");
            for (setting, _) in settings_of(&mode) {
                assert!(help.contains(&setting), "{name} --help names {setting}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_with_a_value_that_cannot_be_read_is_refused_by_name_and_value() {
    let mut tried = 0;
    for binary in binaries() {
        for (name, mode) in modes(&binary) {
            // A mode that has modes asks for one before it looks at anything else.
            if mode.is_subcommand_required_set()
                || mode.get_arguments().any(|argument| argument.is_required_set() && argument.get_env().is_none())
            {
                continue;
            }
            for (setting, _) in settings_of(&mode).filter(|(_, argument)| is_parsed(argument)) {
                let mut settings = required(&binary, &mode);
                settings.retain(|(known, _)| *known != setting);
                settings.push((setting.clone(), NONSENSE.to_owned()));
                let (code, _, said) = ended(binary.get_name(), &typed(&name), &settings).await;
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
async fn a_setting_nobody_reads_and_one_that_is_missing_are_refused_by_name() {
    for binary in binaries() {
        let mut unknown = required(&binary, &binary);
        unknown.push(("TELEMETRY_LISTEM".to_owned(), "127.0.0.1:8080".to_owned()));
        let (code, _, said) = ended(binary.get_name(), &[], &unknown).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("unknown setting TELEMETRY_LISTEM: remove it") && said.lines().count() == 1, "{said}");
        for (name, mode) in modes(&binary)
            .into_iter()
            .filter(|(name, _)| !name.contains(' ') || name.ends_with("prepare") || name.ends_with("deliver"))
        {
            let needed = if name.ends_with("deliver") { required(&mode, &mode) } else { required(&binary, &binary) };
            for (missing, _) in &needed {
                let others = needed.iter().filter(|(known, _)| known != missing).cloned().collect();
                let (code, _, said) = ended(binary.get_name(), &typed(&name), &others).await;
                assert_eq!(code, Some(2), "{name} without {missing}: {said}");
                assert!(
                    said.contains(missing.as_str()) && said.contains("--help") && said.lines().count() == 1,
                    "{name}: {said}"
                );
            }
        }
    }
}

/// One case of the table below: who, how, what is set, what the line begins with, what it advises.
type Case<'a> = (&'a str, &'a [&'a str], Vec<(&'a str, String)>, String, &'a str);

#[tokio::test(flavor = "multi_thread")]
async fn what_turns_out_only_when_it_is_used_is_refused_with_setting_value_and_fix() {
    let stores = TestStores::fresh().await;
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _holder = TcpListener::bind(taken).unwrap();
    let nobody = free_address();
    let good = |name: &str| -> Vec<(String, String)> {
        let all = [
            ("KAFKA_BROKERS", stores.kafka.kafka_brokers.clone(), "ingest-gateway stream-workers"),
            ("TELEMETRY_TOPIC", stores.kafka.topic.clone(), "ingest-gateway stream-workers"),
            ("TELEMETRY_REJECTED_TOPIC", stores.kafka.rejected_topic.clone(), "ingest-gateway stream-workers"),
            ("CLICKHOUSE_URL", stores.clickhouse.clickhouse_url.clone(), "stream-workers query-api"),
            ("TELEMETRY_CLICKHOUSE_DATABASE", stores.name.clone(), "stream-workers query-api"),
            ("DATABASE_URL", stores.postgres.database_url.clone(), "ingest-gateway stream-workers query-api identity-api"),
            ("TELEMETRY_SPILL_DIR", folder.path().join("spill").display().to_string(), "ingest-gateway"),
            ("TELEMETRY_SECRETS_KEY", SecretsKey::mint().reveal().to_owned(), "identity-api"),
            ("TELEMETRY_MAIL_DIR", folder.path().display().to_string(), "identity-api"),
            ("TELEMETRY_LISTEN", "127.0.0.1:0".to_owned(), "ingest-gateway stream-workers query-api identity-api"),
            ("TELEMETRY_METRICS_LISTEN", "127.0.0.1:0".to_owned(), "ingest-gateway stream-workers query-api identity-api"),
        ];
        all.into_iter()
            .filter(|(.., readers)| readers.split(' ').any(|reader| reader == name))
            .map(|(n, v, _)| (n.to_owned(), v))
            .collect()
    };
    let postgres = format!("postgres://telemetry:hunter2@{nobody}/telemetry");
    let mut cases: Vec<Case<'_>> = Vec::new();
    for service in ["ingest-gateway", "stream-workers", "query-api", "identity-api"] {
        for setting in ["TELEMETRY_LISTEN", "TELEMETRY_METRICS_LISTEN"] {
            cases.push((
                service,
                &[],
                vec![(setting, taken.to_string())],
                format!("{setting}={taken}: "),
                "choose a free address",
            ));
        }
        cases.push((service, &[], vec![("TELEMETRY_LOG", "a=b=c".to_owned())], "TELEMETRY_LOG=a=b=c: ".to_owned(), "try `info`"));
        if service != "stream-workers" {
            cases.push((
                service,
                &[],
                vec![("DATABASE_URL", postgres.clone())],
                format!("DATABASE_URL={nobody}: "),
                "start it, or correct the address",
            ));
            cases.push((
                service,
                &[],
                vec![("DATABASE_URL", "hunter2".to_owned())],
                "DATABASE_URL: not a PostgreSQL address".to_owned(),
                "write postgres://",
            ));
        }
    }
    for service in ["stream-workers", "query-api"] {
        cases.push((
            service,
            &[],
            vec![("CLICKHOUSE_URL", format!("http://u:hunter2@{nobody}"))],
            format!("CLICKHOUSE_URL={nobody}: "),
            "start it, or correct the address",
        ));
        cases.push((
            service,
            &[],
            vec![("CLICKHOUSE_URL", "hunter2".to_owned())],
            "CLICKHOUSE_URL: not an HTTP address".to_owned(),
            "write http://",
        ));
        cases.push((
            service,
            &[],
            vec![("TELEMETRY_CLICKHOUSE_DATABASE", "nowhere".to_owned())],
            "TELEMETRY_CLICKHOUSE_DATABASE=nowhere: ".to_owned(),
            "create it with `stream-workers prepare`",
        ));
    }
    for arguments in [&[][..], &["prepare"], &["rebuild"], &["rejected", "list"]] {
        let brokers = vec![("KAFKA_BROKERS", nobody.to_string())];
        cases.push(("stream-workers", arguments, brokers, format!("KAFKA_BROKERS={nobody}: "), "correct"));
    }
    let away = vec![("KAFKA_BROKERS", nobody.to_string()), ("TELEMETRY_SPILL_MAX_BYTES", "0".to_owned())];
    cases.push(("ingest-gateway", &[], away, format!("KAFKA_BROKERS={nobody}: "), "start one, or correct the address"));
    cases.push((
        "ingest-gateway",
        &[],
        vec![("TELEMETRY_SPILL_DIR", "/proc/spill".to_owned())],
        "TELEMETRY_SPILL_DIR=/proc/spill: ".to_owned(),
        "name",
    ));
    cases.push((
        "ingest-gateway",
        &[],
        vec![("TELEMETRY_TOPIC", "absent".to_owned())],
        "topic absent does not exist: ".to_owned(),
        "create it with",
    ));
    cases.push((
        "identity-api",
        &[],
        vec![("TELEMETRY_SECRETS_KEY", "hunter2".to_owned())],
        "TELEMETRY_SECRETS_KEY is not 32 bytes".to_owned(),
        "openssl rand -base64 32",
    ));
    cases.push((
        "identity-api",
        &[],
        vec![("TELEMETRY_SMTP_URL", "hunter2".to_owned()), ("TELEMETRY_MAIL_FROM", "a@b.test".to_owned())],
        "TELEMETRY_SMTP_URL: not a mail server".to_owned(),
        "write it as",
    ));
    cases.push((
        "identity-api",
        &[],
        vec![("TELEMETRY_MAIL_FROM", "nobody".to_owned())],
        "TELEMETRY_MAIL_FROM=\"nobody\": ".to_owned(),
        "write it as",
    ));
    cases.push((
        "identity-api",
        &[],
        vec![("TELEMETRY_SESSION_IDLE_HOURS", "800".to_owned())],
        "TELEMETRY_SESSION_IDLE_HOURS=800 is above ".to_owned(),
        "lower it",
    ));
    cases.push((
        "identity-api",
        &[],
        vec![("WEBHOOK_EXTRA_CA", "/nowhere.pem".to_owned())],
        "WEBHOOK_EXTRA_CA=/nowhere.pem: ".to_owned(),
        "PEM",
    ));
    cases.push((
        "identity-api",
        &["migrate"],
        vec![("DATABASE_URL", postgres.clone())],
        format!("DATABASE_URL={nobody}: "),
        "start it, or correct the address",
    ));
    let wrong = cases.into_iter().map(|(service, arguments, changed, begins, advises)| {
        let mut settings = good(service);
        settings.retain(|(known, _)| !changed.iter().any(|(name, _)| name == known));
        settings.extend(changed.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        async move {
            let (code, _, said) = ended(service, arguments, &settings).await;
            let is_one_line = code == Some(1) && said.lines().count() == 1 && !said.contains("hunter2");
            let is_right = is_one_line && said.starts_with(&begins) && said.contains(advises);
            (!is_right).then(|| format!("{service} {arguments:?} {changed:?}: wants {begins} {advises}; {code:?}: {said}"))
        }
    });
    // Some wait ten seconds for brokers that are not there.
    let wrong: Vec<String> = stream::iter(wrong).buffer_unordered(8).filter_map(std::future::ready).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
