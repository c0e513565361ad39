//! `telemetry secrets`: creates the secrets that docker-compose.yml requires, readable only by the owner, and never replaces them.

use crate::subcommands::run_to_exit;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(crate) fn read(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().map(|line| pair(line).unwrap_or_else(|| panic!("{line} is not an assignment"))).collect()
}

/// Returns the settings that docker-compose.yml requires, `${NAME:?why}`.
pub(crate) fn required_settings() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docker-compose.yml");
    let text = std::fs::read_to_string(file).expect("the file of compose is read");
    text.split("${").skip(1).filter_map(|rest| Some(rest.split('}').next()?.split_once(":?")?.0.to_owned())).collect()
}

#[tokio::test]
async fn creates_new_secrets_each_time() {
    let (code, first, _) = run_to_exit(&["secrets"], &[]).await;
    assert_eq!(code, Some(0));
    let (first, second) = (read(&first), read(&run_to_exit(&["secrets"], &[]).await.1));
    assert_eq!(first.keys().cloned().collect::<BTreeSet<_>>(), required_settings());
    let values: BTreeSet<&String> = first.values().chain(second.values()).collect();
    assert_eq!(values.len(), 2 * first.len(), "all secrets must differ");
    for (name, value) in first.iter().filter(|(name, _)| name.ends_with("_PASSWORD")) {
        assert!(value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name} is used in URLs");
    }
}

#[tokio::test]
async fn secrets_file_is_private_and_never_replaced() {
    let folder = tempfile::tempdir().expect("a folder is created");
    let file = folder.path().join(".env");
    let arguments = ["secrets", "--file", file.to_str().expect("the folder has a plain name")];
    let (code, printed, said) = run_to_exit(&arguments, &[]).await;
    assert_eq!((code, printed.as_str()), (Some(0), ""), "{said}");
    assert_eq!(std::fs::metadata(&file).expect("the file exists").permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&file).expect("the file is readable");
    assert!(read(&kept).contains_key("TELEMETRY_SECRETS_KEY"));

    let (code, _, said) = run_to_exit(&arguments, &[]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("already exists") && said.lines().count() == 1, "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file is readable"), kept);

    let (code, _, said) = run_to_exit(&["secrets", "--file", "/no/such/folder/.env"], &[]).await;
    assert!(code == Some(1) && said.starts_with("error: failed to write /no/such/folder/.env"), "{said}");
}
