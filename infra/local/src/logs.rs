//! `cargo local logs`: what the servers said, and what they say now. It only reads.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::interrupt::Interrupt;
use crate::stack::Stack;
use crate::workspace::Workspace;

/// How much is shown of what was said before.
const TAIL_BYTES: u64 = 16 * 1024;

/// Whose log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Source {
    Kafka,
    Postgres,
    Clickhouse,
    Service,
}

/// What can be typed after `cargo local logs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Server whose log to show; all servers by default
    source: Option<Source>,
    /// Keep printing new lines until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// Prints the end of each log and, if asked, what follows.
pub(crate) fn run(options: &Options) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let stack = Stack::of(Workspace::find()?)?;
    let sources = options.source.map_or_else(|| vec![Source::Kafka, Source::Postgres, Source::Clickhouse], |one| vec![one]);
    let has_many = sources.len() > 1;
    let log = |source: Source| stack.state().join(source.folder()).join("server.log");
    let mut logs: Vec<Log> = sources.into_iter().map(|source| Log { source, path: log(source), position: None }).collect();
    if let [log] = logs.as_slice()
        && !log.path.exists()
        && !options.follow
    {
        bail!("{}", log.source.absence());
    }
    loop {
        for log in &mut logs {
            log.print_news(has_many)?;
        }
        if !options.follow || interrupt.is_requested() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

struct Log {
    source: Source,
    path: PathBuf,
    /// How far it was shown; none before the first look.
    position: Option<u64>,
}

impl Log {
    fn print_news(&mut self, with_heading: bool) -> Result<()> {
        let Ok(mut file) = File::open(&self.path) else {
            self.position.get_or_insert(0);
            return Ok(());
        };
        let length = file.metadata()?.len();
        let is_first_look = self.position.is_none();
        // a log that shrank was put aside and begun anew
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
                println!("== {}", self.source.folder());
            }
            std::io::stdout().write_all(news.get(skipped..).unwrap_or_default())?;
        }
        self.position = Some(length);
        Ok(())
    }
}

impl Source {
    fn folder(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Postgres => "postgres",
            Self::Clickhouse => "clickhouse",
            Self::Service => "service",
        }
    }

    fn absence(self) -> String {
        match self {
            Self::Service => "the service has no log file: it logs to the terminal of `cargo up`".to_owned(),
            _ => format!("{} has no log yet: run `cargo local start`", self.folder()),
        }
    }
}
