//! Looks up click tokens that the gateway couldn't look up, and the agents of sessions. A block with neither needs no query.
//!
//! An event gets the session that the gateway would have assigned. A record that the gateway would have rejected becomes a dead letter.
//! Tokens and agents are looked up as of the time when their event was accepted, so a replay stores the same rows
//! (`worker_and_gateway_lookups_produce_the_same_rows`).

pub(crate) mod back_off;
pub(crate) mod session_writer;

use crate::consume::{Block, DeadLetter, NamedSession, Unresolved};
use crate::metrics;
use crate::record::decode::guarded;
use crate::record::new_report::NewReport;
use anyhow::Context;
use back_off::BackOff;
use chrono::DateTime;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use lru::LruCache;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord};
use schemas::secrets::SecretHash;
use service_kit::click_token_lookups::{self, ClickTokenCache, IssuedClickToken, Session, SessionAgent};
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use sqlx::PgPool;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::Duration;

const REMEMBERED: usize = 100_000;
/// Maximum tokens or sessions per query, few enough for its deadline.
const MAX_ASKED: usize = 20_000;
/// A query's deadline, even if PostgreSQL hangs.
const DEADLINE: Duration = Duration::from_secs(5);

pub(crate) struct Resolver {
    pool: PgPool,
    clicks: ClickTokenCache,
    agents: LruCache<Session, SessionAgent>,
}

impl Resolver {
    /// Creates a resolver that connects on its first query, because a worker can start without PostgreSQL.
    pub(crate) fn connect(settings: &PostgresSettings) -> anyhow::Result<Self> {
        Ok(Self::on(databases::postgres(settings)?))
    }

    pub(crate) fn on(pool: PgPool) -> Self {
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        Self { pool, clicks: ClickTokenCache::default(), agents: LruCache::new(capacity) }
    }

    /// Removes sessions from the cache if a record names their agent, because it may have been accepted before the cached one.
    pub(crate) fn forget_agents(&mut self, named: &[NamedSession]) {
        for NamedSession { org, report, .. } in named.iter().filter(|one| one.report.agent_id.is_some()) {
            self.agents.pop(&(*org, report.session_id));
        }
    }

    /// Turns each unresolved record in a block into reports or a dead letter. Waits while PostgreSQL is unavailable.
    pub(crate) async fn resolve(&mut self, block: &mut Block) {
        if block.unresolved.is_empty() {
            return;
        }
        let mut unresolved = block.take_unresolved();
        let clicks = self.look_up_clicks(unresolved.iter().flat_map(|one| hashes_of(&one.record)).collect()).await;
        let refused = |one: &mut Unresolved| guarded(|| add_sessions(&mut one.record, &clicks)).err();
        let refusals: Vec<Option<String>> = unresolved.iter_mut().map(refused).collect();
        let agents = self.look_up_agents(unresolved.iter().flat_map(|one| nameless_sessions_of(&one.record)).collect()).await;
        for (Unresolved { mut record, dead_letter: letter }, refusal) in unresolved.into_iter().zip(refusals) {
            let (origin, events) = ((letter.partition, letter.offset), record.events.len());
            let reports = || {
                refusal.map_or(Ok(()), Err)?;
                name_agents(&mut record, &agents);
                Ok(NewReport::from_record(record, origin))
            };
            match guarded(reports) {
                Ok(reports) => {
                    metrics::resolved(reports.len());
                    block.reports.extend(reports);
                }
                Err(reason) => block.dead_letters.push(DeadLetter { reason, events, ..letter }),
            }
        }
    }

    /// Returns the reason why the record would become a dead letter, or `None` if it wouldn't. Queries PostgreSQL once.
    pub(crate) async fn rejection_reason(&self, mut record: LogRecord) -> anyhow::Result<Option<String>> {
        let hashes: Vec<SecretHash> = hashes_of(&record).collect();
        let mut clicks = HashMap::new();
        if !hashes.is_empty() {
            let asked = tokio::time::timeout(DEADLINE, click_token_lookups::find_tokens(&self.pool, &hashes)).await;
            clicks = asked
                .map_err(anyhow::Error::from)
                .and_then(|found| Ok(found?))
                .context("DATABASE_URL: failed to look up click tokens")?;
        }
        // A missing agent never rejects a record.
        Ok(add_sessions(&mut record, &clicks).err())
    }

