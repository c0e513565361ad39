//! Each service is a subcommand with its own help and errors.

use service_kit::testing::TestProcess;
use std::path::Path;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_telemetry");
const SERVICES: [&str; 5] = ["ingest-gateway", "stream-workers", "query-api", "identity-api", "console"];

/// Runs the program; returns its exit code and output.
pub(crate) async fn run_to_exit(arguments: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut process = TestProcess::start(Path::new(PROGRAM), arguments, settings);
    let code = process.exit_code().await;
    (code, process.stdout(), process.stderr())
}

#[tokio::test]
async fn services_are_subcommands_with_help_and_health_check() {
    let (code, help, _) = run_to_exit(&["--help"], &[]).await;
    assert_eq!(code, Some(0));
    for service in SERVICES {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{service} "))), "{service} is missing: {help}");
        let (code, own, said) = run_to_exit(&[service, "--help"], &[]).await;
        assert_eq!((code, said.as_str()), (Some(0), ""), "{service}");
        assert!(own.contains(&format!("Usage: telemetry {service}")) && own.contains("  health "), "{own}");
    }
}

#[tokio::test]
async fn rejects_missing_and_unknown_subcommands() {
    for words in [&[][..], &["no-such-service"]] {
        let (code, printed, said) = run_to_exit(words, &[]).await;
        assert_eq!((code, printed.as_str()), (Some(2), ""), "{words:?}: {said}");
        assert!(said.contains("--help"), "{words:?}: {said}");
    }
}
