//! Pastes commands into a shell, as a reader of the documentation does.
//!
//! The shell is interactive and reads the commands from its standard input, because that changes their meaning: zsh treats comments as
//! commands, `!` expands the history, and a command that reads its input consumes the following lines.

use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Starts a line that separates the outputs of two blocks.
const MARK: char = '\u{1e}';

/// Detaches the shell from the tests' terminal, which an interactive shell would take over.
const DETACHED: &str = "import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.setsid(); \
                        os.execvp(sys.argv[1], sys.argv[1:])";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
}

impl Shell {
    pub(crate) const ALL: [Self; 2] = [Self::Bash, Self::Zsh];

    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Bash => &["bash", "--norc", "--noprofile", "--noediting", "-i"],
            Self::Zsh => &["zsh", "-f", "-i"],
        }
    }

    /// Records each unset variable and each command that fails, including those within a pipeline.
    fn preparation(self) -> &'static str {
        match self {
            Self::Bash => {
                r#"PS1= PS2=
set -o nounset
PASTED_NOTE() { printf '%s\037%s\036' "$PASTED_BLOCK" "exit status $1: $2" >> "$PASTED_FAILURES"; }
trap 'PASTED_NOTE "$?" "$BASH_COMMAND"' ERR
PASTED_PIPELINE() {
  local codes=("${PIPESTATUS[@]}") code
  for code in "${codes[@]:0:${#codes[@]}-1}"; do
    case $code in 0|141) ;; *) PASTED_NOTE "$code" "$(history 1)" ;; esac
  done
}
PROMPT_COMMAND=PASTED_PIPELINE
"#
            }
            Self::Zsh => {
                r#"PS1= PS2= PROMPT_EOL_MARK=
unsetopt promptsp promptcr
setopt nounset
PASTED_NOTE() { printf '%s\037%s\036' "$PASTED_BLOCK" "exit status $1: $2" >> "$PASTED_FAILURES"; }
preexec() { PASTED_TEXT=$3; }
TRAPZERR() { PASTED_NOTE "$?" "$PASTED_TEXT"; }
precmd() {
  local -a codes=("${pipestatus[@]}")
  local code
  for code in ${codes[1,-2]}; do
    case $code in 0|141) ;; *) PASTED_NOTE "$code" "$PASTED_TEXT" ;; esac
  done
}
"#
            }
        }
    }
}

impl fmt::Display for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.command()[0])
    }
}

/// A folder that looks like a clone in which `cargo up` is running: it contains `.local` and the built programs.
pub(crate) struct FakeClone(TempDir);

/// Results of pasted blocks.
pub(crate) struct PasteResult {
    /// Each block's standard output and standard error.
    pub(crate) outputs: Vec<String>,
    /// Each failure, and the index of its block.
    pub(crate) failures: Vec<(usize, String)>,
    /// Each failed request, unless the same request succeeded later, for example in a loop that waits.
    pub(crate) rejected: Vec<Rejected>,
}

/// A failed run of `curl` or `telemetry`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// Index of the block.
    pub(crate) block: usize,
    /// HTTP status or exit code.
    pub(crate) status: String,
    pub(crate) command: String,
}

impl FakeClone {
    /// Creates a clone with this folder as `.local`.
    pub(crate) fn new(local: &Path) -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        let root = super::command_search::root().canonicalize().unwrap();
        symlink(local, desk.path(".local")).unwrap();
        for folder in ["docs", "infra"] {
            symlink(root.join(folder), desk.path(folder)).unwrap();
        }
        // This test binary also works as `telemetry`; its runner prints two lines first. A closed pipe isn't a failure.
        let program = std::env::current_exe().unwrap();
        desk.install(
            "target/debug/telemetry",
            &r#"set -o pipefail
TEST_SERVICE_WORDS=$(printf '%s\037' "$@") 'PROGRAM' run_service --exact --ignored --nocapture --test-threads=2 | sed 1,2d
code=$?
[ $code = 141 ] && code=0
printf '%s\037%s\036' "$PASTED_BLOCK" "$code $code telemetry $*" >> "$PASTED_REQUESTS"
exit $code
"#
            .replace("PROGRAM", program.to_str().unwrap()),
        );
        // A rejected request exits with 0, as it does without the wrapper; the wrapper records the status.
        desk.install(
            "bin/curl",
            &r#"headers=$(mktemp)
'PROGRAM' -D "$headers" "$@"
code=$?
status=$(sed -n 's/^HTTP[^ ]* \([0-9]*\).*/\1/p' "$headers" | tail -n 1)
rm -f "$headers"
is_rejected=0
[ $code = 0 ] && [ "${status:-600}" -lt 400 ] || is_rejected=1
printf '%s\037%s\036' "$PASTED_BLOCK" "$is_rejected ${status:-$code} curl $*" >> "$PASTED_REQUESTS"
exit $code
"#
            .replace("PROGRAM", installed("curl").to_str().unwrap()),
        );
        // Loops that wait get more time, because many tests share the machine.
        desk.install(
            "bin/sleep",
            &r#"case $1 in *[!0-9]*) exec 'PROGRAM' "$@" ;; *) exec 'PROGRAM' $(($1 * 3)) ;; esac
"#
            .replace("PROGRAM", installed("sleep").to_str().unwrap()),
        );
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn install(&self, name: &str, script: &str) {
        let file = self.path(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("#!{}\n{script}", installed("bash").display())).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    }

