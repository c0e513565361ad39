//! The text files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders to skip in a source tree without git.
const SKIPPED: [&str; 3] = [".git", ".local", "target"];

/// All files, and the contents of text files.
pub(crate) struct Tree(Vec<(String, Option<String>)>);

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Tree {
    pub(crate) fn read() -> Self {
        let names = tracked().unwrap_or_else(|| {
            let mut found = Vec::new();
            walk(&root(), "", &mut found);
            found
        });
        let text = |name: &str| std::fs::read(root().join(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        // A file that was moved but not committed is tracked although it is missing.
        let there = names.into_iter().filter(|name| root().join(name).exists());
        Self(there.map(|name| (name.clone(), text(&name))).collect())
    }

    /// Returns whether a file or folder of this name exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.0.iter().any(|(name, _)| name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// Returns whether any file's path contains these components.
    pub(crate) fn has_ending(&self, path: &str) -> bool {
        let inside = format!("/{}/", path.trim_matches('/'));
        self.0.iter().any(|(name, _)| format!("/{name}/").contains(&inside))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts().find(|(own, _)| *own == name).map(|(_, text)| text)
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, text)| Some((name.as_str(), text.as_deref()?))).filter(|(name, _)| *name != "Cargo.lock")
    }

    pub(crate) fn markdown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(name, _)| is_a(name, "md"))
    }

    /// Returns the contents of all files except documents.
    pub(crate) fn code(&self) -> impl Iterator<Item = &str> {
        self.texts().filter(|(name, _)| !is_a(name, "md")).map(|(_, text)| text)
    }

    /// Returns every line with its file and number. Skips the lines of this test, which contains the patterns it searches for.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, usize, &str)> {
        let others = self.texts().filter(|(name, _)| !name.starts_with("infra/local/tests/it/documents"));
        others.flat_map(|(name, text)| text.lines().zip(1..).map(move |(line, number)| (name, number, line)))
    }
}

pub(crate) fn is_a(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|own| own == extension)
}

/// Resolves `path`, relative to the `name` file, from the root.
pub(crate) fn join(name: &str, path: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the tracked files, or `None` without git.
fn tracked() -> Option<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().ok()?;
    let names = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("failed to list the folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{prefix}{name}/"), found);
            }
        } else {
            found.push(format!("{prefix}{name}"));
        }
    }
}
