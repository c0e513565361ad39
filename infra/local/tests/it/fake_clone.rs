//! A folder that looks like a clone, with external servers and a script as `cargo`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

pub(crate) struct FakeClone(tempfile::TempDir, TcpListener);

impl FakeClone {
    pub(crate) fn new() -> Self {
        let clone = Self(tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        for file in ["infra/local/Cargo.toml", "Cargo.lock", "schemas/postgres/1.sql", "store/clickhouse/events.sql"] {
            fs::create_dir_all(clone.path().join(file).parent().unwrap()).unwrap();
            fs::write(clone.path().join(file), "").unwrap();
        }
        fs::create_dir_all(clone.path().join(".local")).unwrap();
        clone
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes an executable shell script.
    pub(crate) fn write_script(&self, name: &str, script: &str) {
        let file = self.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs `cargo up` or `cargo verify`. Returns whether it succeeded, and its output.
    pub(crate) fn run(&self, arguments: &[&str], cargo: &str) -> (bool, String) {
        self.write_script("cargo", cargo);
        let address = self.1.local_addr().unwrap();
        let mut local = Command::new(env!("CARGO_BIN_EXE_local"));
        local.args(arguments).current_dir(self.path()).env_remove("CARGO_MANIFEST_DIR").env("CARGO", self.path().join("cargo"));
        local.env("KAFKA_BROKERS", address.to_string()).env("CLICKHOUSE_URL", format!("http://{address}"));
        let output = local.env("DATABASE_URL", format!("postgres://{address}/telemetry")).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }
}