    /// Pastes the blocks in order. Kills the shell after `limit`.
    pub(crate) async fn paste(&self, shell: Shell, blocks: &[&str], limit: Duration) -> PasteResult {
        installed(&shell.to_string());
        let notes = tempfile::tempdir().unwrap();
        let note = |name: &str| notes.path().join(name);
        let output = OpenOptions::new().create(true).append(true).open(note("output")).unwrap();
        for name in ["failures", "requests"] {
            File::create(note(name)).unwrap();
        }
        let mut path = vec![self.path("bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new("python3");
        command.args(["-c", DETACHED]).args(shell.command()).current_dir(self.0.path()).env_clear();
        command.env("PATH", std::env::join_paths(path).unwrap()).env("HOME", self.0.path()).env("TERM", "dumb");
        command.env("PASTED_BLOCK", "0").env("PASTED_FAILURES", note("failures")).env("PASTED_REQUESTS", note("requests"));
        command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output).kill_on_drop(true);
        let mut child = command.spawn().expect("failed to start python3");

        let (mut input, script) = (child.stdin.take().unwrap(), script(shell, blocks));
        // The shell may end before it has read everything; its output shows that.
        let written = tokio::spawn(async move { input.write_all(script.as_bytes()).await.ok() });
        let group = child.id();
        let is_late = tokio::time::timeout(limit, child.wait()).await.is_err();
        if let Some(group) = group.filter(|_| is_late) {
            std::process::Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap();
            child.wait().await.unwrap();
        }
        written.abort();
        let read = |name: &str| String::from_utf8_lossy(&std::fs::read(note(name)).unwrap()).into_owned();
        let mut ran = PasteResult::from_output(&read("output"), blocks.len());
        if is_late {
            let last = ran.outputs.len().saturating_sub(1);
            ran.failures.push((last, format!("it did not end within {} s", limit.as_secs())));
        }
        ran.failures.extend(records(&read("failures")).map(|(block, text)| (block, text.to_owned())));
        ran.rejected = rejected(&records(&read("requests")).collect::<Vec<_>>());
        ran.outputs.resize(blocks.len(), String::new());
        ran.failures.sort();
        ran.failures.dedup();
        ran
    }
}

fn script(shell: Shell, blocks: &[&str]) -> String {
    let mark = |place: usize| format!("export PASTED_BLOCK={place}; printf '\\n\\036%s\\n' {place}\n");
    let pasted: String = blocks.iter().enumerate().map(|(place, block)| format!("{}{block}\n", mark(place))).collect();
    format!("{}{pasted}{}", shell.preparation(), mark(blocks.len()))
}

impl PasteResult {
    /// Splits the output by block. If no mark follows a block, it consumed the following lines.
    fn from_output(output: &str, count: usize) -> Self {
        let mut parts: Vec<&str> = output.split(MARK).skip(1).collect();
        let mut failures = Vec::new();
        let in_order = parts.iter().zip(0..).take_while(|(part, place)| part.lines().next() == Some(&format!("{place}"))).count();
        if in_order <= count {
            let why = "it has no end: a quote is open, or a command reads the lines that follow";
            failures.push((in_order.saturating_sub(1), why.to_owned()));
        }
        parts.truncate(in_order.min(count));
        for (place, part) in parts.iter().enumerate() {
            // Without a terminal, bash can't reset it after a signal ended a command, for example `cat` in `cat | head`.
            let is_complaint = |line: &&str| {
                (line.contains("zsh: ") || line.contains("bash: "))
                    && !line.ends_with("tcsetattr: Inappropriate ioctl for device")
            };
            let complaints = part.lines().filter(is_complaint);
            failures.extend(complaints.map(|line| (place, line.to_owned())));
        }
        let outputs = parts.iter().map(|part| part.split_once('\n').map_or("", |(_, output)| output).trim().to_owned());
        Self { outputs: outputs.collect(), failures, rejected: Vec::new() }
    }
}

/// Parses records of block index and text, which the shell and the programs write.
fn records(notes: &str) -> impl Iterator<Item = (usize, &str)> {
    let records = notes.split_terminator(MARK).filter_map(|record| record.split_once('\u{1f}'));
    records.filter_map(|(block, text)| Some((block.parse().ok()?, text)))
}

fn rejected(requests: &[(usize, &str)]) -> Vec<Rejected> {
    let read = |(block, request): &(usize, &str)| {
        let (is_rejected, rest) = request.split_once(' ')?;
        let (status, command) = rest.split_once(' ')?;
        Some((is_rejected != "0", Rejected { block: *block, status: status.to_owned(), command: command.to_owned() }))
    };
    let requests: Vec<_> = requests.iter().filter_map(read).collect();
    let mut found = Vec::new();
    for (place, (is_rejected, request)) in requests.iter().enumerate() {
        let succeeds = |(is_rejected, later): &(bool, Rejected)| !is_rejected && later.command == request.command;
        if *is_rejected && !requests[place..].iter().any(succeeds) {
            let Rejected { block, status, command } = request;
            found.push(Rejected { block: *block, status: status.clone(), command: command.clone() });
        }
    }
    found
}

fn installed(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("this test needs {name}: install it (apt-get install {name})"))
}
