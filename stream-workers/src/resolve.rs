//! Click tokens and agents that the gateway could not look up: what they stand for, and who answers in a session, is asked
//! here, once a block.
//!
//! Must judge a token and an agent as of the moment their event was accepted, so that a replay judges alike; must give an
//! event what the gateway would have given it, or set its whole record aside as the gateway would have refused it; and must
//! not ask PostgreSQL anything for a block that has neither.

pub(crate) mod back_off;
pub(crate) mod session_writer;

use crate::consume::{Block, DeadLetter, Unresolved};
use crate::metrics;
use crate::record::decode::guarded;
use crate::record::row::ReportRow;
use anyhow::Context;
use back_off::BackOff;
use chrono::DateTime;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use lru::LruCache;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord};
use schemas::secrets::SecretHash;
use service_kit::clicks::{self, Clicked, Named, RememberedClicks};
use service_kit::sessions::Session;
use service_kit::settings::PostgresSettings;
use service_kit::stores;
use sqlx::PgPool;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Agents remembered at a time.
const REMEMBERED: usize = 100_000;
/// Most tokens of one question: a block of more is asked in parts, so that no answer outlasts its deadline.
const MAX_ASKED: usize = 20_000;
/// What one question may take, also when PostgreSQL stops in the middle of it.
const DEADLINE: Duration = Duration::from_secs(5);

/// What is known of what was asked.
#[derive(Default)]
struct Answers {
    /// What tokens stand for.
    clicks: HashMap<SecretHash, Clicked>,
    /// Who answers in sessions; one that has named nobody is absent.
    agents: HashMap<Session, Named>,
}

/// Looks tokens up, and remembers what cannot change any more.
pub(crate) struct Resolver {
    pool: PgPool,
    clicks: RememberedClicks,
    agents: LruCache<Session, Named>,
}

impl Resolver {
    /// Connects when it is first asked: a worker starts and works without PostgreSQL.
    pub(crate) fn connect(settings: &PostgresSettings) -> anyhow::Result<Self> {
        Ok(Self::on(stores::postgres(settings)?))
    }

    pub(crate) fn on(pool: PgPool) -> Self {
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        Self { pool, clicks: RememberedClicks::default(), agents: LruCache::new(capacity) }
    }

    /// Turns every unresolved record of a block, if it has any, into rows or a dead letter; waits as long as PostgreSQL is
    /// away.
    pub(crate) async fn resolve(&mut self, block: &mut Block) {
        if block.unresolved.is_empty() {
            return;
        }
        let records = block.unresolved.iter().map(|unresolved| &unresolved.record);
        let (hashes, sessions) =
            (records.clone().flat_map(hashes_of).collect(), records.flat_map(nameless_sessions_of).collect());
        let answers = Answers { clicks: self.look_up_clicks(hashes).await, agents: self.look_up_agents(sessions).await };
        for Unresolved { mut record, letter } in block.take_unresolved() {
            let place = (letter.partition, letter.offset);
            let events = record.events.len();
            match guarded(|| bind(&mut record, &answers).map(|bound| (bound, ReportRow::of(record, place)))) {
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
        let hashes: Vec<SecretHash> = hashes_of(&record).collect();
        let mut answers = Answers::default();
        if !hashes.is_empty() {
            let asked = tokio::time::timeout(DEADLINE, clicks::find(&self.pool, &hashes)).await;
            answers.clicks = asked
                .map_err(anyhow::Error::from)
                .and_then(|found| Ok(found?))
                .context("DATABASE_URL: click tokens cannot be looked up")?;
        }
        // Nobody's agent is a reason to refuse.
        Ok(bind(&mut record, &answers).err())
    }

    /// What PostgreSQL knows of these tokens. That it knows nothing of one is asked anew each time.
    async fn look_up_clicks(&mut self, hashes: HashSet<SecretHash>) -> HashMap<SecretHash, Clicked> {
        let (mut answers, missing) = remembered(|hash| self.clicks.get(hash).cloned(), hashes);
        for asked in missing.chunks(MAX_ASKED) {
            let found = patiently("click tokens", asked.len(), || clicks::find(&self.pool, asked).boxed()).await;
            // A session without an agent may yet name one.
            for (hash, clicked) in found.iter().filter(|(_, clicked)| clicked.agent.is_some()) {
                self.clicks.put(*hash, clicked.clone());
            }
            answers.extend(found);
        }
        answers
    }

    /// The agents of these sessions. One that has named nobody may yet do so, and is asked about anew each time.
    async fn look_up_agents(&mut self, sessions: HashSet<Session>) -> HashMap<Session, Named> {
        let (mut answers, missing) = remembered(|session| self.agents.get(session).cloned(), sessions);
        for asked in missing.chunks(MAX_ASKED) {
            let found = patiently("agents of sessions", asked.len(), || clicks::agents(&self.pool, asked).boxed()).await;
            for (session, agent) in &found {
                self.agents.put(*session, agent.clone());
            }
            answers.extend(found);
        }
        answers
    }
}

/// What is remembered, and what has to be asked.
fn remembered<K: Hash + Eq, V>(mut known: impl FnMut(&K) -> Option<V>, wanted: HashSet<K>) -> (HashMap<K, V>, Vec<K>) {
    let (mut answers, mut missing) = (HashMap::with_capacity(wanted.len()), Vec::new());
    for key in wanted {
        match known(&key) {
            Some(value) => drop(answers.insert(key, value)),
            None => missing.push(key),
        }
    }
    (answers, missing)
}

/// Asks until PostgreSQL answers.
pub(crate) async fn patiently<'a, T>(what: &str, count: usize, ask: impl Fn() -> BoxFuture<'a, Result<T, sqlx::Error>>) -> T {
    let mut back_off = BackOff::default();
    loop {
        match tokio::time::timeout(DEADLINE, ask()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(error)) => tracing::error!(count, "{what} wait for PostgreSQL: {error}"),
            Err(_) => tracing::error!(count, "{what} wait for PostgreSQL: no answer"),
        }
        metrics::resolve_retried();
        back_off.pause().await;
    }
}

