//! Runs the program with its own home directory and only the given settings.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) struct Terminal {
    home: TempDir,
    environment: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// Asserts success and parses standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        let said = self.ok();
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }
}

impl Terminal {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with_input(arguments, "")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut child = self.start(arguments);
        // The program may exit without reading.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        CommandOutput { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Runs the program on a pseudoterminal, types a line after the question, and returns everything the terminal shows.
    pub(crate) fn run_on_terminal(&self, arguments: &[&str], question: &str, line: &str) -> String {
        const TYPE: &str = "import os, pty, sys
question, line, program = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3:]
child, terminal = pty.fork()
if child == 0: os.execv(program[0], program)
shown, is_typed = b'', False
while True:
    try: part = os.read(terminal, 4096)
    except OSError: break
    if not part: break
    shown += part
    if question in shown and not is_typed: is_typed = os.write(terminal, line + b'\\n') > 0
os.waitpid(child, 0)
sys.stdout.buffer.write(shown)";
        let mut python = Command::new("python3");
        python.args(["-c", TYPE, question, line, env!("CARGO_BIN_EXE_telemetry")]).args(arguments);
        python.env("HOME", self.home.path()).envs(self.environment.iter().map(|(name, value)| (name, value)));
        String::from_utf8(python.output().expect("this test needs Python").stdout).unwrap()
    }

    /// Starts the program without waiting.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_telemetry"));
        command.args(arguments).env_clear().env("HOME", self.home.path()).current_dir(self.home.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}
