//! A child process with exactly the given settings, killed at the end of its test.
//!
//! Cargo builds a binary only for its own package's tests; for other packages' tests it may be outdated. Test programs that need the
//! service as a process therefore start themselves again: [`TestProcess::service`].
//!
//! The child inherits no settings from the developer's shell or from `cargo verify`.

use super::eventually;
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// Arguments that run the ignored test whose body is [`run_as_service`]. It must be in the root of the test program.
const SERVICE: [&str; 5] = ["run_service", "--exact", "--ignored", "--nocapture", "--test-threads=2"];
/// Environment variable with the service's arguments.
const WORDS: &str = "TEST_SERVICE_WORDS";
const SEPARATOR: char = '\u{1f}';
/// The test runner's output before the service's own.
const RUNNER_SAYS: &str = "\nrunning 1 test\n";

/// Body of the ignored test `run_service`, in which this process becomes the service until it exits.
pub fn run_as_service<S, Fut>(start: impl FnOnce(S) -> Fut)
where
    S: Parser,
    Fut: Future<Output = ExitCode>,
{
    let words = std::env::var_os(WORDS).expect("helper that other tests start").to_string_lossy().into_owned();
    let name = S::command().get_name().to_owned();
    let words: Vec<String> = std::iter::once(name).chain(words.split_terminator(SEPARATOR).map(str::to_owned)).collect();
    let ended = crate::process::main(async { start(crate::settings::parse_from(words)).await });
    let code = (0..=u8::MAX).find(|code| ExitCode::from(*code) == ended);
    std::process::exit(code.map_or(1, i32::from));
}

pub struct TestProcess {
    child: Child,
    stdout: CapturedOutput,
    stderr: CapturedOutput,
    listeners: JoinSet<()>,
}

type CapturedOutput = Arc<Mutex<Vec<u8>>>;

impl TestProcess {
    /// Starts this test program as the service, with only these arguments and this environment.
    pub fn service<N: AsRef<str>, V: AsRef<str>>(arguments: &[&str], settings: &[(N, V)]) -> Self {
        Self::start(&own_file(), &SERVICE, &with_words(arguments, settings))
    }

    /// Like [`TestProcess::service`], started by a shell that runs `first` before it.
    pub fn service_after<N: AsRef<str>, V: AsRef<str>>(first: &str, settings: &[(N, V)]) -> Self {
        let (script, program) = (format!("{first} && exec \"$0\" \"$@\""), own_file());
        let typed = ["-c", &script, program.to_str().expect("cargo's folders have plain names")];
        Self::start(Path::new("/bin/sh"), &[&typed[..], &SERVICE].concat(), &with_words(&[], settings))
    }

    /// Starts `program` with only these arguments and this environment, plus PATH and HOME.
    pub fn start<N: AsRef<str>, V: AsRef<str>>(program: &Path, arguments: &[&str], settings: &[(N, V)]) -> Self {
        assert!(program.is_file(), "{} is not there", program.display());
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

    /// Returns the peak memory in bytes.
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).expect("it still runs, and this is Linux");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).and_then(|rest| rest.split_whitespace().next());
        peak.and_then(|kib| kib.parse::<u64>().ok()).expect("the kernel reports it in KiB") * 1024
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).expect("it still runs, and this is Linux").count()
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id().expect("it still runs"))
    }

    pub fn stdout(&self) -> String {
        let printed = text(&self.stdout);
        printed.strip_prefix(RUNNER_SAYS).unwrap_or(&printed).to_owned()
    }

    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Kills it without warning, like a power failure.
    pub async fn kill_9(&mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Suspends it. Connections stay open without responses.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("it still runs"), signal).expect("a child can be signalled");
    }

    /// Sends SIGTERM and waits for the exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.exit_code().await
    }

    /// Waits for the exit code; `None` if a signal ended the process.
    pub async fn exit_code(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(super::PATIENCE, self.child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("the process did not exit; its output:\n{}", text(&self.stderr)));
        while self.listeners.join_next().await.is_some() {}
        ended.expect("a child can be waited for").code()
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `GET url` returns 200. Panics with the process's output if the process exits first.
    pub async fn wait_until_ok(&mut self, url: &str) {
        let client = super::client();
        let process = Mutex::new(self);
        eventually(&format!("{url} answers"), || async {
            {
                let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
                assert!(!process.has_ended(), "the process exited early; its output:\n{}", text(&process.stderr));
            }
            client.get(url).send().await.ok().filter(|response| response.status() == 200).map(drop)
        })
        .await;
    }
}

fn own_file() -> PathBuf {
    std::env::current_exe().expect("the path of a running program is known")
}

fn with_words<N: AsRef<str>, V: AsRef<str>>(arguments: &[&str], settings: &[(N, V)]) -> Vec<(String, String)> {
    let words: String = arguments.iter().map(|word| format!("{word}{SEPARATOR}")).collect();
    let own = settings.iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
    own.chain([(WORDS.to_owned(), words)]).collect()
}

/// Returns an unused address.
pub fn free_address() -> SocketAddr {
    // Another process's outgoing connection could soon reuse a port chosen by the system.
    let port = local::ports::Ports::default().choose(&[]).expect("there is a free port");
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn listen(listeners: &mut JoinSet<()>, mut stream: impl AsyncRead + Unpin + Send + 'static) -> CapturedOutput {
    let heard = CapturedOutput::default();
    let kept = Arc::clone(&heard);
    listeners.spawn(async move {
        let mut part = [0; 8 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut part).await {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..length]);
        }
    });
    heard
}

fn text(heard: &CapturedOutput) -> String {
    String::from_utf8_lossy(&heard.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}
