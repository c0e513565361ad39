//! A running `telemetry webhook listen`.

use crate::terminal::{Said, Terminal};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};

pub(crate) struct Listening {
    process: Child,
    first_line: String,
    said: BufReader<ChildStderr>,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl Listening {
    /// Starts it and waits until it listens.
    pub(crate) fn start(terminal: &Terminal, words: &[&str]) -> Self {
        let mut process = terminal.start(words);
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut first_line = String::new();
        said.read_line(&mut first_line).unwrap();
        let address = first_line.trim().rsplit('/').next().unwrap().to_owned();
        Self { process, first_line, said, address }
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn ended(mut self) -> Said {
        let mut stderr = self.first_line;
        self.said.read_to_string(&mut stderr).unwrap();
        let output = self.process.wait_with_output().unwrap();
        Said { code: output.status.code().unwrap(), stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
