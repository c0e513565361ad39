//! Settings without which the binary doesn't start. The tests don't use a database, because settings are checked first.

use service_kit::secret_encryption::SecretsKey;
use service_kit::testing::{TestProcess, TestStores};
use std::net::TcpListener;

/// A free port, because a running stack may use the default one.
const METRICS: (&str, &str) = ("TELEMETRY_METRICS_LISTEN", "127.0.0.1:0");

#[tokio::test]
async fn missing_settings_fail_with_a_one_line_fix() {
    // Occupy the default metrics port, if it is free.
    let _taken = TcpListener::bind("127.0.0.1:9464");
    let stores = TestStores::unprepared().await;
    let database = ("DATABASE_URL", stores.postgres.database_url.as_str());
    for key in [None, Some("hunter2")] {
        let settings: Vec<(&str, &str)> =
            [database, METRICS].into_iter().chain(key.map(|key| ("TELEMETRY_SECRETS_KEY", key))).collect();
        let mut process = TestProcess::service(&[], &settings);
        assert_eq!(process.exit_code().await, Some(1), "{key:?}");
        let said = process.stderr();
        let last = said.lines().last().unwrap();
        assert!(last.contains("TELEMETRY_SECRETS_KEY") && last.contains("openssl rand -base64 32"), "{said}");
        assert!(!said.contains("hunter2"), "an invalid key is not shown: {said}");
    }
    let key = SecretsKey::generate();
    let without_mail = [database, METRICS, ("TELEMETRY_SECRETS_KEY", key.reveal())];
    let mut process = TestProcess::service(&[], &without_mail);
    assert_eq!(process.exit_code().await, Some(1));
    let said = process.stderr();
    let last = said.lines().last().unwrap();
    assert!(last.contains("TELEMETRY_SMTP_URL") && last.contains("TELEMETRY_MAIL_DIR"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let mail = ("TELEMETRY_MAIL_DIR", folder.path().to_str().unwrap());
    let listen = ("TELEMETRY_LISTEN", "0.0.0.0:0");
    let for_everybody = [database, METRICS, ("TELEMETRY_SECRETS_KEY", key.reveal()), mail, listen];
    let mut process = TestProcess::service(&[], &for_everybody);
    assert_eq!(process.exit_code().await, Some(1));
    let said = process.stderr();
    assert!(said.lines().last().unwrap().contains("TELEMETRY_PUBLIC_URL"), "{said}");
    assert_eq!(TestProcess::service(&["migrate"], &[database, METRICS]).exit_code().await, Some(0), "only serving needs it");
}