    /// Returns the existing tokens. Unknown tokens are not cached.
    async fn look_up_clicks(&mut self, hashes: HashSet<SecretHash>) -> HashMap<SecretHash, IssuedClickToken> {
        let (mut answers, missing) = split_cached(|hash| self.clicks.get(hash), hashes);
        for asked in missing.chunks(MAX_ASKED) {
            let found =
                retry_until_ok("click tokens", asked.len(), || click_token_lookups::find_tokens(&self.pool, asked).boxed()).await;
            for (hash, clicked) in &found {
                self.clicks.put(*hash, clicked.clone());
            }
            answers.extend(found);
        }
        answers
    }

    /// Returns these sessions' agents. A session without an agent isn't cached, because it may get one.
    async fn look_up_agents(&mut self, sessions: HashSet<Session>) -> HashMap<Session, SessionAgent> {
        let (mut answers, missing) = split_cached(|session| self.agents.get(session).cloned(), sessions);
        for asked in missing.chunks(MAX_ASKED) {
            let found =
                retry_until_ok("agents of sessions", asked.len(), || click_token_lookups::find_agents(&self.pool, asked).boxed())
                    .await;
            for (session, agent) in &found {
                self.agents.put(*session, agent.clone());
            }
            answers.extend(found);
        }
        answers
    }
}

/// Returns the cached values, and the keys that are not in the cache.
fn split_cached<K: Hash + Eq, V>(mut known: impl FnMut(&K) -> Option<V>, wanted: HashSet<K>) -> (HashMap<K, V>, Vec<K>) {
    let (mut answers, mut missing) = (HashMap::with_capacity(wanted.len()), Vec::new());
    for key in wanted {
        match known(&key) {
            Some(value) => drop(answers.insert(key, value)),
            None => missing.push(key),
        }
    }
    (answers, missing)
}

/// Repeats a query until PostgreSQL responds.
pub(crate) async fn retry_until_ok<'a, T>(
    what: &str,
    count: usize,
    ask: impl Fn() -> BoxFuture<'a, Result<T, sqlx::Error>>,
) -> T {
    let mut back_off = BackOff::default();
    loop {
        match tokio::time::timeout(DEADLINE, ask()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(error)) => tracing::error!(count, "statement for {what} failed, retrying: {error}"),
            Err(_) => tracing::error!(count, "statement for {what} failed, retrying: no response"),
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

/// Returns the session that determines the event's agent.
fn nameless_session(event: &LogEvent, reporter: OrgId) -> Option<Session> {
    let session = event.session_id.filter(|_| event.lacks_agent())?;
    Some((event.session_org.unwrap_or(reporter), session))
}

/// Adds sessions' agents to a record's events, as of its acceptance, so a replay adds the same ones.
fn name_agents(record: &mut LogRecord, agents: &HashMap<Session, SessionAgent>) {
    let (reporter, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us));
    for event in &mut record.events {
        let named = nameless_session(event, reporter).and_then(|session| agents.get(&session)?.at(accepted_at?));
        if let Some(agent) = named {
            event.agent_id = Some(agent.to_owned());
        }
    }
}

/// Adds click tokens' sessions to a record's events.
///
/// # Errors
///
/// Returns the reason why the gateway would have rejected the request. A record is stored completely or not at all.
fn add_sessions(record: &mut LogRecord, clicks: &HashMap<SecretHash, IssuedClickToken>) -> Result<(), String> {
    let (reporter, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us));
    for (index, event) in record.events.iter_mut().enumerate() {
        let Some(hash) = event.ctx_hash else { continue };
        let clicked = clicks.get(&hash).filter(|clicked| accepted_at.is_some_and(|at| clicked.is_valid_at(at)));
        let binding = clicked.filter(|clicked| event.can_be_bound_by(reporter, clicked.org));
        match (binding, event.session_id) {
            (None, None) => return Err(format!("event {index}: the click token is unknown or expired")),
            // Documents can contain other issuers' tokens.
            (None, Some(_)) => event.kept_ctx_hash = event.ctx_hash.take(),
            (Some(clicked), Some(session)) if session != clicked.session => {
                return Err(format!("event {index}: the click token belongs to a session other than session_id"));
            }
            (Some(clicked), _) => event.bind_to_click(reporter, clicked.org, clicked.session, &clicked.content_url),
        }
    }
    Ok(())
}
