//! `secrets.key` in the state folder: encrypts secrets at rest if no key is configured. An existing key is never replaced, because secrets
//! encrypted with it could no longer be read.

use anyhow::Context;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FILE: &str = "secrets.key";

/// Returns the configured key, otherwise the stored one, otherwise a new one, which it stores.
pub(crate) fn configured_or_stored(set: SecretsSettings, folder: &Path) -> anyhow::Result<SecretsSettings> {
    if set.secrets_key.is_some() {
        return Ok(set);
    }
    let path = folder.join(FILE);
    let kept = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => store_new(folder).and_then(|()| fs::read_to_string(&path)),
        other => other,
    };
    let kept = kept.with_context(|| format!("TELEMETRY_STATE_DIR={}: cannot write {FILE}", folder.display()))?;
    let kept = SecretsSettings { secrets_key: Some(SecretsKey::from(kept)) };
    kept.sealer().with_context(|| format!("{}: not a valid key; restore the original file", path.display()))?;
    Ok(kept)
}

/// Creates the file atomically. If several processes do so concurrently, the first one's key remains.
fn store_new(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let fresh = folder.join(format!("{FILE}.{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{}", SecretsKey::generate().reveal())?;
    file.sync_all()?;
    let linked = fs::hard_link(&fresh, folder.join(FILE));
    fs::remove_file(&fresh)?;
    linked.or_else(|error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn creates_the_key_once_with_mode_600() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let first = configured_or_stored(SecretsSettings::default(), &folder).unwrap();
        let sealed = first.sealer().unwrap().seal("whsec_x", b"row").unwrap();
        let later = configured_or_stored(SecretsSettings::default(), &folder).unwrap();
        assert_eq!(later.sealer().unwrap().open(&sealed, b"row").unwrap(), "whsec_x");
        assert_eq!(fs::metadata(folder.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "temporary files are deleted");
        store_new(&folder).unwrap();
        let after_a_race = configured_or_stored(SecretsSettings::default(), &folder).unwrap();
        assert!(after_a_race.sealer().unwrap().open(&sealed, b"row").is_ok(), "a second process does not replace it");
    }

    #[test]
    fn uses_a_configured_key_and_keeps_a_broken_file() {
        let folder = tempfile::tempdir().unwrap();
        let set = SecretsSettings { secrets_key: Some(SecretsKey::generate()) };
        let expected = set.secrets_key.clone().unwrap();
        let used = configured_or_stored(set, folder.path()).unwrap().secrets_key.unwrap();
        assert_eq!(used.reveal(), expected.reveal());
        assert!(!folder.path().join(FILE).exists());
        fs::write(folder.path().join(FILE), "").unwrap();
        assert!(configured_or_stored(SecretsSettings::default(), folder.path()).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "");
    }
}
