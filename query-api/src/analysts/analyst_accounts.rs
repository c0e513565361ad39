//! Analyst accounts and what each may see, by the same rules as API reads.

use crate::access::visibility::Visibility;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use service_kit::identity_tables::IdentityTables;
use sqlx::PgPool;
use uuid::Uuid;

pub(super) struct Account {
    /// ClickHouse user name: letters, digits and underscores.
    pub(super) login: String,
    /// SHA-256 of the password in hexadecimal.
    pub(super) password_hash: String,
    organization: OrgId,
    org_type: OrgType,
    delegated_from: Option<OrgId>,
    is_revoked: bool,
}

type Row = (String, String, Uuid, String, Option<Uuid>, bool);

/// Returns all accounts, including revoked ones, whose permissions in ClickHouse must end.
pub(super) async fn all(pool: &PgPool) -> anyhow::Result<Vec<Account>> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT a.login, encode(a.password_hash, 'hex'), a.organization_id, o.org_type, a.grantor_org_id, a.revoked_at IS NOT NULL \
         FROM analyst_accounts a JOIN organizations o ON o.id = a.organization_id ORDER BY a.login",
    )
    .fetch_all(pool)
    .await?;
    let account = |(login, password_hash, organization, org_type, grantor, is_revoked): Row| {
        let org_type = org_type.parse().map_err(|unknown| anyhow::anyhow!("{unknown}"))?;
        let (organization, delegated_from) = (OrgId(organization), grantor.map(OrgId));
        Ok(Account { login, password_hash, organization, org_type, delegated_from, is_revoked })
    };
    rows.into_iter().map(account).collect()
}

impl Account {
    /// Returns what the account may see; `None` if it is revoked or its delegation has ended.
    pub(super) async fn visibility(&self, directory: &IdentityTables) -> Result<Option<Visibility>, sqlx::Error> {
        if self.is_revoked {
            return Ok(None);
        }
        Visibility::for_account(directory, self.organization, self.org_type, self.delegated_from).await
    }
}
