//! The table `sessions`: this crate is its only writer.
//!
//! Must decide races in the statement itself: the first outcome stays, a privacy level only tightens.

use super::envelope::{EnvelopeReport, Session, SessionState};
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::session::{Outcome, PrivacyLevel, SessionFacts};
use sqlx::{PgConnection, PgExecutor, PgPool};
use std::collections::HashMap;
use uuid::Uuid;

/// What became of an attempt to end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Now or before, with this outcome or without a contradiction.
    Yes,
    /// It ended with another outcome.
    OtherOutcome,
    /// The caller has no such session.
    Unknown,
}

/// Adds a session, or merges what is new into it: what was said first stays. Answers whether `facts.outcome` is
/// the outcome on record, and what the session has said by now.
pub(super) async fn merge(
    connection: &mut PgConnection,
    org: OrgId,
    facts: &SessionFacts,
    now: DateTime<Utc>,
) -> Result<(bool, SessionState), sqlx::Error> {
    let outcome = facts.outcome.as_ref().map(written);
    let (recorded, agent, level): (Option<String>, Option<String>, Option<i16>) = sqlx::query_as(
        "INSERT INTO sessions AS s (organization_id, session_id, initiator_type, agent_id, manifest_ref, content_scope, \
             external_session_id, prior_session_ids, privacy_level, started_at, ended_at, outcome, agent_named_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN $4 IS NULL THEN NULL ELSE $13 END) \
         ON CONFLICT (organization_id, session_id) DO UPDATE SET \
             initiator_type = coalesce(s.initiator_type, excluded.initiator_type), \
             agent_id = coalesce(s.agent_id, excluded.agent_id), \
             agent_named_at = CASE WHEN s.agent_id IS NULL THEN excluded.agent_named_at ELSE s.agent_named_at END, \
             manifest_ref = coalesce(s.manifest_ref, excluded.manifest_ref), \
             content_scope = coalesce(s.content_scope, excluded.content_scope), \
             external_session_id = coalesce(s.external_session_id, excluded.external_session_id), \
             prior_session_ids = CASE WHEN s.prior_session_ids = '{}' THEN excluded.prior_session_ids ELSE s.prior_session_ids END, \
             privacy_level = least(s.privacy_level, excluded.privacy_level), \
             started_at = coalesce(s.started_at, excluded.started_at), \
             ended_at = coalesce(s.ended_at, excluded.ended_at), \
             outcome = coalesce(s.outcome, excluded.outcome) \
         RETURNING outcome, agent_id, privacy_level",
    )
    .bind(org.0)
    .bind(facts.session_id.0)
    .bind(&facts.initiator_type)
    .bind(&facts.agent_id)
    .bind(&facts.manifest_ref)
    .bind(&facts.content_scope)
    .bind(&facts.external_session_id)
    .bind(facts.prior_session_ids.iter().map(|session| session.0).collect::<Vec<_>>())
    .bind(facts.privacy_level.map(code))
    .bind(facts.started_at)
    .bind(facts.ended_at)
    .bind(&outcome)
    .bind(now)
    .fetch_one(connection)
    .await?;
    Ok((outcome.is_some() && recorded == outcome, SessionState { agent, level: level.map(level_of) }))
}

/// Keeps the members this service does not read, once the session's level is known to let them be kept.
pub(super) async fn keep_members(
    connection: &mut PgConnection,
    org: OrgId,
    session: SessionId,
    extra: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE sessions SET extra = $3 WHERE organization_id = $1 AND session_id = $2 AND extra IS NULL")
        .bind(org.0)
        .bind(session.0)
        .bind(extra)
        .execute(connection)
        .await?;
    Ok(())
}

/// Ends a session; again with the same or no outcome changes nothing.
pub(super) async fn end(
    connection: &mut PgConnection,
    org: OrgId,
    session: SessionId,
    outcome: Option<&Outcome>,
    now: DateTime<Utc>,
) -> Result<Ended, sqlx::Error> {
    let updated: Option<i32> = sqlx::query_scalar(
        "UPDATE sessions SET ended_at = coalesce(ended_at, $3), outcome = coalesce(outcome, $4) \
         WHERE organization_id = $1 AND session_id = $2 AND (outcome IS NULL OR $4 IS NULL OR outcome = $4) RETURNING 1",
    )
    .bind(org.0)
    .bind(session.0)
    .bind(now)
    .bind(outcome.map(written))
    .fetch_optional(&mut *connection)
    .await?;
    if updated.is_some() {
        return Ok(Ended::Yes);
    }
    Ok(if exists(connection, org, session).await? { Ended::OtherOutcome } else { Ended::Unknown })
}

/// Whether the organisation has this session.
pub(crate) async fn exists(store: impl PgExecutor<'_>, org: OrgId, session: SessionId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sessions WHERE organization_id = $1 AND session_id = $2)")
        .bind(org.0)
        .bind(session.0)
        .fetch_one(store)
        .await
}

type KnownRow = (Uuid, Uuid, Option<String>, Option<i16>);

/// What those sessions that exist have said of themselves.
pub(super) async fn known_of(pool: &PgPool, sessions: &[Session]) -> Result<HashMap<Session, SessionState>, sqlx::Error> {
    let (orgs, ids): (Vec<Uuid>, Vec<Uuid>) = sessions.iter().map(|(org, session)| (org.0, session.0)).unzip();
    let rows: Vec<KnownRow> = sqlx::query_as(
        "SELECT s.organization_id, s.session_id, s.agent_id, s.privacy_level FROM unnest($1::uuid[], $2::uuid[]) AS asked (org, session) \
         JOIN sessions s ON s.organization_id = asked.org AND s.session_id = asked.session",
    )
    .bind(orgs)
    .bind(ids)
    .fetch_all(pool)
    .await?;
    Ok(by_session(rows))
}

