//! Paths in the clone: its root, its `.local` folder and the launcher. Builds the launcher if it is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::environment;

/// A clone of the repository.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Finds the clone that contains the running package, otherwise the one that contains the current folder.
    pub(crate) fn find() -> Result<Self> {
        let starting_points = [environment::running_package(), std::env::current_dir().ok()];
        let built_from = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        starting_points
            .into_iter()
            .flatten()
            .chain([built_from])
            .find_map(|start| start.ancestors().find(|folder| is_root(folder)).map(Path::to_path_buf))
            .map(|root| Self { root })
            .context("the current folder is not in a clone of the repository")
    }

    /// Returns the folder with the root manifest.
    #[must_use]
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns `.local`, which contains all files of the stack.
    #[must_use]
    pub(crate) fn state(&self) -> PathBuf {
        self.root.join(".local")
    }

    /// Returns the copy of this binary that launches servers, which tests in other crates use too.
    #[must_use]
    pub(crate) fn launcher(&self) -> PathBuf {
        self.state().join("bin").join("local")
    }

    /// Creates `.local` and atomically installs the running binary there as the launcher.
    pub(crate) fn install_launcher(&self) -> Result<PathBuf> {
        let launcher = self.launcher();
        let folder = self.state().join("bin");
        create_open_folder(&self.state())?;
        create_open_folder(&folder)?;
        let own = std::env::current_exe().context("cannot find the running program's own file")?;
        let bytes = fs::read(&own).with_context(|| format!("cannot read {}", own.display()))?;
        if fs::read(&launcher).is_ok_and(|installed| installed == bytes) {
            return Ok(launcher);
        }
        let mut file = tempfile::NamedTempFile::new_in(&folder).context("cannot write into .local/bin")?;
        std::io::Write::write_all(&mut file, &bytes).context("cannot write the launcher")?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o755))?;
        file.into_temp_path().persist(&launcher).context("cannot install the launcher")?;
        Ok(launcher)
    }

    /// Returns the launcher. Builds and installs it if it is missing.
    pub(crate) fn ensure_launcher(&self) -> Result<PathBuf> {
        let launcher = self.launcher();
        if !launcher.exists() {
            let arguments = ["run", "--quiet", "--package", "local", "--", "install-launcher"];
            let status = Command::new(environment::cargo()).args(arguments).current_dir(&self.root).status();
            let built = status.is_ok_and(|status| status.success()) && launcher.exists();
            ensure!(built, "the launcher .local/bin/local is missing and cannot be built: run `cargo local start`");
        }
        Ok(launcher)
    }
}

/// Creates a folder with its parents, accessible to other users whatever the umask, because PostgreSQL may run as another user.
pub(crate) fn create_open_folder(folder: &Path) -> Result<()> {
    let is_new = !folder.exists();
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if is_new {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn is_root(folder: &Path) -> bool {
    folder.join("infra/local/Cargo.toml").is_file() && folder.join("Cargo.lock").is_file()
}
