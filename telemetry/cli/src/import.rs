//! `telemetry import`: sends log files to the drain endpoint. A line that a drain sent too counts once.
//!
//! ```text
//!  file ── a thread: lines ──► batches ── POST /drains/{provider} ──► 200 ──► state file
//! ```
//!
//! Saves its state after each response, so it neither repeats accepted lines nor skips any.

mod batch;
mod log_fingerprint;
mod signature;
mod source;
mod state;

use crate::client::{Client, Credential, Parameters};
use crate::context::{Context, CredentialKind};
use crate::failure::Failure;
use crate::log_file::{FileIdentity, is_gzip, is_stream};
use crate::provider::provider;
use crate::retry::send_until_accepted;
use crate::secret::Secret;
use crate::terminal::print_message;
use batch::{Batch, Heading};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schemas::identity::{DrainProvider, DrainResponse, DrainRole};
use serde_json::{Value, json};
use source::{LogReader, SourceEvent, require_lines};
use state::StateFile;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Time without new lines after which waiting lines are sent.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of pieces that wait for the sender.
const QUEUE_CAPACITY: usize = 1_024;

/// Options of `telemetry import`.
#[derive(Args, Clone, Debug)]
pub struct Import {
    /// Log file, plain or gzip, or - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the log
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: DrainProvider,
    /// Host of all lines [default: the line's]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Source of the log: edge (CDN) or origin (your server) [default: by provider]
    #[arg(long, value_name = "ROLE")]
    role: Option<DrainRole>,
    /// File with the drain's Vercel signing secret, or - for stdin
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Keep importing lines that are added to the file, even after log rotation
    #[arg(long)]
    follow: bool,
    /// Import from the start of the file, including lines imported before
    #[arg(long)]
    from_start: bool,
    /// Seconds to keep retrying a batch; unlimited with --follow
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

#[derive(Default)]
struct Totals {
    batches: u64,
    lines: u64,
    kept: u64,
    people: u64,
    dropped: u64,
    refused: u64,
    bad: u64,
}

impl Totals {
    fn add(&mut self, batch: &Batch, answer: &Value) {
        let number = |name: &str| answer[name].as_u64().unwrap_or_default();
        self.batches += 1;
        self.lines += batch.lines;
        self.kept += number("kept");
        self.people += number("people");
        self.refused += number("refused");
        self.bad += number("bad");
        let dropped = answer["dropped"].as_object();
        self.dropped += dropped.into_iter().flat_map(|all| all.values()).filter_map(Value::as_u64).sum::<u64>();
    }

    fn are_all_invalid(&self) -> bool {
        self.lines > 0 && self.bad == self.lines
    }

    /// Returns the result as rows of a table.
    fn facts(&self, what: &Import, end: u64) -> Vec<(&'static str, String)> {
        let batches = if self.batches == 1 { "1 batch".to_owned() } else { format!("{} batches", self.batches) };
        let mut facts = vec![
            ("File", what.file.display().to_string()),
            ("Lines read", self.lines.to_string()),
            ("Lines sent", format!("{} in {batches}", self.lines)),
        ];
        if what.provider.facts().response != DrainResponse::Firehose {
            facts.extend([
                ("AI requests", self.kept.to_string()),
                ("Human requests", self.people.to_string()),
                ("Skipped", self.dropped.to_string()),
                ("Not served (status not 2xx)", self.refused.to_string()),
                ("Unreadable", self.bad.to_string()),
            ]);
        }
        facts.push(("File read up to", format!("byte {end}")));
        facts
    }

    fn json(&self, what: &Import, end: u64) -> Value {
        let mut all = json!({
            "file": what.file, "provider": what.provider, "batches": self.batches, "lines": self.lines, "bytes_read": end,
        });
        // Responses for Firehose have their own format without counts.
        if let Some(all) = all.as_object_mut().filter(|_| what.provider.facts().response != DrainResponse::Firehose) {
            let counts = json!({
                "kept": self.kept, "people": self.people, "dropped": self.dropped, "refused": self.refused, "bad": self.bad,
            });
            all.extend(counts.as_object().cloned().unwrap_or_default());
        }
        all
    }
}

struct LogImport<'a> {
    what: &'a Import,
    client: Client,
    path: String,
    parameters: Parameters,
    secret: Option<Secret>,
    state: Option<StateFile>,
    /// The open file; `None` for standard input.
    read: Option<FileIdentity>,
    totals: Totals,
    bar: ProgressBar,
}

