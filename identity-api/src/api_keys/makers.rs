//! Who may mint keys, what a key may hold, and what becomes of the keys that somebody made.
//!
//! Must judge whoever mints under the lock under which people are removed: who is removed leaves no key behind, not even one
//! that was being minted.

use crate::actor::{Actor, Credential};
use crate::audit::{self, Author, Change};
use crate::members;
use crate::partners;
use chrono::{DateTime, Utc};
use schemas::identity::{Role, Scope};
use schemas::ids::{ApiKeyId, OrgId, UserId};
use schemas::problem::Code;
use serde::Deserialize;
use serde_json::json;
use service_kit::http::ApiError;
use sqlx::PgConnection;
use uuid::Uuid;

/// Holds the organisation's row; 403 for a member who is no owner, 401 for a key that is revoked by now.
pub(super) async fn require_minter(transaction: &mut PgConnection, actor: &Actor) -> Result<(), ApiError> {
    members::lock(transaction, actor.org_id).await?;
    match actor.credential {
        Credential::Key(key) => held(transaction, key).await.map(drop),
        Credential::User(user) => match members::role_of(transaction, actor.org_id, user).await? {
            Some(Role::Owner) => Ok(()),
            Some(Role::Member) | None => {
                Err(ApiError::new(Code::Forbidden, "Only an owner of the organisation may mint and revoke its keys."))
            }
        },
    }
}

/// What a key holds; it stays as it is until the transaction ends.
async fn held(transaction: &mut PgConnection, key: ApiKeyId) -> Result<Vec<Scope>, ApiError> {
    let names: Option<Vec<String>> =
        sqlx::query_scalar("SELECT scopes FROM api_keys WHERE id = $1 AND revoked_at IS NULL FOR SHARE")
            .bind(key.0)
            .fetch_optional(transaction)
            .await?;
    let names = names.ok_or_else(ApiError::unauthenticated)?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Refuses what cannot be granted: by a key what it does not hold itself, by anybody to provision where nobody is trusted.
/// The caller holds the organisation's row, so trust stays what it is.
pub(super) async fn require_grantable(
    transaction: &mut PgConnection,
    author: Author,
    org: OrgId,
    scopes: &[Scope],
) -> Result<(), ApiError> {
    if let Author::Key(key) = author {
        let held = held(transaction, key).await?;
        if let Some(lacking) = scopes.iter().find(|scope| !held.contains(scope)) {
            let detail =
                format!("A key grants at most its own scopes, and this one lacks {}; name the scopes.", lacking.as_str());
            return Err(ApiError::new(Code::MissingScope, detail));
        }
    }
    if scopes.contains(&Scope::PartnerProvision) && !partners::is_trusted(&mut *transaction, org).await? {
        let detail = "partner:provision is granted only where an operator trusts the organisation as a partner.";
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    Ok(())
}

/// What becomes of the keys of somebody who is removed, or is no owner any more.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keeping {
    /// They stay.
    #[serde(default)]
    pub(crate) keep_keys: bool,
}

/// Whose keys to revoke.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Maker {
    /// A person's, in an organisation.
    Member(OrgId, UserId),
    /// A person's, as an operator, in every organisation.
    Operator(UserId),
}

/// Keys that somebody made, those that these made, and so on. The revoked ones too: what they made is still there.
const MADE: &str = "WITH RECURSIVE made AS ( \
        SELECT id FROM api_keys WHERE created_by = $1 AND created_by_kind = ANY($2) AND ($3::uuid IS NULL OR organization_id = $3) \
        UNION SELECT k.id FROM api_keys k JOIN made ON k.created_by = made.id WHERE k.created_by_kind = 'key') \
    SELECT id FROM made ORDER BY id";

/// Revokes the keys that somebody made, by whatever chain of keys, and withdraws the open invites made by them.
pub(crate) async fn revoke_made_by(
    transaction: &mut PgConnection,
    author: Author,
    maker: Maker,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let (person, kinds, org): (UserId, &[&str], Option<OrgId>) = match maker {
        Maker::Member(org, person) => (person, &["user", "operator"], Some(org)),
        Maker::Operator(person) => (person, &["operator"], None),
    };
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
            return withdraw_invites_of(transaction, author, &made, now).await;
        }
        // Once more: one of them may have been minting a key, and was waited for.
    }
}

/// Or a partner's first owner comes in by an invite that a removed person's key has made.
async fn withdraw_invites_of(
    transaction: &mut PgConnection,
    author: Author,
    keys: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let withdrawn: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "UPDATE invites SET withdrawn_at = $2 WHERE invited_by_key = ANY($1) AND claimed_at IS NULL AND withdrawn_at IS NULL \
         RETURNING id, organization_id",
    )
    .bind(keys)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    for (invite, org) in withdrawn {
        let detail = json!({"of_revoked_key": true});
        let change = Change { action: "invite.withdrawn", object_kind: "invite", object_id: invite, detail };
        audit::record_by(transaction, author, Some(OrgId(org)), now, change).await?;
    }
    Ok(())
}
