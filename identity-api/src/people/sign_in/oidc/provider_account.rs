//! Finds the account of a person whom a provider identified.
//!
//! The provider must have verified an address. A known subject determines the account, otherwise the address does: an address can be
//! reassigned to another person, a subject can't.

use crate::access::prelude::*;
use crate::people::sign_in::account;
use crate::request::email_address::EmailAddress;

pub(super) struct ProviderIdentity {
    pub(super) issuer: String,
    pub(super) subject: String,
    /// Set only if the provider verified it.
    pub(super) email: Option<String>,
}

impl ProviderIdentity {
    /// Returns the account and links it to this subject.
    pub(super) async fn account(&self, connection: &mut PgConnection, now: DateTime<Utc>) -> Result<UserId, ApiError> {
        let unverified = || ApiError::new(Code::Forbidden, "The provider hasn't verified the email address of this account.");
        let email = self.email.as_deref().and_then(|email| EmailAddress::parse(email).ok()).ok_or_else(unverified)?;
        if let Some(known) = self.known(connection).await? {
            return Ok(known);
        }
        let user = account::find_or_create(connection, None, &email, now).await?;
        let linked = sqlx::query(
            "INSERT INTO user_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        )
        .bind(&self.issuer)
        .bind(&self.subject)
        .bind(user.0)
        .bind(now)
        .execute(&mut *connection)
        .await?;
        if linked.rows_affected() == 1 {
            let detail = json!({"issuer": self.issuer, "subject": self.subject});
            let change = Change { action: "user.identity_linked", object_kind: "user", object_id: user.0, detail };
            audit::record_by(connection, Author::User(user), None, now, change).await?;
        }
        // No row was inserted: the same sign-in is running concurrently, or the account has another subject at this provider.
        let taken = "This email address belongs to an account that uses another login at this provider.";
        self.known(connection).await?.ok_or_else(|| ApiError::new(Code::Forbidden, taken))
    }

    async fn known(&self, connection: &mut PgConnection) -> Result<Option<UserId>, sqlx::Error> {
        let user: Option<Uuid> = sqlx::query_scalar("SELECT user_id FROM user_identities WHERE issuer = $1 AND subject = $2")
            .bind(&self.issuer)
            .bind(&self.subject)
            .fetch_optional(connection)
            .await?;
        Ok(user.map(UserId))
    }
}
