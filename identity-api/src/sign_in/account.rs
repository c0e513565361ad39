//! The account that a proved address opens.
//!
//! Must be asked only after the address was proved.

use crate::email_address::EmailAddress;
use schemas::ids::UserId;
use sqlx::PgConnection;
use uuid::Uuid;

/// The person with this address, created when nobody has it.
pub(crate) async fn of_address(connection: &mut PgConnection, email: &EmailAddress) -> Result<UserId, sqlx::Error> {
    // The update changes nothing; it makes the statement return the row that another sign-in has just inserted.
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO users (email) VALUES ($1) ON CONFLICT (email) DO UPDATE SET email = excluded.email RETURNING id",
    )
    .bind(email.as_str())
    .fetch_one(connection)
    .await?;
    Ok(UserId(id))
}
