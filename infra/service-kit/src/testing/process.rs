//! A real binary as a child of its test: started with exactly the settings given, killed with it.
//!
//! Must not inherit a setting: what the developer's shell or `cargo verify` exports is not the test's.

use super::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// A running binary; killed when dropped.
pub struct TestProcess {
    child: Child,
    stdout: Heard,
    stderr: Heard,
    listeners: JoinSet<()>,
}

/// What a stream has said so far.
type Heard = Arc<Mutex<Vec<u8>>>;

impl TestProcess {
    /// Starts `program` with these arguments and, apart from the search path, this environment alone.
    pub fn start<N: AsRef<str>, V: AsRef<str>>(program: &Path, arguments: &[&str], settings: &[(N, V)]) -> Self {
        assert!(program.is_file(), "{} is not there; build it: cargo build --workspace --bins", program.display());
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME"));
        command.envs(settings.iter().map(|(name, value)| (name.as_ref(), value.as_ref())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the binary starts");
        let mut listeners = JoinSet::new();
        let stdout = listen(&mut listeners, child.stdout.take().expect("stdout is piped"));
        let stderr = listen(&mut listeners, child.stderr.take().expect("stderr is piped"));
        Self { child, stdout, stderr, listeners }
    }

    /// The most memory it has held at a time, in bytes.
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).expect("it still runs, and this is Linux");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next());
        peak.and_then(|kib| kib.parse::<u64>().ok()).expect("the kernel says so in KiB") * 1024
    }

    /// How many files and connections it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).expect("it still runs, and this is Linux").count()
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id().expect("it still runs"))
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    /// What it has logged so far.
    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Ends it the way a lost machine would.
    pub async fn kill_9(&mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Stops its clock: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal.
    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("it still runs"), signal).expect("a child can be signalled");
    }

    /// Asks it to stop, as a supervisor does, and waits for its exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.exit_code().await
    }

    /// Waits for its exit code; none when a signal ended it.
    pub async fn exit_code(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(super::PATIENCE, self.child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("it does not end; it said:\n{}", text(&self.stderr)));
        while self.listeners.join_next().await.is_some() {}
        ended.expect("a child can be waited for").code()
    }

    /// Whether it has ended by itself; then what it said is the reason.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `GET url` answers 200; panics with what the process said when it ends instead.
    pub async fn answers(&mut self, url: &str) {
        let client = super::client();
        let process = Mutex::new(self);
        eventually(&format!("{url} answers"), || async {
            {
                let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
                assert!(!process.has_ended(), "it ended early and said:\n{}", text(&process.stderr));
            }
            client.get(url).send().await.ok().filter(|response| response.status() == 200).map(drop)
        })
        .await;
    }
}

/// An address on which nothing listens now.
pub fn free_address() -> SocketAddr {
    // Not a port of the system's own choice: it would soon be lent to somebody's outgoing connection.
    let port = local::ports::Ports::default().choose(&[]).expect("there is a free port");
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn listen(listeners: &mut JoinSet<()>, mut stream: impl AsyncRead + Unpin + Send + 'static) -> Heard {
    let heard = Heard::default();
    let kept = Arc::clone(&heard);
    listeners.spawn(async move {
        let mut part = [0; 8 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut part).await {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..length]);
        }
    });
    heard
}

fn text(heard: &Heard) -> String {
    String::from_utf8_lossy(&heard.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}
