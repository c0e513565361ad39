//! Revokes what a person created, when they are removed or stop being an owner (docs/api/identity.md#who-is-removed).

use crate::access::permissions::Creators;
use crate::access::prelude::*;
use crate::keys::{analyst_accounts, api_keys};
use crate::{delegations, webhooks};

/// Query parameters of a removal.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovalParameters {
    /// Keeps keys and, with them, delegations, webhook endpoints and analyst accounts.
    #[serde(default)]
    pub(crate) keep_keys: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CreatedBy {
    /// A member of one organization.
    Member(OrgId, UserId),
    /// An operator, in every organization.
    Operator(UserId),
}

/// Revokes the keys that a person created, directly or through other keys, and the delegations, webhook endpoints and open invites that the
/// person or these keys created. Also revokes analyst accounts that the person created or uses.
pub(crate) async fn revoke_created(
    transaction: &mut PgConnection,
    author: Author,
    maker: CreatedBy,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    let (person, kinds, org): (UserId, &[&str], Option<OrgId>) = match maker {
        CreatedBy::Member(org, person) => (person, &["user", "operator"], Some(org)),
        CreatedBy::Operator(person) => (person, &["operator"], None),
    };
    let keys = api_keys::revoke_created_by(transaction, author, (person, kinds, org), now).await?;
    withdraw_invites_of(transaction, author, &keys, now).await?;
    let makers = Creators { member: org.map(|org| (org, person)), keys: &keys };
    delegations::revoke_created_by(transaction, author, makers, now).await?;
    webhooks::delete_created_by(transaction, author, makers, now).await?;
    analyst_accounts::revoke_created_by(transaction, author, (person, org), now).await?;
    Ok(())
}

/// Withdraws invites that these keys created, because a partner's first owner could still claim them.
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
