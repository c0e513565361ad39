//! Analyst accounts in ClickHouse. Only the response that creates one contains its password.

use crate::ids::{AnalystAccountId, OrgId, UserId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An account (docs/operating/analytics.md#accounts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalystAccount {
    pub id: AnalystAccountId,
    pub organization_id: OrgId,
    /// The content owner that shares its data; absent if the account reads the organization's own data.
    pub delegated_from: Option<OrgId>,
    /// The member who uses it; removing the member revokes it.
    pub user_id: Option<UserId>,
    pub login: String,
    pub name: String,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; absent unless it is revoked.
    #[serde(default, with = "crate::instant::optional")]
    pub revoked_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CreatedAnalystAccount {
    #[serde(flatten)]
    pub account: AnalystAccount,
    pub password: String,
}
