//! An account by which an analyst reads an owner's figures in ClickHouse.
//!
//! Must not hold a password, but for the one answer that shows it.

use crate::ids::{AnalystAccountId, OrgId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An account (docs/operating/analytics.md#accounts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalystAccount {
    /// For revoking.
    pub id: AnalystAccountId,
    /// Whose account it is.
    pub organization_id: OrgId,
    /// The content owner that lets it read; absent where it reads what is its own.
    pub delegated_from: Option<OrgId>,
    /// The user of ClickHouse, and the database that its views are in.
    pub login: String,
    /// What it is called.
    pub name: String,
    /// RFC 3339.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339; absent while it may sign in.
    #[serde(default, with = "crate::instant::optional")]
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A new account with its password, which is shown this once.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreatedAnalystAccount {
    /// The account.
    #[serde(flatten)]
    pub account: AnalystAccount,
    /// Its password.
    pub password: String,
}
