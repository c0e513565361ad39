//! Deletes what killed runs have left behind: running services and folders.

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};

/// Prefix of all run names, followed by the process id.
pub(super) const PREFIX: &str = "load_";

/// Returns whether this is the name of a run, `load_<pid>_<random>`, whose process has ended.
pub(super) fn is_leftover(name: &str) -> bool {
    let Some(pid) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('_').next()) else { return false };
    pid.parse::<u32>().is_ok_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// Kills the services of dead runs and deletes their folders in `runs`. Keeps folders with a [`KEPT`] file.
fn sweep(runs: &Path) {
    // The links in /proc contain canonical paths.
    let Ok(runs) = runs.canonicalize() else { return };
    let folders = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    for folder in folders.filter(|folder| folder.file_name().is_some_and(|name| name.to_str().is_some_and(is_leftover))) {
        if folder.join(KEPT).exists() {
            continue;
        }
        for pid in working_in(&folder) {
            // It is fine if the process has already ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Creates a folder for the run with this name, and deletes what dead runs have left behind.
pub(crate) fn folder_of_run(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let runs = root.join(".local/load");
    sweep(&runs);
    let folder = runs.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Marks a folder to be kept.
pub(crate) fn keep(folder: &Path) -> std::io::Result<()> {
    fs::write(folder.join(KEPT), "logs of a run with violations; delete this folder after reading them\n")
}

const KEPT: &str = "KEPT";

fn working_in(folder: &Path) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        (fs::read_link(entry.path().join("cwd")).ok()? == folder).then_some(pid)
    };
    entries.filter_map(process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_names_of_ended_runs_are_leftovers() {
        assert!(!is_leftover(&format!("load_{}_00ff00", std::process::id())), "this process is running");
        assert!(is_leftover("load_4294967295_00ff00"));
        assert!(is_leftover("load_4294967295_00ff00.rejected"));
        for other in ["telemetry", "load_", "load_test", "test_4294967295_1", "loadgen"] {
            assert!(!is_leftover(other), "{other}");
        }
    }

    #[test]
    fn sweep_kills_only_dead_runs_services() {
        let runs = tempfile::tempdir().unwrap();
        let runs = runs.path().canonicalize().unwrap();
        let (dead, alive) = (runs.join("load_4294967295_00ff00"), runs.join(format!("load_{}_00ff00", std::process::id())));
        let mut children = [&dead, &alive].map(|folder| {
            fs::create_dir(folder).unwrap();
            Command::new("sleep").arg("60").current_dir(folder).stdin(Stdio::null()).spawn().unwrap()
        });
        sweep(&runs);
        assert!(!children[0].wait().unwrap().success());
        assert!(children[1].try_wait().unwrap().is_none(), "services of a running run are not killed");
        assert!(!dead.exists() && alive.exists());
        children[1].kill().unwrap();
        children[1].wait().unwrap();
    }
}
