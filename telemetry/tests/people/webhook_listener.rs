//! A running `telemetry webhook listen`.

use crate::terminal::{CommandOutput, Terminal};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};

pub(crate) struct WebhookListener {
    process: Child,
    first_line: String,
    stderr: BufReader<ChildStderr>,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl WebhookListener {
    /// Starts it and waits until it listens.
    pub(crate) fn start(terminal: &Terminal, words: &[&str]) -> Self {
        let mut process = terminal.start(words);
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut first_line = String::new();
        said.read_line(&mut first_line).unwrap();
        let address = first_line.trim().rsplit('/').next().unwrap().to_owned();
        Self { process, first_line, stderr: said, address }
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn wait(mut self) -> CommandOutput {
        let mut stderr = self.first_line;
        self.stderr.read_to_string(&mut stderr).unwrap();
        let output = self.process.wait_with_output().unwrap();
        CommandOutput { code: output.status.code().unwrap(), stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
