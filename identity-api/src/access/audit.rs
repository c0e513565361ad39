//! The audit trail: every change, written in the same transaction as the change, and what operators read about a customer.

pub(crate) mod refused_reports;
pub(crate) mod trail;

use super::actor::{Actor, Credential};
use chrono::{DateTime, Utc};
use schemas::ids::{ApiKeyId, OrgId, UserId};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

pub(crate) struct Change {
    /// Name of the change, as `<object>.<verb>`.
    pub(crate) action: &'static str,
    pub(crate) object_kind: &'static str,
    pub(crate) object_id: Uuid,
    /// Details that the object's row doesn't contain.
    pub(crate) detail: Value,
}

/// A customer's objects that an operator read, each with its id and organization.
pub(crate) struct AuditedRead<'a> {
    pub(crate) action: &'static str,
    pub(crate) object_kind: &'static str,
    pub(crate) of: &'a [(Uuid, Uuid)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Key(ApiKeyId),
    User(UserId),
    Operator(UserId),
    /// A command on the server without `--as`.
    System,
}

impl Author {
    /// Returns the kind and the id, as stored in tables.
    pub(crate) fn name(self) -> (&'static str, Option<Uuid>) {
        match self {
            Self::Key(key) => ("key", Some(key.0)),
            Self::User(user) => ("user", Some(user.0)),
            Self::Operator(user) => ("operator", Some(user.0)),
            Self::System => ("system", None),
        }
    }
}

impl From<Credential> for Author {
    fn from(credential: Credential) -> Self {
        match credential {
            Credential::Key(key) => Self::Key(key),
            Credential::User(user) => Self::User(user),
        }
    }
}

/// Records a change that the caller made for their organization.
pub(crate) async fn record(
    transaction: &mut PgConnection,
    actor: &Actor,
    at: DateTime<Utc>,
    change: Change,
) -> Result<(), sqlx::Error> {
    record_by(transaction, actor.credential.into(), Some(actor.org_id), at, change).await
}

/// Records a change in the caller's transaction. `organization` is the affected organization.
pub(crate) async fn record_by(
    transaction: &mut PgConnection,
    author: Author,
    organization: Option<OrgId>,
    at: DateTime<Utc>,
    change: Change,
) -> Result<(), sqlx::Error> {
    let (kind, id) = author.name();
    sqlx::query(
        "INSERT INTO audit_log (at, actor_kind, actor_id, organization_id, action, object_kind, object_id, detail) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(at)
    .bind(kind)
    .bind(id)
    .bind(organization.map(|org| org.0))
    .bind(change.action)
    .bind(change.object_kind)
    .bind(change.object_id)
    .bind(change.detail)
    .execute(transaction)
    .await?;
    Ok(())
}

/// Records a change that concerns two organizations, with one row and its own details for each.
pub(crate) async fn record_for_both(
    transaction: &mut PgConnection,
    author: Author,
    of: [(OrgId, Value); 2],
    at: DateTime<Utc>,
    (action, object_kind, object_id): (&'static str, &'static str, Uuid),
) -> Result<(), sqlx::Error> {
    for (organization, detail) in of {
        let change = Change { action, object_kind, object_id, detail };
        record_by(transaction, author, Some(organization), at, change).await?;
    }
    Ok(())
}

/// Records an operator's reads in the owners' audit trails, at most once per object, operator and day.
pub(crate) async fn record_reads(
    connection: &mut PgConnection,
    operator: UserId,
    at: DateTime<Utc>,
    read: AuditedRead<'_>,
) -> Result<(), sqlx::Error> {
    let (kind, id) = Author::Operator(operator).name();
    let (objects, organizations): (Vec<Uuid>, Vec<Uuid>) = read.of.iter().copied().unzip();
    sqlx::query(
        "INSERT INTO audit_log (at, actor_kind, actor_id, organization_id, action, object_kind, object_id) \
         SELECT $1, $2, $3, organization, $4, $5, object FROM unnest($6::uuid[], $7::uuid[]) AS told (object, organization) \
         WHERE NOT EXISTS (SELECT FROM audit_log a WHERE a.object_kind = $5 AND a.object_id = object AND a.action = $4 \
                           AND a.actor_kind = $2 AND a.actor_id = $3 AND a.at > $1 - interval '1 day')",
    )
    .bind(at)
    .bind(kind)
    .bind(id)
    .bind(read.action)
    .bind(read.object_kind)
    .bind(objects)
    .bind(organizations)
    .execute(connection)
    .await?;
    Ok(())
}
