//! Keys in the state folder, for settings without a value: `secrets.key` encrypts secrets at rest, and `statement.key` signs statements.
//! An existing key is never replaced, because it decrypts secrets or verifies earlier statements.

use anyhow::Context;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Returns the configured key, otherwise the one in the file, otherwise a new one, which it stores there.
pub(crate) fn configured_or_stored(set: Option<SecretsKey>, folder: &Path, file: &str) -> anyhow::Result<Option<SecretsKey>> {
    if set.is_some() {
        return Ok(set);
    }
    let path = folder.join(file);
    let kept = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => store_new(folder, file).and_then(|()| fs::read_to_string(&path)),
        other => other,
    };
    let kept = kept.with_context(|| format!("TELEMETRY_STATE_DIR={}: cannot write {file}", folder.display()))?;
    let kept = Some(SecretsKey::from(kept));
    let is_valid = SecretsSettings { secrets_key: kept.clone() }.sealer();
    is_valid.with_context(|| format!("{}: not a valid key; restore the original file", path.display()))?;
    Ok(kept)
}

/// Creates the file atomically. If several processes do so concurrently, the first one's key remains.
fn store_new(folder: &Path, name: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let fresh = folder.join(format!("{name}.{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{}", SecretsKey::generate().reveal())?;
    file.sync_all()?;
    let linked = fs::hard_link(&fresh, folder.join(name));
    fs::remove_file(&fresh)?;
    linked.or_else(|error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const FILE: &str = "secrets.key";

    #[test]
    fn creates_the_key_once_with_mode_600() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let key = || configured_or_stored(None, &folder, FILE).unwrap().unwrap().reveal().to_owned();
        let first = key();
        assert_eq!(key(), first);
        assert_eq!(fs::metadata(folder.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "temporary files are deleted");
        store_new(&folder, FILE).unwrap();
        assert_eq!(key(), first, "a second process does not replace it");
        assert_ne!(configured_or_stored(None, &folder, "other.key").unwrap().unwrap().reveal(), first);
    }

    #[test]
    fn uses_a_configured_key_and_keeps_a_broken_file() {
        let folder = tempfile::tempdir().unwrap();
        let expected = SecretsKey::generate();
        let used = configured_or_stored(Some(expected.clone()), folder.path(), FILE).unwrap().unwrap();
        assert_eq!(used.reveal(), expected.reveal());
        assert!(!folder.path().join(FILE).exists());
        fs::write(folder.path().join(FILE), "").unwrap();
        assert!(configured_or_stored(None, folder.path(), FILE).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "");
    }
}
