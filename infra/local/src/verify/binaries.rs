//! The test binaries that cargo built.

use std::io::{BufRead as _, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io, thread};

use serde::Deserialize;

use crate::environment;

/// The test runner's variable for the number of concurrent tests.
const THREADS: &str = "RUST_TEST_THREADS";
/// Tests mostly wait for servers and timeouts, so running several per core keeps the cores busy.
const THREADS_PER_CORE: usize = 3;

/// A test binary.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestBinary {
    /// Folder of the package, and the target if the package has several.
    pub(super) name: String,
    program: PathBuf,
    folder: PathBuf,
}

/// A line of `cargo --message-format=json` about a test binary.
#[derive(Deserialize)]
struct Artifact {
    executable: PathBuf,
    manifest_path: PathBuf,
    profile: Profile,
    target: Target,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Reads cargo's messages to the end. Skips those that aren't about a test binary.
pub(super) fn read(messages: impl Read) -> io::Result<Vec<TestBinary>> {
    let mut found = Vec::new();
    for line in BufReader::new(messages).lines() {
        if let Ok(Artifact { executable, manifest_path, profile: Profile { test: true }, target }) = serde_json::from_str(&line?)
        {
            let folder = manifest_path.parent().unwrap_or(Path::new("")).to_path_buf();
            let package = folder.file_name().unwrap_or_default().to_string_lossy();
            found.push(TestBinary { name: format!("{package} {}", target.name), program: executable, folder });
        }
    }
    Ok(found)
}

/// Returns the number of concurrent binaries.
pub(super) fn concurrency() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

impl TestBinary {
    pub(super) fn bytes(&self) -> u64 {
        fs::metadata(&self.program).map_or(0, |metadata| metadata.len())
    }

    /// Returns the command that runs the binary in its package's folder, as `cargo test` does.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder);
        for name in environment::running_package_variables() {
            command.env_remove(name);
        }
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        if !environment::has(THREADS) {
            command.env(THREADS, (THREADS_PER_CORE * concurrency()).to_string());
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_test_binaries_in_cargo_messages() {
        let artifact = |executable: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/clone/store/Cargo.toml","target":{{"name":"it","kind":["test"]}},"profile":{{"opt_level":"0","test":{is_test}}},"executable":{executable},"fresh":true}}"#
            )
        };
        let messages = [
            artifact("null", false),
            artifact("\"/clone/target/debug/store\"", false),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "no message".to_owned(),
            artifact("\"/clone/target/debug/deps/it-1\"", true),
        ];
        let expected = TestBinary {
            name: "store it".to_owned(),
            program: "/clone/target/debug/deps/it-1".into(),
            folder: "/clone/store".into(),
        };
        assert_eq!(read(messages.join("\n").as_bytes()).unwrap(), [expected]);
    }
}
