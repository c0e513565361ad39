//! `telemetry import`: log files by the way that CDNs' streams take, so that a line that comes both ways counts once.
//!
//! ```text
//!  file ── a thread: lines ──► batches ── POST /drains/{provider} ──► 200 ──► state file
//! ```
//!
//! Must read no line twice that was taken in, and must lose none: the state follows the answer.

mod batch;
mod head;
mod signature;
mod source;
mod state;

use crate::client::{Client, Credential, Parameters};
use crate::context::{Asker, Context};
use crate::failure::Failure;
use crate::log_file::{Identity, is_gzip};
use crate::provider::provider;
use crate::secret::Secret;
use crate::sending::send_until_taken;
use crate::talk::say;
use batch::Batch;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schemas::identity::{DrainProvider, DrainRole};
use serde_json::{Value, json};
use source::{Piece, Source, require_lines};
use state::StateFile;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Lines that wait to be sent go out after so long without a further one.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Pieces that wait for the sender.
const WAITING: usize = 1_024;

/// A log file.
#[derive(Args, Clone, Debug)]
pub struct Import {
    /// File of the log, plain or gzip; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Who wrote the log
    #[arg(long, value_name = "PROVIDER", value_parser = provider())]
    provider: DrainProvider,
    /// Host of lines that name none
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Who observed: `edge` or `origin`; without it what the drain or the provider says
    #[arg(long, value_name = "ROLE")]
    role: Option<DrainRole>,
    /// File of the secret with which Vercel signs, where the drain has one, `-` for standard input
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Go on with what is added to the file, also after it was rotated
    #[arg(long)]
    follow: bool,
    /// Begin anew, whatever was imported before
    #[arg(long)]
    from_start: bool,
    /// Seconds for which a batch is tried again while the service is away; with --follow for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

/// What a run has brought in.
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

    /// Whether nothing of what was sent could be read.
    fn are_all_bad(&self) -> bool {
        self.lines > 0 && self.bad == self.lines
    }

    fn told(&self, what: &Import, end: u64) -> Value {
        let mut all = json!({
            "file": what.file, "provider": what.provider, "batches": self.batches, "lines": self.lines, "bytes_read": end,
        });
        // Firehose is answered in its own form, which counts nothing.
        if let Some(all) = all.as_object_mut().filter(|_| what.provider != DrainProvider::Firehose) {
            let counts = json!({
                "kept": self.kept, "people": self.people, "dropped": self.dropped, "refused": self.refused, "bad": self.bad,
            });
            all.extend(counts.as_object().cloned().unwrap_or_default());
        }
        all
    }
}

/// One import under way.
struct Course<'a> {
    what: &'a Import,
    client: Client,
    path: String,
    parameters: Parameters,
    secret: Option<Secret>,
    state: Option<StateFile>,
    /// Which file is read; none while none is, and of standard input.
    read: Option<Identity>,
    totals: Totals,
    bar: ProgressBar,
}

pub(crate) async fn run(context: &Context, what: &Import) -> Result<(), Failure> {
    require_lines(&what.file, what.provider, what.follow)?;
    let secret = secret_of(what)?;
    let client = context.client(Asker::Key)?;
    let path = format!("/drains/{}", what.provider.as_str());
    let said = [("host", what.host.clone()), ("role", what.role.map(|role| role.as_str().to_owned()))];
    let parameters: Parameters = said.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    // what one organisation's key has brought in is not with another's
    let Some(Credential::Key(key)) = client.credential() else { return Err(Failure::NoCredential("a key imports".to_owned())) };
    let state = state_of(context, what, &format!("{}{path}{parameters:?}{}", client.base(), key.digest()))?;
    let from = state.as_ref().map_or(Ok(0), StateFile::offset)?;
    if from > 0 {
        say(&format!("going on at byte {from}, where the last import stopped; --from-start begins anew"));
    }
    let bar = bar(&what.file, what.follow, from);
    let mut course = Course { what, client, path, parameters, secret, state, read: None, totals: Totals::default(), bar };
    let end = course.take_in(context, from).await;
    course.bar.finish_and_clear();
    let end = end?;
    context.output().object(&course.totals.told(what, end))?;
    if course.totals.bad > 0 {
        say(&format!("{} lines could not be read; telemetry drain test says why", course.totals.bad));
    }
    match course.totals.are_all_bad() {
        true => Err(Failure::Failed("no line could be read: is it a log of this provider?".to_owned())),
        false => Ok(()),
    }
}

