//! Shows dead letters to operators, and executes the retries that they request (docs/api/identity.md#dead-letters).
//!
//! A retry is marked before it starts, so it is executed at most once, and a record that crashes the process doesn't crash the next one.

use super::archive::{Archive, StoredDeadLetter};
use super::requeue::{REFUSED, Requeue};
use crate::Settings;
use crate::consume::QUARANTINED;
use crate::consume::topic_reader::{OffsetRange, TopicReader};
use chrono::{DateTime, TimeDelta, Utc};
use service_kit::clock::Clock;
use service_kit::databases;
use sqlx::PgPool;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

const EVERY: Duration = Duration::from_secs(2);
const STORE: &str = include_str!("store_letters.sql");
/// Marks the pending retries. The refusal is replaced unless the process stops before it knows the outcome.
const START_RETRIES: &str = "\
    UPDATE dead_letters l SET tried_at = r.requested_at, refusal = 'the worker stopped during the retry; retry it again' \
    FROM dead_letter_retries r \
    WHERE r.dead_letter_id = l.id AND l.restored_as IS NULL AND (l.tried_at IS NULL OR l.tried_at < r.requested_at) \
    RETURNING l.origin";
const FINISH_RETRY: &str = "UPDATE dead_letters SET restored_as = $2, refusal = $3 WHERE origin = $1";

/// Keeps the copies in PostgreSQL up to date and executes retries until the handle is dropped.
pub(crate) fn serve_operators(settings: Settings) -> AbortOnDropHandle<()> {
    let mut copies = Copies { settings, pool: None, reader: None, stored: Vec::new() };
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = copies.round().await {
                tracing::warn!("failed to update the dead letters in PostgreSQL, retrying: {error:#}");
            }
        }
    }))
}

struct Copies {
    settings: Settings,
    pool: Option<PgPool>,
    reader: Option<TopicReader>,
    /// The topic's offsets when it was last stored.
    stored: Vec<OffsetRange>,
}

impl Copies {
    async fn round(&mut self) -> anyhow::Result<()> {
        let kafka = &self.settings.kafka;
        let pool = match &self.pool {
            Some(pool) => pool,
            None => self.pool.insert(databases::postgres(&self.settings.postgres)?),
        };
        let reader = match &self.reader {
            Some(reader) => reader,
            None => self.reader.insert(TopicReader::open(kafka, &kafka.rejected_topic)?),
        };
        let offsets = reader.whole().await?;
        if self.stored != offsets {
            store(pool, &Archive::read(kafka, false).await?, Clock::System.now()).await?;
            self.stored = offsets;
        }
        let started: Vec<String> = sqlx::query_scalar(START_RETRIES).fetch_all(pool).await?;
        if !started.is_empty() {
            retry(&self.settings, pool, &started).await?;
        }
        Ok(())
    }
}

async fn store(pool: &PgPool, archive: &Archive, now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    let letters: Vec<&StoredDeadLetter> = archive.dead_letters().collect();
    let texts =
        |of: fn(&StoredDeadLetter) -> Option<&str>| letters.iter().map(|letter| of(letter).map(plain)).collect::<Vec<_>>();
    let organizations: Vec<Option<Uuid>> = letters.iter().map(|letter| letter.organization.as_ref()?.parse().ok()).collect();
    sqlx::query(STORE)
        .bind(texts(|letter| Some(letter.origin.as_str())))
        .bind(texts(|letter| Some(letter.reason.as_str())))
        .bind(letters.iter().map(|letter| letter.set_aside_at.unwrap_or(DateTime::UNIX_EPOCH)).collect::<Vec<_>>())
        .bind(letters.iter().map(|letter| i64::try_from(letter.bytes).unwrap_or(i64::MAX)).collect::<Vec<_>>())
        .bind(organizations)
        .bind(texts(|letter| letter.request_id.as_deref()))
        .bind(texts(|letter| letter.retried.as_deref()))
        .bind(now - TimeDelta::hours(1))
        .execute(pool)
        .await?;
    Ok(())
}

/// Replaces NUL, which PostgreSQL rejects.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

async fn retry(settings: &Settings, pool: &PgPool, origins: &[String]) -> anyhow::Result<()> {
    let (archive, queue) = (Archive::read(&settings.kafka, true).await?, Requeue::open(settings)?);
    for origin in origins {
        let (copy, refusal) = match outcome(&archive, &queue, origin).await {
            Ok((copy, refusal)) => (copy, refusal),
            Err(error) => (None, Some(format!("the retry failed: {error:#}"))),
        };
        tracing::info!(origin, copy, refusal, "an operator retried a dead letter");
        sqlx::query(FINISH_RETRY).bind(origin).bind(copy).bind(refusal.as_deref().map(plain)).execute(pool).await?;
    }
    Ok(())
}

/// Returns the copy's position, or the reason why there is none.
async fn outcome(archive: &Archive, queue: &Requeue<'_>, origin: &str) -> anyhow::Result<(Option<String>, Option<String>)> {
    let letter = archive.find(origin)?;
    if letter.reason.starts_with(QUARANTINED) {
        let detail = format!("it could stop the worker; run `telemetry stream-workers rejected retry {origin}`");
        return Ok((None, Some(detail)));
    }
    let outcome = queue.retry(letter).await?;
    Ok(if outcome.status == REFUSED { (None, Some(outcome.detail)) } else { (Some(outcome.detail), None) })
}
