//! Signed-in people. A handler requires a person or an operator through its argument type.

pub mod sign_in;
pub mod user_sessions;
pub mod mail;
pub(crate) mod revoke_created;
pub(crate) mod all_organizations;
pub(crate) mod all_webhooks;
pub(crate) mod dead_letters;

use crate::access::actor::SignedIn;
use crate::access::prelude::*;
use crate::request::email_address::EmailAddress;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use revoke_created::CreatedBy;
use service_kit::auth::SessionUser;
use sign_in::account;

/// A signed-in person with their address.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) user_id: UserId,
    pub(crate) email: String,
    is_operator: bool,
}

/// A signed-in operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator(pub(crate) UserId);

impl Person {
    pub(crate) fn author(&self) -> Author {
        Author::User(self.user_id)
    }
}

impl FromRequestParts<Arc<State>> for Person {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let SignedIn(SessionUser { user_id, .. }) = SignedIn::from_request_parts(parts, state).await?;
        let (email, is_operator): (String, bool) =
            sqlx::query_as("SELECT email, is_operator FROM users WHERE id = $1").bind(user_id.0).fetch_one(&state.pool).await?;
        Ok(Self { user_id, email, is_operator })
    }
}

impl FromRequestParts<Arc<State>> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let person = Person::from_request_parts(parts, state).await?;
        if person.is_operator { Ok(Self(person.user_id)) } else { Err(operators_only()) }
    }
}

fn operators_only() -> ApiError {
    ApiError::new(Code::Forbidden, "Only operators can do this.")
}

/// Locks a person's row until the transaction ends, which serializes checks of their limits.
pub(crate) async fn lock(transaction: &mut PgConnection, user: UserId) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE").bind(user.0).execute(transaction).await.map(drop)
}

#[derive(Debug, Serialize, sqlx::FromRow)]
pub(crate) struct OperatorRow {
    id: Uuid,
    email: String,
    is_operator: bool,
    #[serde(serialize_with = "schemas::instant::serialize")]
    created_at: DateTime<Utc>,
}

pub(crate) async fn find_operator(pool: &PgPool, email: &EmailAddress) -> Result<Option<UserId>, sqlx::Error> {
    let id: Option<Uuid> = sqlx::query_scalar("SELECT id FROM users WHERE email = $1 AND is_operator")
        .bind(email.as_str())
        .fetch_optional(pool)
        .await?;
    Ok(id.map(UserId))
}

pub(crate) async fn operators(connection: &mut PgConnection) -> Result<Vec<OperatorRow>, sqlx::Error> {
    sqlx::query_as("SELECT id, email, is_operator, created_at FROM users WHERE is_operator ORDER BY created_at, id")
        .fetch_all(connection)
        .await
}

/// Makes a person an operator. Idempotent.
pub(crate) async fn add_operator(
    transaction: &mut PgConnection,
    author: Author,
    email: &EmailAddress,
    now: DateTime<Utc>,
) -> Result<OperatorRow, ApiError> {
    let user = account::find_or_create(transaction, Some(author), email, now).await?;
    set_operator(transaction, author, user, true, now).await
}

/// Removes a person's operator role and ends their sessions. Unless `keep_keys` is set, revokes the keys that they created for any
/// organization.
pub(crate) async fn remove_operator(
    transaction: &mut PgConnection,
    author: Author,
    email: &EmailAddress,
    keep_keys: bool,
    now: DateTime<Utc>,
) -> Result<OperatorRow, ApiError> {
    let user: Option<Uuid> = sqlx::query_scalar("SELECT id FROM users WHERE email = $1 AND is_operator FOR NO KEY UPDATE")
        .bind(email.as_str())
        .fetch_optional(&mut *transaction)
        .await?;
    let user = user.ok_or_else(|| ApiError::new(Code::NotFound, "No operator has this email address."))?;
    if !keep_keys {
        revoke_created::revoke_created(transaction, author, CreatedBy::Operator(UserId(user)), now).await?;
    }
    set_operator(transaction, author, UserId(user), false, now).await
}

async fn set_operator(
    transaction: &mut PgConnection,
    author: Author,
    user: UserId,
    is_operator: bool,
    now: DateTime<Utc>,
) -> Result<OperatorRow, ApiError> {
    let changed = sqlx::query("UPDATE users SET is_operator = $2 WHERE id = $1 AND is_operator <> $2")
        .bind(user.0)
        .bind(is_operator)
        .execute(&mut *transaction)
        .await?;
    if changed.rows_affected() == 1 {
        let action = if is_operator { "operator.added" } else { "operator.removed" };
        let change = Change { action, object_kind: "user", object_id: user.0, detail: json!({}) };
        audit::record_by(transaction, author, None, now, change).await?;
        user_sessions::end_all(transaction, author, user, now).await?;
    }
    let row = sqlx::query_as("SELECT id, email, is_operator, created_at FROM users WHERE id = $1")
        .bind(user.0)
        .fetch_one(transaction)
        .await?;
    Ok(row)
}
