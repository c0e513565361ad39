//! The scopes that a key can have, and the keys that are revoked with their creator.

use crate::access::permissions;
use crate::access::prelude::*;
use schemas::identity::Scope;

/// Rejects scopes that can't be granted: those that the creating key lacks, and `partner:provision` unless the organization is a trusted
/// partner. The caller has locked the organization's row, so its trust can't change in the meantime.
pub(super) async fn require_grantable(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    scopes: &[Scope],
) -> Result<(), ApiError> {
    permissions::require_held(transaction, author, scopes).await?;
    if scopes.contains(&Scope::PartnerProvision) && !organization_rows::is_trusted(&mut *transaction, org).await? {
        let detail = "Only trusted partners can have partner:provision. Ask an operator.";
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    Ok(())
}

/// Returns whether the author is a key that requires signatures. What it creates must too, or anyone who has the key could report
/// without signing.
pub(super) async fn requires_signature(transaction: &mut PgConnection, author: Author) -> Result<bool, sqlx::Error> {
    let (kind, id) = author.name();
    let own = "SELECT EXISTS (SELECT FROM api_keys WHERE id = $1 AND $2 = 'key' AND require_signature)";
    sqlx::query_scalar(own).bind(id).bind(kind).fetch_one(transaction).await
}

/// Keys that a person created, keys that those created, and so on. Includes revoked keys, because the objects they created still exist.
const MADE: &str = "WITH RECURSIVE made AS ( \
        SELECT id FROM api_keys WHERE created_by = $1 AND created_by_kind = ANY($2) AND ($3::uuid IS NULL OR organization_id = $3) \
        UNION SELECT k.id FROM api_keys k JOIN made ON k.created_by = made.id WHERE k.created_by_kind = 'key') \
    SELECT id FROM made ORDER BY id";

/// Revokes the keys that a person created directly or through other keys, in one organization or in all. Returns all of them, including
/// those already revoked.
pub(crate) async fn revoke_created_by(
    transaction: &mut PgConnection,
    author: Author,
    (person, kinds, org): (UserId, &[&str], Option<OrgId>),
    now: DateTime<Utc>,
) -> Result<Vec<Uuid>, sqlx::Error> {
    loop {
        let made: Vec<Uuid> =
            sqlx::query_scalar(MADE).bind(person.0).bind(kinds).bind(org.map(|org| org.0)).fetch_all(&mut *transaction).await?;
        let revoked: Vec<(Uuid, Uuid)> = sqlx::query_as(
            "UPDATE api_keys SET revoked_at = $2 WHERE id = ANY($1) AND revoked_at IS NULL RETURNING id, organization_id",
        )
        .bind(&made)
        .bind(now)
        .fetch_all(&mut *transaction)
        .await?;
        for (key, org) in &revoked {
            let detail = json!({"of": person});
            let change = Change { action: "api_key.revoked", object_kind: "api_key", object_id: *key, detail };
            audit::record_by(transaction, author, Some(OrgId(*org)), now, change).await?;
        }
        if revoked.is_empty() {
            return Ok(made);
        }
        // Run it again: one of these keys may have created another while this transaction waited for its lock.
    }
}
