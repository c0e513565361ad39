//! `cargo local logs`: prints the servers' logs.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::interrupt::Interrupt;
use crate::server_kind::ServerKind;
use crate::stack::Stack;
use crate::workspace::Workspace;

/// Maximum number of existing bytes to show.
const TAIL_BYTES: u64 = 16 * 1024;

/// Options of `cargo local logs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Show the log of this server; all servers by default
    source: Option<ServerKind>,
    /// Keep printing new lines until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// Prints the end of each log and, if requested, new lines.
pub(crate) fn run(options: &Options) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let stack = Stack::for_workspace(Workspace::find()?)?;
    let kinds = options.source.map_or_else(|| ServerKind::ALL.to_vec(), |one| vec![one]);
    let has_many = kinds.len() > 1;
    let log = |kind: ServerKind| Log { kind, path: stack.home(kind).join("server.log"), position: None };
    let mut logs: Vec<Log> = kinds.into_iter().map(log).collect();
    if let [log] = logs.as_slice()
        && !log.path.exists()
        && !options.follow
    {
        bail!("{} has no log yet: run `cargo local start`", log.kind.name());
    }
    loop {
        for log in &mut logs {
            log.print_new_lines(has_many)?;
        }
        if !options.follow || interrupt.is_requested() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

struct Log {
    kind: ServerKind,
    path: PathBuf,
    /// End of the printed part, or `None` if nothing has been printed.
    position: Option<u64>,
}

impl Log {
    fn print_new_lines(&mut self, with_heading: bool) -> Result<()> {
        let Ok(mut file) = File::open(&self.path) else {
            self.position.get_or_insert(0);
            return Ok(());
        };
        let length = file.metadata()?.len();
        let is_first_look = self.position.is_none();
        // A log that became shorter was rotated.
        let from = self.position.filter(|position| *position <= length).unwrap_or(if is_first_look {
            length.saturating_sub(TAIL_BYTES)
        } else {
            0
        });
        if length > from {
            let mut news = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            file.take(length - from).read_to_end(&mut news)?;
            let starts_in_a_line = is_first_look && from > 0;
            let skipped = if starts_in_a_line { news.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1) } else { 0 };
            if with_heading {
                println!("== {}", self.kind.name());
            }
            std::io::stdout().write_all(news.get(skipped..).unwrap_or_default())?;
        }
        self.position = Some(length);
        Ok(())
    }
}
