//! Checksums of all downloads, stored in the repository. Files that don't match are never used.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256, Sha512};

/// A list of lines `algorithm digest section/file`.
#[derive(Clone, Debug)]
pub struct Checksums {
    list: Cow<'static, str>,
}

impl Checksums {
    /// Returns the list in the repository.
    #[must_use]
    pub fn checked_in() -> Self {
        Self { list: Cow::Borrowed(include_str!("../../checksums")) }
    }

    /// Returns a custom list.
    #[must_use]
    pub fn from_list(list: String) -> Self {
        Self { list: Cow::Owned(list) }
    }

    /// Verifies a file against the line with its name.
    pub fn verify(&self, file: &Path, section: &str) -> Result<()> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let Some(line) = self.lines(section).find(|line| line.name == name) else {
            bail!("infra/local/checksums has no checksum for {section}/{name}: add one if you trust the file");
        };
        let found = match line.algorithm {
            "sha256" => digest::<Sha256>(file)?,
            "sha512" => digest::<Sha512>(file)?,
            other => bail!("infra/local/checksums: unknown algorithm {other}"),
        };
        ensure!(
            found == line.digest,
            "{section}/{name} has the wrong checksum: expected {} {}, found {found}. The file was deleted: run the command \
             again. If it fails again, ask the operator of your package mirror",
            line.algorithm,
            line.digest
        );
        Ok(())
    }

    /// Verifies that `folder` contains exactly the files of `section`, unchanged.
    pub(super) fn verify_all(&self, folder: &Path, section: &str) -> Result<()> {
        let expected: BTreeSet<String> = self.lines(section).map(|line| line.name.to_owned()).collect();
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let found: BTreeSet<String> = names.collect::<std::io::Result<_>>()?;
        let missing: Vec<&str> = expected.difference(&found).map(String::as_str).collect();
        let unknown: Vec<&str> = found.difference(&expected).map(String::as_str).collect();
        ensure!(missing.is_empty(), "the download of {section} is missing {}: run the command again", missing.join(", "));
        ensure!(unknown.is_empty(), "the download of {section} contains unknown files: {}", unknown.join(", "));
        expected.iter().try_for_each(|name| self.verify(&folder.join(name), section))
    }

    /// Returns whether the list contains this file.
    pub(super) fn contains(&self, section: &str, file: &str) -> bool {
        self.lines(section).any(|line| line.name == file)
    }

    fn lines<'a>(&'a self, section: &'a str) -> impl Iterator<Item = Line<'a>> {
        self.list.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
            let mut words = line.split_whitespace();
            let (algorithm, digest, path) = (words.next()?, words.next()?, words.next()?);
            let name = path.strip_prefix(section)?.strip_prefix('/')?;
            Some(Line { algorithm, digest, name })
        })
    }
}

struct Line<'a> {
    algorithm: &'a str,
    digest: &'a str,
    name: &'a str,
}

fn digest<D: Digest>(path: &Path) -> Result<String> {
    let mut digest = D::new();
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut chunk = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut chunk).with_context(|| format!("cannot read {}", path.display()))?;
        if length == 0 {
            break;
        }
        digest.update(chunk.get(..length).unwrap_or_default());
    }
    Ok(HEXLOWER.encode(&digest.finalize()))
}
