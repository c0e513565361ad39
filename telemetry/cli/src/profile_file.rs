//! The profiles file: named services with their credentials (docs/cli.md#profiles).

use crate::failure::{Failure, file_error};
use crate::secret::Secret;
use chrono::{DateTime, Utc};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use url::Url;
use uuid::Uuid;

pub(crate) const DEFAULT: &str = "default";
const MAX_NAME_CHARS: usize = 64;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<Session>,
    /// The organization that a person acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) organization_id: Option<Uuid>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    pub(crate) secret: Secret,
    pub(crate) email: String,
    pub(crate) expires_at: DateTime<Utc>,
}

impl Profiles {
    /// Reads the file; a missing file has no profiles.
    pub(crate) fn load(file: &Path) -> Result<Self, Failure> {
        let metadata = match std::fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            metadata => metadata.map_err(|error| file_error(file, &error))?,
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            let file = file.display();
            return Err(Failure::Usage(format!(
                "{file} contains credentials and other users can read it: run `chmod 600 {file}`"
            )));
        }
        let text = std::fs::read_to_string(file).map_err(|error| file_error(file, &error))?;
        // The invalid text may be a secret, so the error names only its position.
        serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Failure::Usage(format!("{}: invalid profiles file (line {line}, column {column}): fix or delete it", file.display()))
        })
    }

    /// Writes the file and creates its directory.
    pub(crate) fn save(&self, file: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::Failed(error.to_string()))?;
        write_private(file, text.as_bytes()).map_err(|error| file_error(file, &error))
    }

    /// Returns the profile with this name, or the current one, with its name.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Result<Option<(&str, &Profile)>, Failure> {
        let Some(wanted) = name.or(self.current.as_deref()) else { return Ok(None) };
        match self.profiles.get_key_value(wanted) {
            Some((name, profile)) => Ok(Some((name, profile))),
            None => Err(Failure::Usage(unknown(wanted))),
        }
    }
}

pub(crate) fn unknown(name: &str) -> String {
    format!("no profile named {name:?}: `telemetry profile list` shows all profiles")
}

pub(crate) fn checked_name(name: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_short = (1..=MAX_NAME_CHARS).contains(&name.len());
    if is_short && name.chars().all(is_plain) {
        Ok(name.to_owned())
    } else {
        Err(format!("a profile name has 1 to {MAX_NAME_CHARS} letters, digits, '-', '_' or '.'"))
    }
}

pub(crate) fn usual_file() -> Result<PathBuf, Failure> {
    let folders = etcetera::choose_base_strategy()
        .map_err(|_| Failure::Usage("no home folder found: set --config or TELEMETRY_CONFIG".to_owned()))?;
    Ok(folders.config_dir().join("telemetry").join("profiles.json"))
}

/// Replaces a file that only its owner can read. Creates its directory with the same restriction.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The file has mode 0600 before it contains anything.
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(bytes)?;
    fresh.as_file().sync_all()?;
    fresh.persist(file).map_err(|error| error.error)?;
    Ok(())
}
