//! Accounts, by verified address.

use crate::access::prelude::*;
use crate::request::email_address::EmailAddress;

/// Returns the person with this address. Creates them if necessary, on behalf of `author` or themselves.
pub(crate) async fn find_or_create(
    connection: &mut PgConnection,
    author: Option<Author>,
    email: &EmailAddress,
    now: DateTime<Utc>,
) -> Result<UserId, sqlx::Error> {
    // The update only makes the statement return a row that a concurrent sign-in inserted. Only an inserted row has no `xmax`.
    let (id, is_new): (Uuid, bool) = sqlx::query_as(
        "INSERT INTO users (email) VALUES ($1) ON CONFLICT (email) DO UPDATE SET email = excluded.email RETURNING id, xmax = 0",
    )
    .bind(email.as_str())
    .fetch_one(&mut *connection)
    .await?;
    if is_new {
        let author = author.unwrap_or(Author::User(UserId(id)));
        let change = Change { action: "user.created", object_kind: "user", object_id: id, detail: json!({}) };
        audit::record_by(connection, author, None, now, change).await?;
    }
    Ok(UserId(id))
}