fn hashes_of(record: &LogRecord) -> impl Iterator<Item = SecretHash> {
    record.events.iter().filter_map(|event| event.ctx_hash)
}

fn nameless_sessions_of(record: &LogRecord) -> impl Iterator<Item = Session> {
    record.events.iter().filter_map(|event| nameless_session(event, record.org))
}

/// The session whose agent is left to ask for: also the one beside a click token, which may turn out to bind nothing.
fn nameless_session(event: &LogEvent, reporter: OrgId) -> Option<Session> {
    let is_nameless = event.agent_id.is_none() && (event.is_nameless || event.is_unresolved());
    let session = event.session_id.filter(|_| is_nameless)?;
    Some((event.session_org.unwrap_or(reporter), session))
}

/// Puts the sessions behind a record's tokens, and the agents of its sessions, into its events, and answers into how many. A
/// batch is taken whole or not at all: the error is why the gateway would have refused it.
fn bind(record: &mut LogRecord, answers: &Answers) -> Result<usize, String> {
    let (reporter, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us));
    // As of then: whoever reads the record again must find the same.
    let named = |agent: Option<&Named>| agent?.at(accepted_at?).map(str::to_owned);
    let mut bound = 0;
    for (index, event) in record.events.iter_mut().enumerate() {
        let own = nameless_session(event, reporter);
        let Some(hash) = event.ctx_hash else {
            if let Some(session) = own {
                event.agent_id = named(answers.agents.get(&session));
                bound += 1;
            }
            continue;
        };
        bound += 1;
        let clicked = answers.clicks.get(&hash).filter(|clicked| accepted_at.is_some_and(|at| clicked.is_valid_at(at)));
        let binding = clicked.filter(|clicked| event.can_be_bound_by(reporter, clicked.org));
        match (binding, event.session_id) {
            (None, None) => return Err(format!("event {index}: the click token is unknown or expired")),
            // Real documents carry the tokens of other issuers.
            (None, Some(_)) => {
                event.kept_ctx_hash = event.ctx_hash.take();
                event.agent_id = event.agent_id.take().or_else(|| named(answers.agents.get(&own?)));
            }
            (Some(clicked), Some(session)) if session != clicked.session => {
                return Err(format!("event {index}: the click token belongs to another session than session_id"));
            }
            (Some(clicked), _) => {
                event.bind_to_click(reporter, clicked.org, clicked.session, &clicked.content_url);
                event.agent_id = event.agent_id.take().or_else(|| named(clicked.agent.as_ref()));
            }
        }
    }
    Ok(bound)
}