fn secret_of(what: &Import) -> Result<Option<Secret>, Failure> {
    let Some(file) = &what.secret_file else { return Ok(None) };
    if what.provider != DrainProvider::Vercel {
        return Err(Failure::Usage("--secret-file is for logs of vercel: no other provider signs".to_owned()));
    }
    if file == &what.file && file == Path::new("-") {
        return Err(Failure::Usage("the log and the secret cannot both be standard input".to_owned()));
    }
    Secret::read(file).map(Some)
}

fn state_of(context: &Context, what: &Import, place: &str) -> Result<Option<StateFile>, Failure> {
    if what.file == Path::new("-") {
        return Ok(None);
    }
    let state = StateFile::of(&context.state_folder()?, &what.file, place)?;
    if what.from_start {
        state.forget()?;
    }
    Ok(Some(state))
}

/// Shown at a terminal only.
fn bar(file: &Path, is_followed: bool, from: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let is_plain = file != Path::new("-") && !is_gzip(file).unwrap_or(true);
    let length = std::fs::metadata(file).ok().filter(|_| !is_followed && is_plain).map(|metadata| metadata.len());
    let bar = ProgressBar::with_draw_target(length, target);
    let template = if length.is_some() { "[{bar:30}] {bytes}/{total_bytes} {eta} {msg}" } else { "{spinner} {bytes} {msg}" };
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(from);
    bar
}

impl Course<'_> {
    /// Sends the log; answers how many bytes of it are taken in.
    async fn take_in(&mut self, context: &Context, from: u64) -> Result<u64, Failure> {
        let (pieces, mut read) = mpsc::channel(WAITING);
        let source = Source { file: self.what.file.clone(), from, is_followed: self.what.follow };
        // not awaited: it may wait for a terminal that says nothing any more
        tokio::task::spawn_blocking(move || source.read(&pieces));
        let mut batch = Batch::after(from);
        loop {
            match tokio::time::timeout(FLUSH_AFTER, read.recv()).await {
                Ok(Some(Piece::Line { bytes, end })) => {
                    batch.add(&bytes, end);
                    if batch.is_full() {
                        batch = self.send(context, batch).await?;
                    }
                }
                Ok(Some(Piece::Opened { identity, from })) => {
                    self.send(context, batch).await?;
                    if self.read.is_some() {
                        say("the file was replaced: going on with the new one");
                    }
                    self.read = identity;
                    batch = Batch::after(from);
                }
                Ok(Some(Piece::Failed { failure, at })) => {
                    self.send(context, batch).await?;
                    return Err(self.after_sending(failure, at));
                }
                Err(_) => batch = self.send(context, batch).await?,
                Ok(None) => return Ok(self.send(context, batch).await?.end),
            }
        }
    }

    /// Sends a batch, and notes that it is taken in; answers an empty one that begins where it ended.
    async fn send(&mut self, context: &Context, batch: Batch) -> Result<Batch, Failure> {
        if batch.lines > 0 {
            let content = batch.content(self.what.provider, context.clock.now().timestamp_millis(), self.secret.as_ref())?;
            let patience = if self.what.follow { Duration::MAX } else { Duration::from_secs(self.what.patience) };
            let answer = send_until_taken(&self.client, &self.path, &self.parameters, &content, patience).await?;
            self.totals.add(&batch, &answer);
            // lines of which none could be read are sent again by the next run
            if let (Some(state), Some(read), false) = (&self.state, self.read, self.totals.are_all_bad()) {
                state.save(batch.end, read).map_err(|failure| self.after_sending(failure, batch.end))?;
            }
            self.bar.set_position(batch.end);
            self.bar.set_message(format!("{} lines, {} retrievals", self.totals.lines, self.totals.kept));
        }
        Ok(Batch::after(batch.end))
    }

    /// A failure found at this byte, which is no fault of usage alone once something was sent.
    fn after_sending(&self, failure: Failure, at: u64) -> Failure {
        if self.totals.batches == 0 { failure } else { failure.after_sending(&format!("byte {at}")) }
    }
}
