//! Looks up the agents of sessions, and the click tokens that the gateway could not look up, once per block.
//!
//! Must judge a token and an agent as of the moment their event was accepted, so that a replay judges alike; must give an
//! event the session that the gateway would have given it, or set its whole record aside as the gateway would have refused it;
//! and must not ask PostgreSQL anything for a block that has neither.

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
use service_kit::clicks::{self, Clicked, Named, RememberedClicks, Session};
use service_kit::settings::PostgresSettings;
use service_kit::stores;
use session_writer::NamedSession;
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

/// Looks up tokens and agents, and remembers them.
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

    /// Forgets the agents of sessions for which a record names one: it may have been accepted earlier than the known one.
    pub(crate) fn forget_agents(&mut self, named: &[NamedSession]) {
        for NamedSession { org, report, .. } in named.iter().filter(|one| one.report.agent_id.is_some()) {
            self.agents.pop(&(*org, report.session_id));
        }
    }

    /// Turns every unresolved record of a block, if it has any, into rows or a dead letter; waits as long as PostgreSQL is
    /// away.
    pub(crate) async fn resolve(&mut self, block: &mut Block) {
        if block.unresolved.is_empty() {
            return;
        }
        let mut unresolved = block.take_unresolved();
        let clicks = self.look_up_clicks(unresolved.iter().flat_map(|one| hashes_of(&one.record)).collect()).await;
        let refused = |one: &mut Unresolved| guarded(|| bind(&mut one.record, &clicks)).err();
        let refusals: Vec<Option<String>> = unresolved.iter_mut().map(refused).collect();
        let agents = self.look_up_agents(unresolved.iter().flat_map(|one| nameless_sessions_of(&one.record)).collect()).await;
        for (Unresolved { mut record, letter }, refusal) in unresolved.into_iter().zip(refusals) {
            let (place, events) = ((letter.partition, letter.offset), record.events.len());
            let rows = || {
                refusal.map_or(Ok(()), Err)?;
                name_agents(&mut record, &agents);
                Ok(ReportRow::of(record, place))
            };
            match guarded(rows) {
                Ok(rows) => {
                    metrics::resolved(rows.len());
                    block.take(rows);
                }
                Err(reason) => block.reject(DeadLetter { reason, events, ..letter }),
            }
        }
    }

    /// Why the record would be set aside, if it would; asks once.
    pub(crate) async fn refusal(&self, mut record: LogRecord) -> anyhow::Result<Option<String>> {
        let hashes: Vec<SecretHash> = hashes_of(&record).collect();
        let mut clicks = HashMap::new();
        if !hashes.is_empty() {
            let asked = tokio::time::timeout(DEADLINE, clicks::find(&self.pool, &hashes)).await;
            clicks = asked
                .map_err(anyhow::Error::from)
                .and_then(|found| Ok(found?))
                .context("DATABASE_URL: click tokens cannot be looked up")?;
        }
        // A missing agent never rejects a record.
        Ok(bind(&mut record, &clicks).err())
    }

    /// What PostgreSQL knows of these tokens. That it knows nothing of one is asked anew each time.
    async fn look_up_clicks(&mut self, hashes: HashSet<SecretHash>) -> HashMap<SecretHash, Clicked> {
        let (mut answers, missing) = remembered(|hash| self.clicks.get(hash).cloned(), hashes);
        for asked in missing.chunks(MAX_ASKED) {
            let found = patiently("click tokens", asked.len(), || clicks::find(&self.pool, asked).boxed()).await;
            for (hash, clicked) in &found {
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

/// The session whose agent the event gets.
fn nameless_session(event: &LogEvent, reporter: OrgId) -> Option<Session> {
    let session = event.session_id.filter(|_| event.is_nameless())?;
    Some((event.session_org.unwrap_or(reporter), session))
}

/// Puts the agents of its sessions into a record's events. As of its acceptance: whoever reads the record again must find the
/// same.
fn name_agents(record: &mut LogRecord, agents: &HashMap<Session, Named>) {
    let (reporter, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us));
    for event in &mut record.events {
        let named = nameless_session(event, reporter).and_then(|session| agents.get(&session)?.at(accepted_at?));
        if let Some(agent) = named {
            event.agent_id = Some(agent.to_owned());
        }
    }
}

/// Puts the sessions behind a record's tokens into its events. A batch is taken whole or not at all: the error is why the gateway
/// would have refused it.
fn bind(record: &mut LogRecord, clicks: &HashMap<SecretHash, Clicked>) -> Result<(), String> {
    let (reporter, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us));
    for (index, event) in record.events.iter_mut().enumerate() {
        let Some(hash) = event.ctx_hash else { continue };
        let clicked = clicks.get(&hash).filter(|clicked| accepted_at.is_some_and(|at| clicked.is_valid_at(at)));
        let binding = clicked.filter(|clicked| event.can_be_bound_by(reporter, clicked.org));
        match (binding, event.session_id) {
            (None, None) => return Err(format!("event {index}: the click token is unknown or expired")),
            // Real documents carry the tokens of other issuers.
            (None, Some(_)) => event.kept_ctx_hash = event.ctx_hash.take(),
            (Some(clicked), Some(session)) if session != clicked.session => {
                return Err(format!("event {index}: the click token belongs to another session than session_id"));
            }
            (Some(clicked), _) => event.bind_to_click(reporter, clicked.org, clicked.session, &clicked.content_url),
        }
    }
    Ok(())
}