pub(crate) async fn run(context: &Context, what: &Import) -> Result<(), Failure> {
    require_lines(&what.file, what.provider, what.follow)?;
    let secret = secret_of(what)?;
    let client = context.client(CredentialKind::Key)?;
    let path = format!("/drains/{}", what.provider.as_str());
    let said = [("host", what.host.clone()), ("role", what.role.map(|role| role.as_str().to_owned()))];
    let parameters: Parameters = said.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    // Each key has its own progress, because other organizations haven't received these lines.
    let Some(Credential::Key(key)) = client.credential() else {
        return Err(Failure::NoCredential("importing requires an API key".to_owned()));
    };
    let state = state_of(context, what, &format!("{}{path}{parameters:?}{}", client.base(), key.digest()))?;
    let from = state.as_ref().map_or(Ok(0), StateFile::offset)?;
    if from > 0 {
        print_message(&format!(
            "Continuing at byte {from}, where the last import stopped. Use --from-start to import the whole file."
        ));
    }
    let bar = bar(&what.file, what.follow, from);
    let mut course = LogImport { what, client, path, parameters, secret, state, read: None, totals: Totals::default(), bar };
    let end = course.send_log(context, from).await;
    course.bar.finish_and_clear();
    let end = end?;
    context.output().object_as(&course.totals.json(what, end), &course.totals.facts(what, end))?;
    if course.totals.bad > 0 {
        let lines = if course.totals.bad == 1 { "1 line".to_owned() } else { format!("{} lines", course.totals.bad) };
        print_message(&format!("{lines} could not be read. `telemetry drain test` shows why."));
    }
    match course.totals.are_all_invalid() {
        true => Err(Failure::Failed("no line could be read; check --provider".to_owned())),
        false => Ok(()),
    }
}

fn secret_of(what: &Import) -> Result<Option<Secret>, Failure> {
    let Some(file) = &what.secret_file else { return Ok(None) };
    if !what.provider.facts().signs {
        return Err(Failure::Usage("--secret-file requires --provider vercel".to_owned()));
    }
    if file == &what.file && file == Path::new("-") {
        return Err(Failure::Usage("the log and the secret can't both come from standard input".to_owned()));
    }
    Secret::read(file).map(Some)
}

fn state_of(context: &Context, what: &Import, place: &str) -> Result<Option<StateFile>, Failure> {
    if is_stream(&what.file) {
        return Ok(None);
    }
    let state = StateFile::for_log(&context.state_folder()?, &what.file, place)?;
    if what.from_start {
        state.forget()?;
    }
    Ok(Some(state))
}

/// Returns a progress bar, which is visible only on a terminal.
fn bar(file: &Path, is_followed: bool, from: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let is_plain = !is_stream(file) && !is_gzip(file).unwrap_or(true);
    let length = std::fs::metadata(file).ok().filter(|_| !is_followed && is_plain).map(|metadata| metadata.len());
    let bar = ProgressBar::with_draw_target(length, target);
    let template = if length.is_some() { "[{bar:30}] {bytes}/{total_bytes} {eta} {msg}" } else { "{spinner} {bytes} {msg}" };
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(from);
    bar
}

impl LogImport<'_> {
    /// Sends the log. Returns the offset up to which it was accepted.
    async fn send_log(&mut self, context: &Context, from: u64) -> Result<u64, Failure> {
        let (pieces, mut read) = mpsc::channel(QUEUE_CAPACITY);
        let source = LogReader { file: self.what.file.clone(), from, is_followed: self.what.follow };
        // Don't wait for this thread, because it may block on reading from a terminal.
        tokio::task::spawn_blocking(move || source.read(&pieces));
        let mut batch = Batch::starting_at(from, Heading::default());
        loop {
            match tokio::time::timeout(FLUSH_AFTER, read.recv()).await {
                Ok(Some(SourceEvent::Line { bytes, end })) => {
                    batch.add(&bytes, end);
                    if batch.is_full() {
                        batch = self.send(context, batch).await?;
                    }
                }
                Ok(Some(SourceEvent::Opened { identity, from, fields })) => {
                    self.send(context, batch).await?;
                    if self.read.is_some() {
                        print_message("The file was replaced. Continuing with the new file.");
                    }
                    self.read = identity;
                    batch = Batch::starting_at(from, Heading::resume_at(from, fields));
                }
                Ok(Some(SourceEvent::Failed { failure, at })) => {
                    self.send(context, batch).await?;
                    return Err(self.after_sending(failure, at));
                }
                Err(_) => batch = self.send(context, batch).await?,
                Ok(None) => return Ok(self.send(context, batch).await?.end),
            }
        }
    }

    /// Sends a batch and records the progress. Returns the next, empty batch.
    async fn send(&mut self, context: &Context, batch: Batch) -> Result<Batch, Failure> {
        if batch.lines > 0 {
            let content = batch.content(self.what.provider, context.clock.now().timestamp_millis(), self.secret.as_ref())?;
            let patience = if self.what.follow { Duration::MAX } else { Duration::from_secs(self.what.patience) };
            let answer = match send_until_accepted(&self.client, &self.path, &self.parameters, &content, patience).await {
                // The service could not read any line of this batch, but others may be readable.
                Err(failure) if failure.status() == Some(422) => json!({"bad": batch.lines}),
                answer => answer?,
            };
            self.totals.add(&batch, &answer);
            // If no line was readable so far, the next run sends them again.
            if let (Some(state), Some(read), false) = (&self.state, self.read, self.totals.are_all_invalid()) {
                state.save(batch.end, read).map_err(|failure| self.after_sending(failure, batch.end))?;
            }
            self.bar.set_position(batch.end);
            self.bar.set_message(format!("lines: {}, AI requests: {}", self.totals.lines, self.totals.kept));
        }
        Ok(batch.next())
    }

    /// Returns the failure at this byte. After something was sent, it is no longer a usage error.
    fn after_sending(&self, failure: Failure, at: u64) -> Failure {
        if self.totals.batches == 0 { failure } else { failure.after_sending(&format!("byte {at}")) }
    }
}
