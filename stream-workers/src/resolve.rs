//! Click tokens that the gateway could not look up: what they stand for is asked here, once a block.
//!
//! Must judge a token as of the moment its event was accepted, so that a replay judges alike; must give an event what
//! the gateway would have given it, or set its whole record aside as the gateway would have refused it; and must not
//! ask PostgreSQL anything for a block that has no such token.

use crate::back_off::BackOff;
use crate::consume::{Block, guarded};
use crate::metrics;
use crate::rejected::DeadLetter;
use crate::row::ObservationRow;
use anyhow::Context;
use chrono::DateTime;
use lru::LruCache;
use schemas::log::LogRecord;
use schemas::secrets::SecretHash;
use service_kit::clicks::{self, Clicked};
use service_kit::settings::PostgresSettings;
use service_kit::stores;
use sqlx::PgPool;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::Duration;

/// Tokens remembered at a time.
const REMEMBERED: usize = 100_000;
/// Most tokens of one question: a block of more is asked in parts, so that no answer outlasts its deadline.
const MAX_ASKED: usize = 20_000;
/// What one question may take, also when PostgreSQL stops in the middle of it.
const DEADLINE: Duration = Duration::from_secs(5);

/// A record with click tokens to look up, and the dead letter it becomes when one is not good.
#[derive(Debug)]
pub(crate) struct Unresolved {
    pub(crate) record: LogRecord,
    pub(crate) letter: DeadLetter,
}

/// What tokens stand for, by their hashes.
type Answers = HashMap<SecretHash, Clicked>;

/// Looks tokens up, and remembers what cannot change any more.
pub(crate) struct Resolver {
    pool: PgPool,
    known: LruCache<SecretHash, Clicked>,
}

impl Resolver {
    /// Connects when it is first asked: a worker starts and works without PostgreSQL.
    pub(crate) fn connect(settings: &PostgresSettings) -> anyhow::Result<Self> {
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        Ok(Self { pool: stores::postgres(settings)?, known: LruCache::new(capacity) })
    }

    /// Turns every unresolved record of a block, if it has any, into rows or a dead letter; waits as long as PostgreSQL is
    /// away.
    pub(crate) async fn resolve(&mut self, block: &mut Block) {
        if block.unresolved.is_empty() {
            return;
        }
        let events = block.unresolved.iter().flat_map(|unresolved| &unresolved.record.events);
        let answers = self.look_up(events.filter_map(|event| event.ctx_hash).collect()).await;
        for Unresolved { mut record, letter } in std::mem::take(&mut block.unresolved) {
            let events = record.events.len();
            match guarded(|| bind(&mut record, &answers).map(|bound| (bound, ObservationRow::of(record, letter.partition)))) {
                Ok((bound, rows)) => {
                    metrics::resolved(bound);
                    block.take(rows);
                }
                Err(reason) => block.reject(DeadLetter { reason, events, ..letter }),
            }
        }
    }

    /// Why the record would be set aside, if it would; asks once.
    pub(crate) async fn refusal(&self, mut record: LogRecord) -> anyhow::Result<Option<String>> {
        let hashes: Vec<SecretHash> = record.events.iter().filter_map(|event| event.ctx_hash).collect();
        let answers = if hashes.is_empty() {
            Answers::new()
        } else {
            let asked = tokio::time::timeout(DEADLINE, clicks::find(&self.pool, &hashes)).await;
            asked
                .map_err(anyhow::Error::from)
                .and_then(|found| Ok(found?))
                .context("DATABASE_URL: click tokens cannot be looked up")?
        };
        Ok(bind(&mut record, &answers).err())
    }

    /// What PostgreSQL knows of these tokens. That it knows nothing of one is asked anew each time.
    async fn look_up(&mut self, hashes: HashSet<SecretHash>) -> Answers {
        let mut answers = Answers::with_capacity(hashes.len());
        let mut missing = Vec::new();
        for hash in hashes {
            match self.known.get(&hash) {
                Some(clicked) => drop(answers.insert(hash, clicked.clone())),
                None => missing.push(hash),
            }
        }
        for asked in missing.chunks(MAX_ASKED) {
            answers.extend(self.ask(asked).await);
        }
        answers
    }

    async fn ask(&mut self, hashes: &[SecretHash]) -> Answers {
        let mut back_off = BackOff::default();
        let found = loop {
            match tokio::time::timeout(DEADLINE, clicks::find(&self.pool, hashes)).await {
                Ok(Ok(found)) => break found,
                Ok(Err(error)) => tracing::error!(tokens = hashes.len(), "click tokens wait for PostgreSQL: {error}"),
                Err(_) => tracing::error!(tokens = hashes.len(), "click tokens wait for PostgreSQL: no answer"),
            }
            metrics::resolve_retried();
            back_off.pause().await;
        };
        // A session without an agent may yet name one.
        for (hash, clicked) in found.iter().filter(|(_, clicked)| clicked.agent.is_some()) {
            self.known.put(*hash, clicked.clone());
        }
        found
    }
}

/// Puts the sessions behind a record's tokens into its events, and answers into how many. A batch is taken whole or
/// not at all: the error is why the gateway would have refused it.
fn bind(record: &mut LogRecord, answers: &Answers) -> Result<usize, String> {
    let (reporter, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us));
    let mut bound = 0;
    for (index, event) in record.events.iter_mut().enumerate() {
        let Some(hash) = event.ctx_hash.take() else { continue };
        let clicked = answers.get(&hash).filter(|clicked| accepted_at.is_some_and(|at| clicked.is_valid_at(at)));
        let Some(clicked) = clicked else {
            return Err(format!("event {index}: the click token is unknown or expired"));
        };
        if event.session_id.is_some_and(|named| named != clicked.session) {
            return Err(format!("event {index}: the click token belongs to another session than session_id"));
        }
        event.session_id = Some(clicked.session);
        event.session_org = Some(clicked.org).filter(|org| *org != reporter);
        event.agent_id = event.agent_id.take().or_else(|| clicked.agent.clone());
        bound += 1;
    }
    Ok(bound)
}
