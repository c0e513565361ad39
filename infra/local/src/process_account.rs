//! The account that runs PostgreSQL. PostgreSQL refuses to run as root, so root runs it as `nobody`. No other server changes its
//! account.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::workspace::create_open_folder;

/// Parent folder of PostgreSQL's data if `nobody` can't access the clone.
const FALLBACK_FOLDER: &str = "/var/lib/content-telemetry";

/// The account that runs a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessAccount {
    /// User and group to switch to, or `None` for the current account.
    ids: Option<(u32, u32)>,
}

impl ProcessAccount {
    /// Returns the current account, or `nobody` for root.
    pub(crate) fn for_postgres() -> Result<Self> {
        if !is_root() {
            return Ok(Self { ids: None });
        }
        let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let ids = users
            .lines()
            .find_map(nobody_in)
            .context("PostgreSQL doesn't run as root: add the user nobody to /etc/passwd, then try again")?;
        Ok(Self { ids: Some(ids) })
    }

    /// Makes `command` run as this account.
    pub(crate) fn apply(self, command: &mut Command) {
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
    }

    /// Creates `folder` with access only for this account, as PostgreSQL requires for its data.
    pub(crate) fn own_folder(self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        if let Some((user, group)) = self.ids {
            chown(folder, Some(user), Some(group)).with_context(|| format!("cannot change the owner of {}", folder.display()))?;
        }
        Ok(())
    }

    /// Returns `home` if this account can access it, otherwise a folder for this `home` below `/var/lib`.
    pub(crate) fn accessible_folder(self, home: &Path) -> Result<PathBuf> {
        if self.ids.is_none() || self.can_enter(home) {
            return Ok(home.to_path_buf());
        }
        let name = HEXLOWER.encode(&Sha256::digest(home.as_os_str().as_encoded_bytes())[..8]);
        let elsewhere = Path::new(FALLBACK_FOLDER).join(format!("postgres-{name}"));
        create_open_folder(Path::new(FALLBACK_FOLDER))?;
        create_open_folder(&elsewhere)?;
        Ok(elsewhere)
    }

    fn can_enter(self, folder: &Path) -> bool {
        let mut test = Command::new("test");
        test.arg("-d").arg(folder.join(".")).current_dir("/").stdin(Stdio::null());
        self.apply(&mut test);
        test.status().is_ok_and(|status| status.success())
    }
}

/// Returns whether the current account is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn nobody_in(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    (fields.next()? == "nobody").then_some(())?;
    let user = fields.nth(1)?.parse().ok()?;
    Some((user, fields.next()?.parse().ok()?))
}
