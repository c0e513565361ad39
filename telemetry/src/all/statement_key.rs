//! `statement.keys` in the state folder: signs statements if no key file is configured. An existing file is never replaced, because
//! its keys verify earlier statements.

use super::private_file;
use anyhow::Context;
use query_api::StatementSettings;
use signatures::PrivateKey;
use std::path::Path;

const FILE: &str = "statement.keys";

/// Returns the configured file, otherwise the stored one, which it creates if necessary.
pub(crate) fn configured_or_stored(set: StatementSettings, folder: &Path) -> anyhow::Result<StatementSettings> {
    if set.statement_keys.is_some() {
        return Ok(set);
    }
    let path = folder.join(FILE);
    if !path.exists() {
        let key = PrivateKey::generate().to_jwk() + "\n";
        private_file::write_atomically(&path, &key)
            .with_context(|| format!("TELEMETRY_STATE_DIR={}: cannot write {FILE}", folder.display()))?;
    }
    Ok(StatementSettings { statement_keys: Some(path) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn creates_the_key_once_with_mode_600() {
        let folder = tempfile::tempdir().unwrap();
        let file = || configured_or_stored(StatementSettings::default(), folder.path()).unwrap().statement_keys.unwrap();
        let first = fs::read_to_string(file()).unwrap();
        assert!(PrivateKey::from_jwk(first.trim()).is_some());
        assert_eq!(fs::metadata(file()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(file()).unwrap(), first);
        let set = StatementSettings { statement_keys: Some("own.keys".into()) };
        assert_eq!(configured_or_stored(set, folder.path()).unwrap().statement_keys, Some("own.keys".into()));
    }
}
