//! The `sessions` table: writes of `/sessions/*` calls, and the levels that events need.
//!
//! Races are resolved in the statements: the first outcome is kept, and a privacy level only becomes stricter.

use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::session::{Outcome, PrivacyLevel, SessionFacts};
use service_kit::click_token_lookups::Session;
use sqlx::{PgConnection, PgExecutor, PgPool};
use std::collections::HashMap;
use uuid::Uuid;

/// Levels by session; `None` for a session without a declared level.
pub(crate) type Levels = HashMap<Session, Option<PrivacyLevel>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Ended, now or earlier, with this outcome or without one.
    Yes,
    OtherOutcome,
    Unknown,
}

/// Returns the levels of the sessions that exist.
pub(super) async fn levels(pool: &PgPool, sessions: &[Session]) -> Result<Levels, sqlx::Error> {
    let (orgs, ids): (Vec<Uuid>, Vec<Uuid>) = sessions.iter().map(|(org, session)| (org.0, session.0)).unzip();
    let rows: Vec<(Uuid, Uuid, Option<i16>)> =
        sqlx::query_as(include_str!("sql/find_levels.sql")).bind(orgs).bind(ids).fetch_all(pool).await?;
    let level =
        |(org, session, level): (_, _, Option<i16>)| ((OrgId(org), SessionId(session)), level.map(PrivacyLevel::from_code));
    Ok(rows.into_iter().map(level).collect())
}

/// Inserts a session that an accepted record names, with the level that its events declared.
pub(super) async fn add_named(
    store: impl PgExecutor<'_>,
    (org, session): Session,
    level: Option<PrivacyLevel>,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let statement = sqlx::query(include_str!("sql/add_named.sql")).bind(org.0).bind(session.0);
    statement.bind(level.map(PrivacyLevel::code)).bind(now).execute(store).await?;
    Ok(())
}

/// Inserts a session, or merges new facts into it: earlier facts are kept, and its level becomes at most `level`. Returns whether
/// `facts.outcome` is the recorded outcome, and the session's level.
pub(super) async fn merge(
    connection: &mut PgConnection,
    org: OrgId,
    facts: &SessionFacts,
    level: Option<PrivacyLevel>,
    now: DateTime<Utc>,
) -> Result<(bool, Option<PrivacyLevel>), sqlx::Error> {
    let outcome = facts.outcome.as_ref().map(written);
    let (recorded, level): (Option<String>, Option<i16>) = sqlx::query_as(
        "INSERT INTO sessions AS s (organization_id, session_id, initiator_type, agent_id, manifest_ref, content_scope, \
             external_session_id, prior_session_ids, privacy_level, started_at, ended_at, outcome, agent_named_at, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN $4 IS NULL THEN NULL ELSE $13 END, $13) \
         ON CONFLICT (organization_id, session_id) DO UPDATE SET \
             initiator_type = coalesce(s.initiator_type, excluded.initiator_type), \
             agent_id = CASE WHEN s.agent_named_at <= excluded.agent_named_at OR excluded.agent_id IS NULL \
                 THEN s.agent_id ELSE excluded.agent_id END, \
             agent_named_at = least(s.agent_named_at, excluded.agent_named_at), \
             manifest_ref = coalesce(s.manifest_ref, excluded.manifest_ref), \
             content_scope = coalesce(s.content_scope, excluded.content_scope), \
             external_session_id = coalesce(s.external_session_id, excluded.external_session_id), \
             prior_session_ids = CASE WHEN s.prior_session_ids = '{}' THEN excluded.prior_session_ids ELSE s.prior_session_ids END, \
             privacy_level = least(s.privacy_level, excluded.privacy_level), \
             started_at = coalesce(s.started_at, excluded.started_at), \
             ended_at = coalesce(s.ended_at, excluded.ended_at), \
             outcome = coalesce(s.outcome, excluded.outcome) \
         RETURNING outcome, privacy_level",
    )
    .bind(org.0)
    .bind(facts.session_id.0)
    .bind(&facts.initiator_type)
    .bind(&facts.agent_id)
    .bind(&facts.manifest_ref)
    .bind(&facts.content_scope)
    .bind(&facts.external_session_id)
    .bind(facts.prior_session_ids.iter().map(|session| session.0).collect::<Vec<_>>())
    .bind(level.map(PrivacyLevel::code))
    .bind(facts.started_at)
    .bind(facts.ended_at)
    .bind(&outcome)
    .bind(now)
    .fetch_one(connection)
    .await?;
    Ok((outcome.is_some() && recorded == outcome, level.map(PrivacyLevel::from_code)))
}

/// Stores unknown members. Call it once the session's level is known.
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

/// Ends a session. Ending it again with the same outcome or without one has no effect.
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

pub(crate) async fn exists(store: impl PgExecutor<'_>, org: OrgId, session: SessionId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sessions WHERE organization_id = $1 AND session_id = $2)")
        .bind(org.0)
        .bind(session.0)
        .fetch_one(store)
        .await
}

/// Serializes an outcome for storing and comparing.
fn written(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("an outcome has only strings, numbers and valid JSON")
}
