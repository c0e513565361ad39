//! What sessions have said of themselves, and the statement by which events name them: the gateway executes it, and the worker
//! when PostgreSQL did not answer the gateway.
//!
//! Must not let anybody touch a session of another organisation: every statement carries its organisation.

use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::session::{PrivacyLevel, SessionReport};
use sqlx::PgPool;
use std::collections::HashMap;
use uuid::Uuid;

/// A session and whose it is.
pub type Session = (OrgId, SessionId);

/// What a session has said of itself so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// The answering agent.
    pub agent: Option<String>,
    /// The strictest level declared.
    pub level: Option<PrivacyLevel>,
}

/// Organisation, session, agent, level.
type Row = (Uuid, Uuid, Option<String>, Option<i16>);

/// What those of these sessions that exist have said of themselves.
pub async fn find(pool: &PgPool, sessions: &[Session]) -> Result<HashMap<Session, SessionState>, sqlx::Error> {
    let (orgs, ids): (Vec<Uuid>, Vec<Uuid>) = sessions.iter().map(|(org, session)| (org.0, session.0)).unzip();
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT s.organization_id, s.session_id, s.agent_id, s.privacy_level FROM unnest($1::uuid[], $2::uuid[]) AS asked (org, session) \
         JOIN sessions s ON s.organization_id = asked.org AND s.session_id = asked.session",
    )
    .bind(orgs)
    .bind(ids)
    .fetch_all(pool)
    .await?;
    Ok(by_session(rows))
}

/// Writes sessions that events named: they exist from `now` on, what was said first stays, and a level only tightens. Answers
/// what is known of them by then; one statement for both, because the first event of every session asks for it.
pub async fn write(
    pool: &PgPool,
    reports: &[(OrgId, SessionReport)],
    now: DateTime<Utc>,
) -> Result<HashMap<Session, SessionState>, sqlx::Error> {
    let orgs: Vec<Uuid> = reports.iter().map(|(org, _)| org.0).collect();
    let sessions: Vec<Uuid> = reports.iter().map(|(_, report)| report.session_id.0).collect();
    let levels: Vec<Option<i16>> = reports.iter().map(|(_, report)| report.privacy_level.map(PrivacyLevel::code)).collect();
    let parents: Vec<Option<&str>> = reports.iter().map(|(_, report)| report.parent_session_id.as_deref()).collect();
    let starts: Vec<_> = reports.iter().map(|(_, report)| report.started_at).collect();
    let manifests: Vec<Option<&str>> = reports.iter().map(|(_, report)| report.manifest_ref.as_deref()).collect();
    let agents: Vec<Option<&str>> = reports.iter().map(|(_, report)| report.agent_id.as_deref()).collect();
    // Grouped and sorted: one statement may not update a row twice, and two may not lock rows crosswise. The last
    // SELECT sees the table as it was before, so the given level is reckoned in. The agent is taken from the row that was
    // written: another statement may have named another one meanwhile.
    let rows: Vec<Row> = sqlx::query_as(
        "WITH named AS (SELECT org, session, min(level) AS level, \
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
                 agent, CASE WHEN agent IS NULL THEN NULL ELSE $8::timestamptz END FROM named \
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
         SELECT named.org, named.session, coalesce(s.agent_id, added.agent_id), least(s.privacy_level, named.level) FROM named \
         LEFT JOIN sessions s ON s.organization_id = named.org AND s.session_id = named.session \
         LEFT JOIN added ON added.organization_id = named.org AND added.session_id = named.session",
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

fn by_session(rows: Vec<Row>) -> HashMap<Session, SessionState> {
    let state = |agent, level: Option<i16>| SessionState { agent, level: level.map(PrivacyLevel::of_code) };
    rows.into_iter().map(|(org, session, agent, level)| ((OrgId(org), SessionId(session)), state(agent, level))).collect()
}
