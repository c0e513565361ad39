//! `secrets.key` of the state folder: the key that encrypts secrets at rest, when none is set.
//!
//! Must never replace a key: what an earlier run sealed could not be opened any more.

use anyhow::Context;
use service_kit::sealing::{SecretsKey, SecretsSettings};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FILE: &str = "secrets.key";

/// The key that is set, else the one of an earlier run, else a fresh one, kept.
pub(crate) fn set_or_kept(set: SecretsSettings, folder: &Path) -> anyhow::Result<SecretsSettings> {
    if set.secrets_key.is_some() {
        return Ok(set);
    }
    let path = folder.join(FILE);
    let kept = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => keep_fresh(folder).and_then(|()| fs::read_to_string(&path)),
        other => other,
    };
    let kept = kept.with_context(|| format!("TELEMETRY_STATE_DIR={}: cannot write {FILE}", folder.display()))?;
    let kept = SecretsSettings { secrets_key: Some(SecretsKey::from(kept)) };
    kept.sealer().with_context(|| format!("{}: not a valid key; restore the original file", path.display()))?;
    Ok(kept)
}

/// Appears whole or not at all; of several processes at once the first one's stays.
fn keep_fresh(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let fresh = folder.join(format!("{FILE}.{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{}", SecretsKey::mint().reveal())?;
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
    fn the_first_start_makes_a_key_for_its_owner_only_and_every_later_one_keeps_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        let first = set_or_kept(SecretsSettings::default(), &folder).unwrap();
        let sealed = first.sealer().unwrap().seal("whsec_x", b"row").unwrap();
        let later = set_or_kept(SecretsSettings::default(), &folder).unwrap();
        assert_eq!(later.sealer().unwrap().open(&sealed, b"row").unwrap(), "whsec_x");
        assert_eq!(fs::metadata(folder.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        keep_fresh(&folder).unwrap();
        let after_a_race = set_or_kept(SecretsSettings::default(), &folder).unwrap();
        assert!(after_a_race.sealer().unwrap().open(&sealed, b"row").is_ok(), "a second process does not replace it");
    }

    #[test]
    fn a_key_that_is_set_is_used_and_a_broken_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let set = SecretsSettings { secrets_key: Some(SecretsKey::mint()) };
        let expected = set.secrets_key.clone().unwrap();
        let used = set_or_kept(set, folder.path()).unwrap().secrets_key.unwrap();
        assert_eq!(used.reveal(), expected.reveal());
        assert!(!folder.path().join(FILE).exists());
        fs::write(folder.path().join(FILE), "").unwrap();
        assert!(set_or_kept(SecretsSettings::default(), folder.path()).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "");
    }
}
