//! Each service answers to its name, explains itself and refuses what it cannot use.

use service_kit::testing::TestProcess;
use std::path::Path;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_telemetry");
const SERVICES: [&str; 5] = ["ingest-gateway", "stream-workers", "query-api", "identity-api", "console"];

/// Exit code, and what it said on both streams.
pub(crate) async fn ended(arguments: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut process = TestProcess::start(Path::new(PROGRAM), arguments, settings);
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

#[tokio::test]
async fn every_service_is_a_subcommand_with_a_health_check_and_help_of_its_own() {
    let (code, help, _) = ended(&["--help"], &[]).await;
    assert_eq!(code, Some(0));
    for service in SERVICES {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{service} "))), "{service} is missing: {help}");
        let (code, own, said) = ended(&[service, "--help"], &[]).await;
        assert_eq!((code, said.as_str()), (Some(0), ""), "{service}");
        assert!(own.contains(&format!("Usage: telemetry {service}")) && own.contains("  health "), "{own}");
    }
}

#[tokio::test]
async fn without_a_subcommand_or_with_an_unknown_one_it_says_so_and_does_nothing() {
    for words in [&[][..], &["no-such-service"]] {
        let (code, printed, said) = ended(words, &[]).await;
        assert_eq!((code, printed.as_str()), (Some(2), ""), "{words:?}: {said}");
        assert!(said.contains("--help"), "{words:?}: {said}");
    }
}