/// Sessions that events named, with what their envelope said: they exist from `now` on. Answers what is known of them by
/// then; one statement for both, because the first event of every session asks for it.
pub(super) async fn add_seen(
    pool: &PgPool,
    seen: &[EnvelopeReport],
    now: DateTime<Utc>,
) -> Result<HashMap<Session, SessionState>, sqlx::Error> {
    let orgs: Vec<Uuid> = seen.iter().map(|seen| seen.org.0).collect();
    let sessions: Vec<Uuid> = seen.iter().map(|seen| seen.session.0).collect();
    let levels: Vec<Option<i16>> = seen.iter().map(|seen| seen.level.map(code)).collect();
    let parents: Vec<Option<&str>> = seen.iter().map(|seen| seen.told.parent.as_deref()).collect();
    let starts: Vec<_> = seen.iter().map(|seen| seen.told.started_at).collect();
    let manifests: Vec<Option<&str>> = seen.iter().map(|seen| seen.told.manifest_ref.as_deref()).collect();
    let agents: Vec<Option<&str>> = seen.iter().map(|seen| seen.told.agent.as_deref()).collect();
    // Grouped and sorted: one statement may not update a row twice, and two may not lock rows crosswise. The last
    // SELECT sees the table as it was before, so the given level is reckoned in. The agent is taken from the row that was
    // written: another statement may have named another one meanwhile.
    let rows: Vec<KnownRow> = sqlx::query_as(
        "WITH seen AS (SELECT org, session, min(level) AS level, \
             (array_agg(parent ORDER BY place) FILTER (WHERE parent IS NOT NULL))[1] AS parent, \
             (array_agg(start ORDER BY place) FILTER (WHERE start IS NOT NULL))[1] AS start, \
             (array_agg(manifest ORDER BY place) FILTER (WHERE manifest IS NOT NULL))[1] AS manifest, \
             (array_agg(agent ORDER BY place) FILTER (WHERE agent IS NOT NULL))[1] AS agent \
         FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::timestamptz[], $6::text[], $7::text[]) \
         WITH ORDINALITY AS given (org, session, level, parent, start, manifest, agent, place) \
         GROUP BY org, session ORDER BY org, session), \
         added AS (INSERT INTO sessions AS s \
             (organization_id, session_id, privacy_level, parent_session_id, started_at, manifest_ref, agent_id, agent_named_at) \
             SELECT org, session, level, parent, start, manifest, \
                 agent, CASE WHEN agent IS NULL THEN NULL ELSE $8::timestamptz END FROM seen \
         ON CONFLICT (organization_id, session_id) DO UPDATE SET \
             privacy_level = least(s.privacy_level, excluded.privacy_level), \
             parent_session_id = coalesce(s.parent_session_id, excluded.parent_session_id), \
             started_at = coalesce(s.started_at, excluded.started_at), \
             manifest_ref = coalesce(s.manifest_ref, excluded.manifest_ref), \
             agent_id = coalesce(s.agent_id, excluded.agent_id), \
             agent_named_at = CASE WHEN s.agent_id IS NULL THEN excluded.agent_named_at ELSE s.agent_named_at END \
         WHERE excluded.privacy_level < s.privacy_level OR (s.privacy_level IS NULL AND excluded.privacy_level IS NOT NULL) \
             OR (s.parent_session_id IS NULL AND excluded.parent_session_id IS NOT NULL) \
             OR (s.started_at IS NULL AND excluded.started_at IS NOT NULL) \
             OR (s.manifest_ref IS NULL AND excluded.manifest_ref IS NOT NULL) \
             OR (s.agent_id IS NULL AND excluded.agent_id IS NOT NULL) \
         RETURNING s.organization_id, s.session_id, s.agent_id) \
         SELECT seen.org, seen.session, coalesce(s.agent_id, added.agent_id), least(s.privacy_level, seen.level) FROM seen \
         LEFT JOIN sessions s ON s.organization_id = seen.org AND s.session_id = seen.session \
         LEFT JOIN added ON added.organization_id = seen.org AND added.session_id = seen.session",
    )
    .bind(orgs)
    .bind(sessions)
    .bind(levels)
    .bind(parents)
    .bind(starts)
    .bind(manifests)
    .bind(agents)
    .bind(now)
    .fetch_all(pool)
    .await?;
    Ok(by_session(rows))
}

fn by_session(rows: Vec<KnownRow>) -> HashMap<Session, SessionState> {
    let known = |agent, level: Option<i16>| SessionState { agent, level: level.map(level_of) };
    rows.into_iter().map(|(org, session, agent, level)| ((OrgId(org), SessionId(session)), known(agent, level))).collect()
}

/// A level that a newer build wrote is not known to be laxer than the strictest.
fn level_of(stored: i16) -> PrivacyLevel {
    PrivacyLevel::ALL.into_iter().find(|level| code(*level) == stored).unwrap_or(PrivacyLevel::Minimal)
}

fn code(level: PrivacyLevel) -> i16 {
    match level {
        PrivacyLevel::Minimal => 0,
        PrivacyLevel::Intent => 1,
        PrivacyLevel::Summary => 2,
        PrivacyLevel::Full => 3,
    }
}

/// The outcome as it is stored and compared.
fn written(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("an outcome has only strings, numbers and valid JSON")
}
